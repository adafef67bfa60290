"""What a pod's like used before: whose word counts."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.api.peaks import Peak
from alnair.control.gangs import Gang, read_group
from harness.builders import group, pod
from unit.builders import as_pod

WORDS = {"pod": "10", "group": "20", "controller": "30"}


@pytest.mark.parametrize(
    ("tellers", "heard"),
    [
        ((), None),
        (("controller",), 0.3),
        (("group", "controller"), 0.2),
        (("pod", "group", "controller"), 0.1),
    ],
)
def test_the_pods_own_word_goes_before_its_groups_and_that_before_its_controllers(
    tellers: tuple[str, ...], heard: float | None
) -> None:
    def told(teller: str) -> dict[str, str]:
        return {names.PEAK_GPU_UTIL: WORDS[teller]} if teller in tellers else {}

    member = as_pod(pod("p").in_group("g").slice(memory_gib=1).annotated(told("pod")))
    member.peak = Peak(compute=0.3) if "controller" in tellers else None
    manifest = group("g", min_member=1).annotated(told("group")).manifest()
    manifest["metadata"] |= {"namespace": "team", "uid": "g"}
    gang = Gang(("team", names.KIND_PODGROUP, "g"), group=read_group(manifest), pods={member.uid: member})
    peak = gang.kind(member).shape.peak
    assert (peak.compute if peak is not None else None) == heard
    assert gang.kind(member).shape.requests == member.shape.requests
