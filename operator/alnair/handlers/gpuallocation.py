"""Kopf: GPUAllocations. The ledger writes them; what comes back is compared with what it wrote and put right.

Most of what comes back is the ledger's own: a version that it has the apiserver's answer for is let pass by `when`,
before Kopf makes a handler's call of it.
"""

from __future__ import annotations

from typing import Any

import kopf

from alnair.api import names
from alnair.handlers.handover import Handover
from alnair.ledger import repair
from alnair.ledger.ledger import Ledger


def register(registry: kopf.OperatorRegistry, handover: Handover[Ledger]) -> None:
    def is_news(event: kopf.RawEvent, **_: Any) -> bool:
        # On Kopf's thread: only looks, and neither look lets the other thread in between.
        meta: Any = event["object"]["metadata"]
        ledger = handover.target
        record = ledger.records.get((meta["namespace"], meta["name"])) if ledger is not None else None
        return (
            record is None or event["type"] == "DELETED" or meta["resourceVersion"] not in record.own_versions
        )

    @kopf.on.event(
        names.GROUP_ALLOCATION,
        names.VERSION_ALLOCATION,
        names.PLURAL_ALLOCATION,
        registry=registry,
        when=is_news,
    )
    async def allocation_changed(event: kopf.RawEvent, **_: Any) -> None:
        handover.call(repair.observe, event["type"], dict(event["object"]))
