"""Places for members to come: taken in memory at once, committed in the record, given back when nobody comes.

For members that an elastic gang grows by they are committed before its replicas are raised; for a member that was lost,
in the very write that drops it. In the books they are held like pods' slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from alnair.api.allocation import REPLACEMENT
from alnair.kube import Refused
from alnair.ledger.errors import CommitRefused, RecordMoved, TooLarge
from alnair.ledger.records import ROLLING_BACK, Member, Place, Record
from alnair.state.charges import guest
from alnair.state.holding import Holding
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass

if TYPE_CHECKING:
    from alnair.ledger.ledger import Ledger


def reserve(
    ledger: Ledger, record: Record, holdings: Iterable[Holding], *, pod: PodClass, reason: str, until: str
) -> list[Place]:
    """Take places in memory, at once. `write_size` or `carry_out` must follow: until then no pod may be made for them,
    and no write of the record may tell of them."""
    places = []
    for holding in holdings:
        place = record.new_place(holding, reason=reason, until=until, pod=pod)
        place.planned = True
        record.places[place.key] = place
        ledger.state.reserve(place.key, holding, pod)
        places.append(place)
    return places


async def write_size(ledger: Ledger, record: Record, size: int, places: Sequence[Place] = ()) -> None:
    """Commit these places, and how many members the gang is to have. Raises CommitRefused or RecordMoved when
    nothing was decided."""
    async with ledger.writing(record):
        fresh = [place for place in places if place.planned]  # another's commit may have told of them
        if record.closing or record.phase == ROLLING_BACK or not record.satisfied:
            _drop(ledger, record, [place.key for place in fresh])
            raise RecordMoved(str(record))
        before = record.size, record.size_before
        record.size, record.size_before = size, record.size
        for place in fresh:
            place.planned = False
        try:
            record.must_fit()
            await ledger.writer.write(record, commit=True)
        except (Refused, TooLarge) as refused:
            record.size, record.size_before = before
            _drop(ledger, record, [place.key for place in fresh])
            ledger.settle_soon(record)
            raise CommitRefused(str(refused)) from refused


async def release(ledger: Ledger, record: Record, keys: Iterable[str]) -> None:
    """Nobody comes to these places any more."""
    async with ledger.writing(record):
        dropped = {key: record.places[key] for key in keys if key in record.places}
        # A place that a plan under way has taken is not there to be dropped.
        taken = {member.replaces for member in record.planned.values()}
        dropped = {key: place for key, place in dropped.items() if key not in taken}
        if record.closing or not dropped:
            return
        before = record.places
        record.places = {key: place for key, place in before.items() if key not in dropped}
        try:
            await ledger.writer.write(record)
        except Refused:
            record.places = before
            raise
        ledger.forget(dropped)
        ledger.listener.record_shrunk(record)


def _drop(ledger: Ledger, record: Record, keys: Iterable[str]) -> None:
    for key in keys:
        if record.places.pop(key, None) is not None:
            ledger.forget([key])


def furnish(ledger: Ledger, record: Record, pod: PodClass) -> None:
    """What comes to the places of a record that we took over: pods like this one."""
    for place in record.places.values():
        if place.pod is None:
            place.pod = pod
            if place.key in ledger.state.holdings:
                ledger.state.reserve(place.key, place.holding, pod)


def keep(ledger: Ledger, record: Record, member: Member, seconds: float) -> Place:
    until = ledger.clock.stamp(after=seconds)
    place = record.new_place(member.holding, reason=REPLACEMENT, until=until, pod=member.pod)
    record.places[place.key] = place
    return place


def note_leaving(member: Member, pod: Pod) -> None:
    """Who it was, for whoever has to decide whether another one comes in its stead."""
    member.pod = guest(pod)
    # Of a pod that was told to go its kubelet may say Failed too, for it did not end well: that is no failure.
    member.failed = member.failed or (pod.phase == "Failed" and not pod.terminating)
    member.returns = pod.controlled and pod.phase != "Succeeded"
