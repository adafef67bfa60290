"""Nodes as the books see them: what they hold, whether they take pods, and who hands out their cards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api import names
from alnair.state import wire
from alnair.state.nodes import Node, read_node
from alnair.state.pods import MOST_OF_A_RESOURCE
from harness.builders import node
from unit.builders import as_node, decoded


def holding(**allocatable: Any) -> Node:
    return read_node(decoded({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}, wire.Node))


def test_cpu_is_in_thousandths_and_the_rest_in_units() -> None:
    assert dict(holding(cpu="2500m", memory="1Gi", pods="110").allocatable) == {
        "cpu": 2500,
        "memory": 1 << 30,
        "pods": 110,
    }


def test_a_fraction_of_what_a_node_has_is_rounded_up_as_kubernetes_does() -> None:
    assert dict(holding(cpu="1999.5m", memory="3999999999500m").allocatable) == {
        "cpu": 2000,
        "memory": 4 * 10**9,
    }


@pytest.mark.parametrize("amount", ["NaN", "-1", "٣", "1e99", "", "9" * 70])
def test_an_amount_that_cannot_be_read_counts_nothing_and_is_named(amount: str) -> None:
    read = holding(cpu=amount, memory="1Gi")
    assert dict(read.allocatable) == {"memory": 1 << 30}
    assert read.problems[0].startswith("status.allocatable[cpu]: ")


def test_an_absurd_amount_is_capped() -> None:
    assert dict(holding(memory="7Ei").allocatable) == {"memory": MOST_OF_A_RESOURCE}


@pytest.mark.parametrize(
    ("labels", "advertised", "ours"),
    [
        pytest.param({}, {}, True, id="nobody advertises cards: they are Alnair's"),
        pytest.param({}, {names.NVIDIA_GPU: "8"}, False, id="advertised cards are the device plugin's"),
        pytest.param({}, {names.NVIDIA_GPU: "0"}, False, id="a plugin that is down has its cards all the same"),
        pytest.param({}, {f"{names.NVIDIA_GPU}.shared": "8"}, False, id="time-sliced cards are its own too"),
        pytest.param({}, {"nvidia.com/mig-1g.5gb": "7"}, False, id="and those that it has cut up"),
        pytest.param({}, {"nvidia.com/hostdev": "1"}, True, id="another thing of NVIDIA's is no card"),
        pytest.param({names.DEPLOY_DEVICE_PLUGIN: "true"}, {}, False, id="a plugin is to come"),
        pytest.param({names.DEPLOY_DEVICE_PLUGIN: "paused-for-mig-change"}, {}, False, id="a plugin is to come back"),
        pytest.param({names.DEPLOY_DEVICE_PLUGIN: "false"}, {}, True, id="no plugin is to come"),
        pytest.param(
            {names.DEPLOY_DEVICE_PLUGIN: "true", names.GPU_OWNER: "alnair"}, {}, True, id="the label goes before that"
        ),
        pytest.param({names.GPU_OWNER: "alnair"}, {names.NVIDIA_GPU: "8"}, True, id="the label goes first"),
        pytest.param({names.GPU_OWNER: "device-plugin"}, {}, False, id="the label goes first, the other way"),
        pytest.param({names.GPU_OWNER: "Alnair"}, {names.NVIDIA_GPU: "8"}, False, id="an unknown owner is ignored"),
    ],
)  # fmt: skip
def test_who_hands_out_the_cards(labels: dict[str, str], advertised: dict[str, str], ours: bool) -> None:
    read = as_node({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": advertised}})
    assert read.owned_by_alnair is ours
    assert bool(read.problems) is (labels.get(names.GPU_OWNER) == "Alnair")


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "True"}], False),
    ],
)
def test_only_a_kubelet_that_says_so_is_ready(conditions: list[dict[str, str]], ready: bool) -> None:
    read = read_node(decoded({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, wire.Node))
    assert read.ready is ready


def test_a_reading_that_changes_every_second_is_no_change_of_the_node() -> None:
    calm = node("n").with_cards(2)
    warm = calm.annotated({f"{names.PREFIX}gpu-temperature": "83"})
    assert as_node(calm.manifest()) == as_node(warm.manifest())


def test_a_card_that_is_used_otherwise_is_no_change_of_the_node_but_another_size_is() -> None:
    def reading(used: int, free: int) -> Node:
        text = f"{{'mem_used': '{used}GB', 'mem_free': '{free}GB', 'max_gpu_util': {used}}}"
        return as_node(node("n").annotated({f"{names.PREFIX}gpu-0": text}).manifest())

    assert reading(11, 1) == reading(3, 9)
    assert reading(11, 1) != reading(11, 5)


def test_a_card_annotation_that_changes_is_a_change_of_the_node() -> None:
    assert as_node(node("n").with_cards(2).manifest()) != as_node(node("n").with_cards(3).manifest())


@given(
    allocatable=st.dictionaries(
        st.sampled_from(["cpu", "memory", "x.com/y"]), st.one_of(st.text(), st.integers())
    ),
    labels=st.dictionaries(st.sampled_from([names.GPU_OWNER, "a"]), st.text()),
)
def test_reading_a_node_never_raises(allocatable: dict[str, Any], labels: dict[str, str]) -> None:
    manifest = {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}}
    read = read_node(decoded(manifest, wire.Node))
    assert all(0 <= amount <= MOST_OF_A_RESOURCE for _, amount in read.allocatable)
