"""NodeReady: nodes that exist and whose kubelet says Ready."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.state.draft import Bools, Draft, Ints
from alnair.state.pods import PodShape


class NodeReady:
    name = "NodeReady"
    follows_usage = False

    def passes(self, shape: PodShape, draft: Draft) -> Bools:
        return draft.exists & draft.ready

    def reasons(self, shape: PodShape, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        return [("is not Ready", len(failed))]
