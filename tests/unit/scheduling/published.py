"""The policies of the FGD paper in plain loops over one node: what the array code is held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alnair.simulate.trace import Job

CARD = 1000


@dataclass(frozen=True)
class PlainNode:
    cpu: int
    cards: tuple[int, ...]  # thousandths free
    model: str
    kinds: tuple[str, ...] = ()  # of the pods with a GPU that are there


def can_run(node: PlainNode, job: Job) -> bool:
    if job.models and node.model not in job.models:
        return False
    return node.cpu >= job.cpu and sum(free >= job.gpu for free in node.cards) >= job.cards


def fragmentation(node: PlainNode, mix: Sequence[tuple[Job, float]]) -> float:
    total = 0.0
    for job, share in mix:
        if not job.cards or not can_run(node, job):
            total += share * sum(node.cards)
        else:
            total += share * sum(free for free in node.cards if free < job.gpu)
    return total


def after(node: PlainNode, job: Job, taken: Sequence[int]) -> PlainNode:
    cards = [free - job.gpu if index in taken else free for index, free in enumerate(node.cards)]
    return PlainNode(node.cpu - job.cpu, tuple(cards), node.model)


def choices(node: PlainNode, job: Job) -> list[list[int]]:
    """The sets of cards that FGD looks at."""
    fitting = [index for index, free in enumerate(node.cards) if free >= job.gpu]
    if job.cards == 1 and job.gpu < CARD:
        return [[index] for index in fitting]
    return [sorted(fitting, key=lambda index: node.cards[index])[: job.cards]]


def fgd(node: PlainNode, job: Job, mix: Sequence[tuple[Job, float]]) -> int:
    before = fragmentation(node, mix)
    falls = [(before - fragmentation(after(node, job, taken), mix)) / CARD for taken in choices(node, job)]
    return max(int(100 / (1 + math.exp(-fall)) + 1e-9) for fall in falls)


def best_fit(node: PlainNode, job: Job) -> int:
    left = (node.cpu - job.cpu) / 128_000 * 0.5
    left += (sum(node.cards) - job.gpu_milli) / 8000 * 0.5
    return int((1 - left) * 100 + 5e-7)


def dot_product(node: PlainNode, job: Job) -> int:
    product = node.cpu / 128_000 * job.cpu / 128_000 + sum(node.cards) / 8000 * job.gpu_milli / 8000
    return int((1 - product / 2) * 100 + 5e-7)


def packing(node: PlainNode, job: Job) -> int:
    idle = sum(free == CARD for free in node.cards)
    if idle == len(node.cards):
        return max(33 - idle, idle)
    taken = [node.cards[index] for index in choices_tightest(node, job)]
    fresh = sum(free == CARD for free in taken)
    if fresh:
        return max(50 - fresh, 33)
    return max(100 - sum(free * 100 // CARD for free in taken) // 10, 50)


def choices_tightest(node: PlainNode, job: Job) -> list[int]:
    fitting = [index for index, free in enumerate(node.cards) if free >= job.gpu]
    return sorted(fitting, key=lambda index: node.cards[index])[: job.cards]


def clustering(node: PlainNode, job: Job, kind: str) -> int:
    used = 25 * (8000 - sum(node.cards)) // 8000
    if kind in node.kinds:
        return used + (75 if len(set(node.kinds)) == 1 else 50)
    return used + (0 if node.kinds else 25)
