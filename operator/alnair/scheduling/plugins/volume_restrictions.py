"""VolumeRestrictions: no other pod has the claim, or on the node the disk, that only one pod may have.

A ReadWriteOncePod claim in use anywhere keeps others off every node. Of the old kinds of disk that a pod names without
a claim, one pod a node may have it, or several that all only read (an AWS disk not even then).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Model, stacked
from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.migration import AWS, GCE
from alnair.state.rules import ISCSI, RBD
from alnair.state.shapes import CLAIM, DISK, ClaimUse, Disk, PodClass
from alnair.state.storage import ONE_POD

EXCLUSIVE = frozenset({GCE, AWS, ISCSI, RBD})


class VolumeRestrictions:
    name = "VolumeRestrictions"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(any(disk.kind in EXCLUSIVE for disk in pod.shape.disks) or self._taken_claim(pod, draft))

    def awaits(self, pod: PodClass, draft: Draft) -> bool:
        """Others only ever take what is there."""
        return False

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        if self._taken_claim(pod, draft):
            return draft.exists & False
        taken: set[int] = set()
        for disk, rows in draft.company.brought(DISK).items():
            if isinstance(disk, Disk) and any(_conflict(disk, own) for own in pod.shape.disks):
                taken.update(rows)
        return ~draft.among(taken) & draft.exists

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        if claim := self._taken_claim(pod, draft):
            told = f"is no use: claim {claim} is for one pod alone (ReadWriteOncePod), and another pod has it"
            return [(told, failed)]
        return [("has a pod with the same disk already", failed)]

    @staticmethod
    def _taken_claim(pod: PodClass, draft: Draft) -> ClaimUse | None:
        """A claim of the pod's that is for one pod alone, and that another has."""
        for use in pod.shape.claims:
            claim = draft.volumes.claims.get(use.key) if not use.owner else None
            if claim is not None and ONE_POD in claim.modes and draft.company.brought(CLAIM).get(use.key):
                return use
        return None

    # -- for the exact search ------------------------------------------------------------------------------------

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        return self.passes(pod, draft)

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def constrain(self, model: Model) -> None:
        """One pod anywhere for a claim of that sort; on a node, one for a disk that is not shared."""
        users: dict[str, set[int]] = {}
        for number, each in enumerate(model.classes):
            for use in each.pod.shape.claims:
                claim = model.draft.volumes.claims.get(use.key) if not use.owner else None
                if claim is not None and ONE_POD in claim.modes:
                    users.setdefault(use.key, set()).add(number)
        for numbers in users.values():
            seats = model.seats[sorted(numbers)]
            model.add(np.zeros(seats.shape), seats, 1, most=[1])
        nodes = np.arange(len(model.nodes))
        disks = [each.pod.shape.disks for each in model.classes]
        alone = [any(_conflict(one, other) for one in own for other in own) for own in disks]
        for number in np.flatnonzero(alone).tolist():
            model.cap(model.seats[number], 1)
        for one, other in combinations(range(len(disks)), 2):
            if any(_conflict(own, theirs) for own in disks[one] for theirs in disks[other]):
                # Of two that conflict at least one writes, or its kind is never shared: it is alone on its node.
                single, many = (one, other) if alone[one] else (other, one)
                most = model.count(many)
                rows = stacked((nodes, model.seats[many], 1), (nodes, model.seats[single], most))
                model.add(*rows, most=np.full(len(nodes), most))


def _conflict(one: Disk, other: Disk) -> bool:
    if one.kind != other.kind or one.kind not in EXCLUSIVE:
        return False
    if one.kind == RBD:
        (pool, image, *monitors), (other_pool, other_image, *others) = one.id, other.id
        same = (pool, image) == (other_pool, other_image) and not set(monitors).isdisjoint(others)
    else:
        same = one.id == other.id
    return same and (one.kind == AWS or not (one.read_only and other.read_only))
