"""NodeVolumeLimits: the node can attach as many more volumes of each driver as the pod brings.

A volume that is on the node already costs nothing. A claim that has no volume yet counts for the driver that will make
it. Nodes that name no limit have none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Scope, without
from alnair.state.attachments import Handle
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class NodeVolumeLimits:
    name = "NodeVolumeLimits"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.claims or pod.shape.disks) and any(True for _ in self._counted(pod, draft))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for _, needed, room in self._counted(pod, draft):
            mask &= (room >= needed)[draft.rows]
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        reasons = []
        for driver, needed, room in self._counted(pod, draft):
            rows = draft.rows[failed]
            lacking = failed[room[rows] < needed[rows]]
            if len(lacking):
                rows = draft.rows[lacking]
                most, left = int(needed[rows].max()), max(int(room[rows].max()), 0)
                told = f"does not attach more volumes of driver {driver} ({most} needed, at most {left} left)"
                reasons.append((told, lacking))
                failed = without(failed, lacking)
        return reasons

    @staticmethod
    def _counted(pod: PodClass, draft: Draft) -> Iterable[tuple[str, Ints, Ints]]:
        """For each driver with a limit somewhere: how many volumes the pod adds to each row, and how many go there."""
        attached = draft.volumes.attached
        by_driver: defaultdict[str, list[Handle]] = defaultdict(list)
        for handle in attached.handles(pod.shape):
            by_driver[handle[0]].append(handle)
        for driver, handles in sorted(by_driver.items()):
            room = attached.room(driver)
            if room is None:
                continue
            needed = np.full(len(room), len(handles))
            for handle in handles:
                needed[list(attached.rows_with(handle))] -= 1
            yield driver, needed, np.where(needed > 0, room, np.maximum(room, 0))
