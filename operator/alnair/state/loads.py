"""How busy cards and nodes are, as far as somebody measured it and as long as that still says something.

A reading counts in full while it is fresh, then half as much with each half-life, then nothing at all (`Decay`). What
was never measured, and what was forgotten, has the weight 0: nobody knows, which is neither idle nor busy.

When was it read? When the reading says so itself (`time`). Else when its text changed under our eyes: a profiler that
has nothing new to say writes nothing, so text that stays the same grows old, whatever else happens to the node. All
readings of a node are one patch of one profiler, so one of them that changed vouches for the others. Text that was
there before us is as old as its entry in `metadata.managedFields`, or just read where there is none.

Loads are a wish of scorers and pickers. What must never happen here: that they make room, or wake whoever waits for
some. They have a version of their own, so that a card that got warmer is no change of the books.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from alnair.api import names
from alnair.state import wire
from alnair.state.readings import Reading, card_read, node_read, stamp_read

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

STEPS = 8  # of a weight on its way down: so often a node that nobody reads any more is rated anew
NEVER = -np.inf
NOT_READ = (None, None, None)
_CARD = f"{names.PREFIX}gpu-"
_OWNED = re.compile(rb'"f:ai\.centaurus\.io/(?:gpu-[0-9]{1,2}|node-util)"')


@dataclass(frozen=True, slots=True)
class Decay:
    """In seconds; the defaults are for a profiler that writes every 30."""

    fresh: float = 60.0
    half_life: float = 60.0
    forgotten: float = 300.0

    def weights(self, ages: Floats) -> Floats:
        """From 1 to 0, in steps: rounded up, so that it is 1 at least as long as the reading is fresh."""
        falling = np.exp2(-np.maximum(ages - self.fresh, 0.0) / self.half_life)
        return np.where(ages >= self.forgotten, 0.0, np.ceil(falling * STEPS) / STEPS)

    def weight(self, age: float) -> float:
        """The same for one: nearly all are fresh when they are written."""
        if age <= self.fresh:
            return 1.0
        return float(self.weights(np.array(age))) if age < self.forgotten else 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """Arrays over nodes (N) and cards (C). Loads are from 0 (idle) to 1, and mean nothing where their weight is 0."""

    cards: Floats  # N x C x 3: compute, memory bandwidth, memory
    card_weights: Floats  # N x C x 3
    nodes: Floats  # N x 2: CPU, I/O
    node_weights: Floats  # N x 2
    free_compute: Ints  # N x C: what was free of the card when it was read, in per cent
    free_memory: Ints  # N x C, MiB
    version: int
    changed_at: Ints  # N: version of the row's last change

    def at(self, part: slice | Ints) -> Load:
        """Of these nodes."""
        return Load(
            self.cards[part],
            self.card_weights[part],
            self.nodes[part],
            self.node_weights[part],
            self.free_compute[part],
            self.free_memory[part],
            self.version,
            self.changed_at[part],
        )

    def sealed(self) -> Load:
        """The same numbers, and whoever writes to them gets an error."""
        arrays = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "version"}
        sealed = {name: array.view() for name, array in arrays.items()}
        for array in sealed.values():
            array.flags.writeable = False
        return replace(self, **sealed)


@dataclass(frozen=True, slots=True)
class Told:
    """A node's readings, each with the moment at which it was made."""

    texts: int  # a hash of them all
    cards: tuple[tuple[int, Reading, float], ...]  # (index as the driver counts, reading, moment)
    node: tuple[Reading, float]
    problems: tuple[str, ...]


class Loads:
    """Not thread-safe. Moments are those of the caller's clock that never jumps; `wall` is the time of day."""

    def __init__(self, decay: Decay | None = None) -> None:
        self.decay = decay or Decay()
        self.version = 0
        self._now = 0.0
        self._told: dict[str, Told] = {}
        self._seats: dict[str, tuple[int, Mapping[int, int]]] = {}  # node -> row, card's index -> its column
        self._allocate(rows=0, cards=1)

    # -- what is told --------------------------------------------------------------------------------------------

    def put(
        self,
        node: str,
        annotations: Mapping[str, str],
        *,
        now: float,
        wall: float,
        managed: msgspec.Raw = wire.ABSENT,
    ) -> int | None:
        """The node's readings, seen now. Returns the row that they changed; None: they are what they were."""
        texts = {key: text for key, text in annotations.items() if _is_reading(key)}
        before = self._told.get(node)
        fingerprint = hash(frozenset(texts.items()))
        if before is None and not texts:
            return None
        if before is not None and before.texts == fingerprint:
            return None
        self._now = now
        if texts:
            age = _age(managed, wall) if before is None else 0.0
            self._told[node] = _told(texts, fingerprint, now=now, wall=wall, age=age)
        else:
            del self._told[node]
        return self._write(node) if node in self._seats else None

    def problems(self, node: str) -> tuple[str, ...]:
        """What cannot be read, one sentence each, the same as long as the same fields are wrong."""
        told = self._told.get(node)
        return told.problems if told is not None else ()

    def drop(self, node: str) -> None:
        self._told.pop(node, None)
        if (seat := self._seats.pop(node, None)) is not None:
            self._clear(seat[0])

    def pass_time(self, now: float) -> None:
        """Let what is old count less."""
        self._now = now
        if not self._told:
            return
        cards, nodes = self.decay.weights(now - self._card_read), self.decay.weights(now - self._node_read)
        moved = (cards != self._card_fresh).any(axis=1) | (nodes != self._node_fresh)
        if moved.any():
            self._card_fresh[:], self._node_fresh[:] = cards, nodes
            self._weigh(np.flatnonzero(moved))

    def adopt(self, decay: Decay) -> None:
        """Old is something else from now on."""
        self.decay = decay
        self.pass_time(self._now)

    # -- where it is ---------------------------------------------------------------------------------------------

    def seat(self, node: str, row: int, indexes: Sequence[int]) -> None:
        """The node's cards, by their indexes, stand in this row and in this order."""
        columns = {index: column for column, index in enumerate(indexes)}
        if self._seats.get(node) != (row, columns):
            self._seats[node] = (row, columns)
            if node in self._told:
                self._write(node)

    def resize(self, rows: int, cards: int) -> None:
        old = self._arrays()
        self._allocate(rows=rows, cards=cards)
        for array, source in zip(self._arrays(), old, strict=True):
            array[tuple(slice(size) for size in source.shape)] = source

    def load(self) -> Load:
        return Load(
            self._cards,
            self._card_weights,
            self._nodes,
            self._node_weights,
            self.free_compute,
            self.free_memory,
            self.version,
            self._changed_at,
        )

    # -- rows ----------------------------------------------------------------------------------------------------

    def _write(self, node: str) -> int:
        row, columns = self._seats[node]
        told = self._told.get(node)
        if told is None:
            self._clear(row)
            return row
        of_cards: list[tuple[tuple[float | None, ...], float]] = [(NOT_READ, NEVER)] * self._card_read.shape[
            1
        ]
        for index, reading, moment in told.cards:
            if (column := columns.get(index)) is not None:
                of_cards[column] = reading.loads, moment
        # A row at once: writing card by card costs three times as much, and every node is written all the time.
        self._cards[row] = [[load or 0.0 for load in loads] for loads, _ in of_cards]
        self._card_told[row] = [[load is not None for load in loads] for loads, _ in of_cards]
        self._card_read[row] = [moment for _, moment in of_cards]
        self._card_fresh[row] = [self.decay.weight(self._now - moment) for _, moment in of_cards]
        reading, moment = told.node
        self._nodes[row] = [load or 0.0 for load in reading.loads]
        self._node_told[row] = [load is not None for load in reading.loads]
        self._node_read[row], self._node_fresh[row] = moment, self.decay.weight(self._now - moment)
        self._weigh(row)
        return row

    def _weigh(self, rows: Ints | int) -> None:
        self._card_weights[rows] = self._card_fresh[rows][..., None] * self._card_told[rows]
        self._node_weights[rows] = self._node_fresh[rows][..., None] * self._node_told[rows]
        self.version += 1
        self._changed_at[rows] = self.version

    def _clear(self, row: int) -> None:
        for array in self._arrays():
            array[row] = 0
        self._card_read[row] = self._node_read[row] = NEVER
        self.version += 1
        self._changed_at[row] = self.version

    def _allocate(self, *, rows: int, cards: int) -> None:
        self._cards = np.zeros((rows, cards, 3))
        self._card_told = np.zeros((rows, cards, 3), dtype=np.bool_)
        self._card_weights = np.zeros((rows, cards, 3))
        self._card_fresh: Floats = np.zeros((rows, cards))
        self._card_read: Floats = np.full((rows, cards), NEVER)
        self._nodes = np.zeros((rows, 2))
        self._node_told = np.zeros((rows, 2), dtype=np.bool_)
        self._node_weights = np.zeros((rows, 2))
        self._node_fresh: Floats = np.zeros(rows)
        self._node_read: Floats = np.full(rows, NEVER)
        self.free_compute: Ints = np.zeros((rows, cards), dtype=np.int64)
        self.free_memory: Ints = np.zeros((rows, cards), dtype=np.int64)
        self._changed_at: Ints = np.zeros(rows, dtype=np.int64)

    def _arrays(self) -> tuple[Floats | Bools | Ints, ...]:
        return (
            self._cards,
            self._card_told,
            self._card_weights,
            self._card_fresh,
            self._card_read,
            self._nodes,
            self._node_told,
            self._node_weights,
            self._node_fresh,
            self._node_read,
            self.free_compute,
            self.free_memory,
            self._changed_at,
        )


def _is_reading(key: str) -> bool:
    return key == names.NODE_READING or (key.startswith(_CARD) and bool(names.GPU_READING.fullmatch(key)))


def _told(texts: Mapping[str, str], fingerprint: int, *, now: float, wall: float, age: float) -> Told:
    """`age`: of those that do not say when they were made. A clock that runs ahead of ours makes nothing younger than
    now."""

    def moment(reading: Reading) -> float:
        return now - (age if reading.at is None else max(0.0, wall - reading.at))

    cards, node, problems = [], node_read("{}"), []
    for key, text in sorted(texts.items()):
        if key == names.NODE_READING:
            reading = node = node_read(text)
        else:
            reading = card_read(text)
            cards.append((int(key.removeprefix(_CARD)), reading, moment(reading)))
        if reading.bad:
            problems.append(f"annotation {key}: {'; '.join(reading.bad)}; what cannot be read is ignored")
    return Told(fingerprint, tuple(cards), (node, moment(node)), tuple(problems))


def _age(managed: msgspec.Raw, wall: float) -> float:
    """How long ago the readings were last written, as the apiserver noted it; 0 where it did not."""
    try:
        entries = msgspec.json.decode(managed, type=list[wire.ManagedFields]) if wire.present(managed) else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0.0
    written = [stamp_read(each.time) for each in entries if _OWNED.search(bytes(each.fields))]
    return max(0.0, wall - max((at for at in written if at is not None), default=wall))
