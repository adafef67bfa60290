"""Delivery: a pod that is told its cards goes to Alnair's nodes, one that is not to a device plugin's."""

from __future__ import annotations

import pytest

from alnair.state.pods import PodReader
from alnair.state.shapes import PodClass
from harness.builders import PodBuilder, node, pod
from unit.builders import Cluster, as_pod, guest, let_through, reasons

OWN = node("own").with_cards(2)
PLUGIN = node("plugin").with_cards(2).owned_by("device-plugin")
WHOLE = pod("p").by("alnair").asking(gpu=1)
SLICE = pod("p").by("alnair").slice(memory_gib=1)


def asked(sentence: PodBuilder) -> PodClass:
    return guest(as_pod(sentence, reader=PodReader(delivering=frozenset({"alnair"}))))


@pytest.mark.parametrize(
    ("sentence", "where"),
    [
        pytest.param(WHOLE.told(whole=True), ["own", "plain"], id="told"),
        pytest.param(WHOLE, ["plugin"], id="not told"),
        pytest.param(SLICE.told(), ["own", "plain"], id="a slice"),
        pytest.param(pod("p").by("alnair"), ["own", "plain", "plugin"], id="no GPU"),
        pytest.param(WHOLE.by("other"), ["own", "plain", "plugin"], id="nobody asks"),
    ],
)
def test_nodes_by_how_they_hand_out_cards(sentence: PodBuilder, where: list[str]) -> None:
    cluster = Cluster(OWN, PLUGIN, node("plain"))
    assert let_through("Delivery", cluster, asked(sentence)) == where


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        (WHOLE.told(whole=True), [("the pod is made to be told its cards by Alnair", 1)]),
        (WHOLE, [("create it again with nodeSelector ai.centaurus.io/gpu-owner: alnair", 1), ("no GPUs", 1)]),
        (SLICE.told(), [("a device plugin, which gives no slices", 1)]),
    ],
)
def test_it_says_why(sentence: PodBuilder, told: list[tuple[str, int]]) -> None:
    found = reasons("Delivery", Cluster(OWN, PLUGIN, node("plain")), asked(sentence))
    assert [number for _, number in found] == [number for _, number in told]
    for (phrase, _), (words, _) in zip(found, told, strict=True):
        assert words in phrase
