"""Remembered ratings: true of the profile that is asked, and nothing is kept of one that is gone."""

from __future__ import annotations

from dataclasses import replace

from alnair.scheduling.board import Boards
from harness.builders import node, pod
from unit.builders import PACK, Cluster


def test_a_profile_that_is_made_anew_is_asked_and_takes_the_place_of_the_old_one() -> None:
    cluster, boards = Cluster(node("a"), node("b")), Boards()
    asking = cluster.kind(pod("p").asking(cpu="1"))
    with cluster.state.draft() as draft:
        before = boards.rated(asking, PACK, draft)
        assert boards.rated(asking, PACK, draft) is before
        for _ in range(3):
            anew = replace(PACK)
            assert boards.rated(asking, anew, draft) is not before
    assert len(boards._boards) == 1
