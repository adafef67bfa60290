"""Cards that fail under running pods: the record keeps what was decided, and says in a condition what became of it.

A record whose cards are gone, unhealthy or too small for what is held on them has the condition `CardsHealthy` False,
with the cards and pods by name; when all are well again it is True. What is held stays held: only the end of its pod
releases a slice. The condition is written when there is a lull, and only if it says something new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from alnair.kube import Refused
from alnair.ledger.records import Member, Record
from alnair.state.cluster import ClusterState
from alnair.state.inventory.changes import GONE, SHRUNK, TROUBLES, UNHEALTHY

if TYPE_CHECKING:
    from alnair.ledger.ledger import Ledger

log = logging.getLogger(__name__)

CONDITION = "CardsHealthy"
RECOVERED = "CardsRecovered"
LOCKED_PAUSE = 2.0  # between looks at a record that somebody else is writing
REFUSED_PAUSE = 30.0  # before what was refused is said again
LONGEST_MESSAGE = 1024
CARDS_SHOWN, PODS_SHOWN = 4, 3

Trouble = tuple[str, str, str, str]  # reason, node, card, what is the matter


def observe(ledger: Ledger, node: str) -> None:
    """The node's cards are others than before, or somebody who shared a failed one is gone."""
    if not ledger.recovered:
        return
    records = {
        record for uid in ledger.state.charged_to(node) if (record := ledger.record_of(uid)) is not None
    }
    troubled = False
    for record in records:
        troubled = _look(ledger, record) or troubled
    (ledger.troubled.add if troubled else ledger.troubled.discard)(node)


def observe_all(ledger: Ledger) -> None:
    """After a start: what a predecessor did not live to write."""
    for record in list(ledger.records.values()):
        if _look(ledger, record):
            ledger.troubled |= {member.holding.node for member in record.members.values()}


def released(ledger: Ledger, node: str, record: Record | None) -> None:
    """A slice on a node with failed cards is nobody's any more: others may have room again."""
    observe(ledger, node)
    if record is not None and not record.closing:
        _look(ledger, record)


def _look(ledger: Ledger, record: Record) -> bool:
    """Whether anything is the matter with its cards; told soon, if that is news."""
    found = troubles(ledger.state, record.members.values())
    if _condition(record, found) is not None and record not in ledger.telling:
        ledger.telling.add(record)
        ledger.spawn(_tell(ledger, record), f"cards of {record}")
    return bool(found)


async def _tell(ledger: Ledger, record: Record) -> None:
    try:
        while not record.closing:
            pause = LOCKED_PAUSE
            async with ledger.lull.errand():
                # Whoever has the lock may wait for minutes: not in an errand's place.
                if not record.lock.locked():
                    ledger.telling.discard(record)  # what changes from here on is news again
                    if await _write(ledger, record) or record in ledger.telling:
                        return
                    ledger.telling.add(record)
                    pause = REFUSED_PAUSE
            await asyncio.sleep(pause)
    finally:
        ledger.telling.discard(record)


async def _write(ledger: Ledger, record: Record) -> bool:
    """False: it was refused."""
    async with ledger.writing(record):
        found = troubles(ledger.state, record.members.values())
        news = _condition(record, found)
        if news is None or record.closing or not (record.exists and record.members):
            return True
        before = record.conditions
        record.set_condition(news, now=ledger.clock.stamp())
        try:
            await ledger.writer.write(record)
        except Refused as refused:
            record.conditions = before
            log.error("record %s: what became of its cards could not be written: %s", record, refused)
            return False
    cards = {(node, card) for _, node, card, _ in found}
    concerned = [
        member
        for member in record.members.values()
        if any((member.holding.node, card) in cards for card in member.holding.cards)
    ]
    ledger.listener.cards_changed(record, news, concerned)
    return True


# -- what is the matter --------------------------------------------------------------------------------------------


def troubles(state: ClusterState, members: Iterable[Member]) -> dict[Trouble, list[str]]:
    """What is the matter with the cards that these hold -> the pods that hold them."""
    found: dict[Trouble, list[str]] = {}
    for member in members:
        if member.gone:
            continue
        for card in member.holding.cards:
            trouble = _trouble(state, member.holding.node, card)
            if trouble is not None:
                found.setdefault(trouble, []).append(member.name)
    return found


def _trouble(state: ClusterState, node: str, name: str) -> Trouble | None:
    inventory = state.inventories.get(node)
    if inventory is None:
        return None  # the node is gone: its pods will be too, and that is another story
    card = inventory.card(name)
    if card is None:
        what = f"is called otherwise by {inventory.source} now" if inventory.renamed else "is gone"
        return GONE, node, name, what
    if not card.healthy and not inventory.renamed:
        return UNHEALTHY, node, name, f"takes nothing new: {card.why}" if card.why else "is unhealthy"
    if left := state.overcommitted(node).get(name):
        return SHRUNK, node, name, f"has only {left} now, less than is held on it"
    return None


def _condition(record: Record, found: dict[Trouble, list[str]]) -> dict[str, Any] | None:
    """What the record should say and does not."""
    said = record.condition(CONDITION)
    if not found:
        if said is None or said.get("status") == "True":
            return None
        return {
            "type": CONDITION,
            "status": "True",
            "reason": RECOVERED,
            "message": "all cards are well again",
        }
    worst = min(found, key=lambda trouble: TROUBLES.index(trouble[0]))[0]
    news = {"type": CONDITION, "status": "False", "reason": worst, "message": _message(found)}
    return None if said is not None and news.items() <= said.items() else news


def _message(found: dict[Trouble, list[str]]) -> str:
    parts = []
    for trouble, pods in sorted(found.items())[:CARDS_SHOWN]:
        _, node, card, what = trouble
        parts.append(f"card {card} on node {node} {what}; held by {_some(sorted(pods), PODS_SHOWN)}")
    more = f". {len(found) - CARDS_SHOWN} more cards failed" if len(found) > CARDS_SHOWN else ""
    return (". ".join(parts) + more)[:LONGEST_MESSAGE]


def _some(things: list[str], most: int) -> str:
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return ", ".join(things[:most]) + more
