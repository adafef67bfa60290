"""Potential: put a pod where it leaves the least that nobody will be able to use, going by what has come so far.

A node's potential is the GPU, in cards, that is likely to be wasted there for good (see leftovers):

    for each card in use   how much of what is free of it will stay free when many more slices have come
    for the node           the free GPU for which it will have no cpu left

The score is how much the potential falls (or how little it grows), then, a thousand times fainter, how full the node
is. An idle card is nobody's waste: it serves pods that want whole ones. Nodes that large requests will need are not
this rule's business, see protection.

A pod without a GPU request keeps off nodes with cards while others will do. Where pods ask for more cpu beside a card
than the cluster has, cpu and not cards will run out, and then those without a GPU count among what is to come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.mix import Habits, Kind, Mix
from alnair.scheduling.plugins.card_fractions import (
    CARD,
    asked_gpu,
    fitting,
    free_gpu,
    free_parts,
    has_cards,
    idle,
    main_demand,
    only,
    requested,
)
from alnair.scheduling.plugins.gpu_cards import advertised
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.scheduling.plugins.leftovers import Stranding, waste
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

FAINT = 0.001
LARGEST_CPU = 128_000
LARGEST_GPU = 8
SCARCE = (0.95, 1.0)  # of the cluster's cpu is asked for when its cards are: from here on, and fully
BURDEN = 0.2  # then, of the pods without a GPU, that nodes with free cards have to put up
FINE = 1_000_000_000  # of waste: less is no difference between two cards
MOST_TABLES = 64  # sizes of cards


@dataclass(frozen=True, slots=True)
class Supply:
    """What the cluster has in all: cpu in thousandths, cards, and the MiB of the commonest card, which a slice is
    taken for a part of where no card is in sight; and the most that one node with cards has."""

    cpu: int
    cards: int
    card_mib: int
    most_cpu: int
    most_cards: int


class Prospect:
    """What to expect by these habits; made anew when they have changed."""

    def __init__(self, habits: Habits, supply: Supply) -> None:
        self._sizes = [(kind, count) for kind, count in habits.kinds if kind.cards and not kind.whole]
        self._stranding = Stranding(
            [
                (kind.cards * _part(kind, supply), kind.cpu, count)
                for kind, count in habits.kinds
                if kind.cards
            ],
            [(kind.cpu, count) for kind, count in habits.kinds if not kind.cards],
            burden=burden(habits, supply),
            most_gpu=supply.most_cards,
            most_cpu=supply.most_cpu,
        )
        self._tables: dict[int, Floats] = {}

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        demand = main_demand(pod.shape)
        cpu = draft.free[:, draft.columns["cpu"]]
        parts = free_parts(draft)
        gpu = free_gpu(draft, parts)
        cpu_after = cpu - requested(pod.shape, "cpu")
        gpu_after, gain = gpu, np.zeros(len(gpu))
        if demand is not None and demand.whole:
            gpu_after = gpu - demand.cards
        elif demand is not None:
            gains = self._gains(demand, draft, parts, fitting(pod, demand, draft))
            best = gains.max(axis=1, keepdims=True) if demand.cards == 1 else -np.sort(-gains, axis=1)
            gain = best[:, : demand.cards].sum(axis=1)
            gpu_after = gpu - asked_gpu(demand, draft)
        # Before and after in one go: most often there are few nodes, and it is the number of steps that costs.
        both = np.concatenate((gpu, gpu_after)), np.concatenate((cpu, cpu_after))
        before, after = self._stranding.stranded(*both).reshape(2, -1)
        gain = gain + before - after
        if demand is None:
            gain = gain - has_cards(draft)
        gain -= FAINT * (gpu_after / LARGEST_GPU + cpu_after / LARGEST_CPU)
        return np.asarray(0.5 + 0.5 * gain / (1 + np.abs(gain)))

    def keys(self, demand: CardDemand, one: Draft, cards: Ints) -> Ints:
        """Of one node: these cards of it, smaller is better."""
        fits = np.zeros(one.card_memory.shape, dtype=np.bool_)
        fits[0, cards] = True
        gains = self._gains(demand, one, free_parts(one), fits)[0, cards]
        return np.asarray(np.rint(-FINE * gains), dtype=np.int64)

    def _gains(self, demand: CardDemand, draft: Draft, parts: Ints, fits: Bools) -> Floats:
        """N x C: by how much the waste of the card falls when the slice goes there."""
        memory, unused = draft.card_memory, idle(draft)
        size = int(memory.max(initial=0))
        alike = bool(((memory == size) | ~fits).all())  # most often so, and then nothing has to be sorted out
        gains = np.full(fits.shape, -2.0)
        for each in [size] if alike else np.unique(memory[fits]).tolist():
            if not each:
                continue
            table = self._table(each)
            here = fits if alike else fits & (memory == each)
            left = draft.card_free_memory - demand.memory_on(each)
            after = np.minimum(np.maximum(CARD * left // each, 0), CARD)
            gain = np.where(unused, 0.0, table[np.minimum(parts, CARD)]) - table[after]
            gains = np.where(here, gain, gains)
        return gains

    def _table(self, memory: int) -> Floats:
        table = self._tables.get(memory)
        if table is None:
            if len(self._tables) >= MOST_TABLES:
                self._tables.clear()
            table = self._tables[memory] = waste(self._relative(memory))
        return table

    def _relative(self, memory: int) -> list[tuple[int, float]]:
        """Sizes in thousandths of a card with so much memory, with how often they come."""
        sizes: dict[int, float] = {}
        for kind, count in self._sizes:
            part = 10 * kind.percent or -(-CARD * kind.mib // memory)
            if part <= CARD:
                sizes[part] = sizes.get(part, 0.0) + count
        return sorted(sizes.items())


class Potential:
    """Scores nodes and picks cards by what it has learned from arrivals."""

    name = "Potential"
    scope = Scope.ROW

    def __init__(self) -> None:
        self._mix = Mix()
        self._prospect: Prospect | None = None

    def arrived(self, pod: PodClass) -> bool:
        if not self._mix.note(pod.shape):
            return False
        self._prospect = None
        return True

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return self._in(draft).score(pod, draft)

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        """The card whose waste grows least; of whole cards, the first."""
        if demand.whole:
            return np.zeros(len(candidates), dtype=np.int64)
        return self._in(draft).keys(demand, only(draft, row), candidates)

    def _in(self, draft: Draft) -> Prospect:
        """What the cluster has in all is looked at when the habits are, so that all nodes are judged by one measure."""
        if self._prospect is None:
            self._prospect = Prospect(self._mix.habits(), supply_of(draft.all_nodes()))
        return self._prospect


def supply_of(draft: Draft) -> Supply:
    there = draft.card_memory > 0
    cards = np.where(draft.owned, there.sum(axis=1), advertised(draft))
    cpu = np.where(draft.exists, draft.allocatable[:, draft.columns["cpu"]], 0)
    sizes, times = np.unique(draft.card_memory[there], return_counts=True)
    return Supply(
        cpu=int(cpu.sum()),
        cards=int(cards.sum()),
        card_mib=int(sizes[times.argmax()]) if len(sizes) else 0,
        most_cpu=int(cpu[cards > 0].max(initial=0)),
        most_cards=int(cards.max(initial=0)),
    )


def _part(kind: Kind, supply: Supply) -> float:
    """Of the commonest card."""
    if kind.whole:
        return 1.0
    return min(kind.percent / 100 or kind.mib / max(supply.card_mib, 1), 1.0)


def burden(habits: Habits, supply: Supply) -> float:
    """The chance that a node with free cards has to put up a pod without a GPU that comes: none while cpu is plenty."""
    cards = sum(count * kind.cards * _part(kind, supply) for kind, count in habits.kinds)
    if not cards:
        return 0.0
    asked = sum(count * kind.cpu for kind, count in habits.kinds) / cards * supply.cards / max(supply.cpu, 1)
    low, high = SCARCE
    return BURDEN * min(max((asked - low) / (high - low), 0.0), 1.0)
