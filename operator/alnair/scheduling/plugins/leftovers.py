"""What will be left: how much of the free GPU of a card, and of a node, nobody will be able to use in the end.

Both are reckoned some arrivals ahead. Of each that fits, the better of taking and leaving it counts, as a placer would
have it that has other nodes to put it on:

    w0(state) = all that is free
    wk(state) = mean over kinds of min(wk-1(state), wk-1(state without what the kind takes))

A card's state is what is free of it; a node's is its free GPU and its free cpu, as if they were liquids. What is left
of a node for want of cpu alone is what is left beyond what plenty of cpu would leave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from alnair.scheduling.plugins.card_fractions import CARD
from alnair.scheduling.plugins.interface import Floats
from alnair.state.draft import Ints

CARD_AHEAD = 30  # slices; many more, and everything can be filled by somebody
NODE_AHEAD = 25  # pods
GPU_STEP, MOST_GPU_STEPS = 0.25, 64  # of a card; coarser for nodes with more than 16
CPU_STEPS = 64  # in the cpu of the largest node
MOST_KINDS = 128  # that a step tells apart, the commonest


def waste(sizes: Sequence[tuple[int, float]]) -> Floats:
    """0 to CARD: how much of what is free of a card in use will stay free, in cards. Sizes in thousandths."""
    left = np.arange(CARD + 1) / CARD
    total = sum(count for _, count in sizes)
    if not total:
        return left
    shares = np.array([count / total for _, count in sizes])
    after = np.arange(CARD + 1) - np.array([[size] for size, _ in sizes])
    after = np.where(after < 0, np.arange(CARD + 1), after)
    for _ in range(CARD_AHEAD):
        left = shares @ np.minimum(left, left[after])
    return np.asarray(left)


class Stranding:
    """The free GPU of a node for which it will have no cpu, in cards.

    `kinds` are (GPU in cards, cpu, how many) of pods with a GPU, `alone` (cpu, how many) of those without. The latter
    never make use of a card; `burden` is the chance that one of them has to be put up here all the same.
    """

    def __init__(
        self,
        kinds: Iterable[tuple[float, int, float]],
        alone: Iterable[tuple[int, float]],
        *,
        burden: float,
        most_gpu: float,
        most_cpu: int,
    ) -> None:
        self._gpu_step = max(GPU_STEP, most_gpu / MOST_GPU_STEPS)
        self._cpu_step = max(most_cpu / CPU_STEPS, 1.0)
        rows, columns = int(np.ceil(most_gpu / self._gpu_step)) + 1, CPU_STEPS + 1
        takers = _commonest(
            (max(round(gpu / self._gpu_step), 1), int(-(-cpu // self._cpu_step)), count)
            for gpu, cpu, count in kinds
        )
        others = _commonest((0, int(-(-cpu // self._cpu_step)), count) for cpu, count in alone)
        free = np.repeat(np.arange(rows)[:, None] * self._gpu_step, columns, axis=1)
        left = _ahead(free, takers, others, burden)
        left = np.maximum(left - left[:, -1:], 0.0)
        # Of each cell: what is there, what one step across adds, one step down, and both together beyond that.
        padded = np.pad(left, ((0, 1), (0, 1)), mode="edge")
        here, across, down = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1]
        slopes = (here, across - here, down - here, padded[1:, 1:] - across - down + here)
        self._cells = np.stack([slope.ravel() for slope in slopes])
        self._most, self._width = (float(rows - 1), float(columns - 1)), columns

    def stranded(self, gpu: Floats, cpu: Floats | Ints) -> Floats:
        """N: between the steps, in proportion."""
        down = np.minimum(np.maximum(gpu / self._gpu_step, 0.0), self._most[0])
        across = np.minimum(np.maximum(cpu / self._cpu_step, 0.0), self._most[1])
        row, column = down.astype(np.int64), across.astype(np.int64)
        down -= row
        across -= column
        here, to_right, below, twist = self._cells[:, row * self._width + column]
        return np.asarray(here + across * to_right + down * (below + across * twist))


def _commonest(steps: Iterable[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    counts: defaultdict[tuple[int, int], float] = defaultdict(float)
    for gpu, cpu, count in steps:
        counts[gpu, cpu] += count
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [(gpu, cpu, count) for (gpu, cpu), count in ordered[:MOST_KINDS]]


def _ahead(
    free: Floats, takers: list[tuple[int, int, float]], others: list[tuple[int, int, float]], burden: float
) -> Floats:
    """What is left of `free` (GPU steps x cpu steps) once NODE_AHEAD more pods with a GPU came, and others beside."""
    total = sum(count for *_, count in takers)
    if not total:
        return np.zeros(free.shape)
    taken, come = _without(takers, free.shape), _without(others, free.shape)
    shares = np.array([count / total for *_, count in takers])
    burdens = np.array([burden * count / total for *_, count in others])
    left = free
    for _ in range(NODE_AHEAD):
        flat = left.ravel()
        left = np.tensordot(shares, np.minimum(left, flat[taken]), axes=1)
        if burden and others:
            flat = left.ravel()
            left = left + np.tensordot(burdens, flat[come] - left, axes=1)
    return np.asarray(left)


def _without(steps: list[tuple[int, int, float]], shape: tuple[int, ...]) -> Ints:
    """Kinds x shape: where the state is once such a pod is there; where it was, if it does not fit."""
    rows, columns = np.indices(shape)
    here = rows * shape[1] + columns
    cells = np.empty((len(steps), *shape), dtype=np.int64)
    for number, (gpu, cpu, _) in enumerate(steps):
        fits = (rows >= gpu) & (columns >= cpu)
        cells[number] = np.where(fits, here - gpu * shape[1] - cpu, here)
    return cells
