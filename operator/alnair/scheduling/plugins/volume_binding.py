"""VolumeBinding: the node reaches the volumes that the pod's claims have, and the claims that wait get one there.

A claim that should have its volume by now and has not, or that is not there at all, keeps its pod off every node. One
that waits for its first consumer gets the smallest volume that serves it and that the node reaches, or else a new one,
where its class may make one. Which volume that is hangs on what other pods were promised, members of one gang included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alnair.scheduling.plugins.interface import Scope, without
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class VolumeBinding:
    name = "VolumeBinding"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.claims)

    def awaits(self, pod: PodClass, draft: Draft) -> bool:
        """Volumes are awaited, and pods only ever take them."""
        return False

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for _, failing in self._lacks(pod, draft):
            mask &= ~failing[draft.rows]
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        reasons = []
        for phrase, failing in self._lacks(pod, draft):
            lacking = failed[failing[draft.rows[failed]]]
            if len(lacking):
                reasons.append((phrase, lacking))
                failed = without(failed, lacking)  # each node is counted once, for its first lack
        return reasons

    @staticmethod
    def _lacks(pod: PodClass, draft: Draft) -> Iterable[tuple[str, Bools]]:
        """Phrase, and the rows of the books where it is so."""
        volumes = draft.volumes
        claims = volumes.sort(pod.shape.claims)
        if claims.problem:
            yield claims.problem, volumes.reach.everywhere()
            return
        for claim in claims.bound:
            volume = volumes.volumes.get(claim.volume)
            if volume is None:
                lost = f"has no volume for claim {claim}: its volume {claim.volume} does not exist"
                yield lost, volumes.reach.everywhere()
            else:
                yield f"is out of reach of volume {volume.key} of claim {claim}", ~volumes.reached(volume)
        if claims.waiting:
            yield from volumes.choices(claims.waiting).failing
