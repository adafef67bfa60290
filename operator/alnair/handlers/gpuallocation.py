"""Kopf: GPUAllocations. The ledger writes them; what comes back is compared with what it wrote and put right."""

from __future__ import annotations

from typing import Any

import kopf

from alnair.api import names
from alnair.handlers.handover import Handover
from alnair.ledger import repair
from alnair.ledger.ledger import Ledger


def register(registry: kopf.OperatorRegistry, handover: Handover[Ledger]) -> None:
    @kopf.on.event(
        names.GROUP_ALLOCATION, names.VERSION_ALLOCATION, names.PLURAL_ALLOCATION, registry=registry
    )
    async def allocation_changed(event: kopf.RawEvent, **_: Any) -> None:
        handover.call(repair.observe, event["type"], dict(event["object"]))
