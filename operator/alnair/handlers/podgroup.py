"""Kopf: PodGroups. What their authors write goes to the roster; what became of them is written by control.reports.

Only `on.event` is used, here and for the other kinds: it writes nothing to the objects. Kopf's create/update
handlers would keep their progress in annotations, which a replica that does not lead must not write.

Every status that we write comes back as an event. It says nothing that we do not know, so a group whose spec and
wishes did not change is let pass by `when`, before Kopf makes a handler's call of it.
"""

from __future__ import annotations

from typing import Any

import kopf

from alnair.api import names
from alnair.api.nearness import Wish
from alnair.api.peaks import Peak
from alnair.control.gangs import Roster, annotated_peak, annotated_wish, read_group
from alnair.handlers.handover import Handover


def register(registry: kopf.OperatorRegistry, handover: Handover[Roster]) -> None:
    seen: dict[str, tuple[int, Wish | None, Peak | None]] = {}  # UID -> generation, and what annotations say

    def is_news(event: kopf.RawEvent, **_: Any) -> bool:
        meta: Any = event["object"]["metadata"]
        if event["type"] == "DELETED":
            seen.pop(meta["uid"], None)
            return True
        before = seen.get(meta["uid"])
        now = (int(meta.get("generation") or 0), annotated_wish(meta), annotated_peak(meta))
        seen[meta["uid"]] = now
        return event["type"] is None or before != now

    @kopf.on.event(
        names.GROUP_PODGROUP,
        names.VERSION_PODGROUP,
        names.PLURAL_PODGROUP,
        registry=registry,
        when=is_news,
    )
    async def podgroup_changed(event: kopf.RawEvent, **_: Any) -> None:
        handover.call(apply, event["type"], dict(event["object"]))


def apply(roster: Roster, kind: str | None, manifest: dict[str, Any]) -> None:
    meta = manifest["metadata"]
    if kind == "DELETED":
        roster.drop_group(meta["namespace"], meta["name"], meta["uid"])
    else:
        roster.put_group(read_group(manifest), listed=kind is None)
