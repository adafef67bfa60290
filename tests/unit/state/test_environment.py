"""The environment of GPU containers: who reads its cards from it, and who is told that it does not."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.state.pods import Pod, PodReader
from harness.builders import PodBuilder, pod
from unit.builders import as_pod

ALNAIR = frozenset({"alnair"})
SLICE = pod("p").by("alnair").slice(memory_gib=6)
WHOLE = pod("p").by("alnair").asking(gpu=2)


def read(sentence: PodBuilder) -> Pod:
    return as_pod(sentence, reader=PodReader(delivering=ALNAIR))


def reading(variable: str, key: str, sentence: PodBuilder) -> PodBuilder:
    one = {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}
    return sentence.with_(lambda it: it["spec"]["containers"][-1].setdefault("env", []).append(one))


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        pytest.param(SLICE.told(), True, id="a slice pod with all of it"),
        pytest.param(WHOLE, False, id="whole cards without it: a device plugin's"),
        pytest.param(WHOLE.told(whole=True), True, id="whole cards with it"),
        pytest.param(WHOLE.told(cards=2), True, id="whole cards with limits too"),
        pytest.param(
            SLICE.told().with_container("more").slice(memory_gib=1).told(), True, id="two containers"
        ),
        pytest.param(
            SLICE.told().with_container("log").with_env("A", "b"), True, id="beside one without cards"
        ),
        pytest.param(
            pod("p").by("alnair").slice_by_annotation("6Gi", count=3).told(cards=3), True, id="three cards"
        ),
        pytest.param(SLICE.with_env("NVIDIA_VISIBLE_DEVICES", "all").told(), True, id="the last word counts"),
        pytest.param(
            reading("MINE", "main.env.ai.centaurus.io/gpu-ids", SLICE.told()),
            True,
            id="a variable of the user's own",
        ),
        pytest.param(
            reading("MINE", "example.com/note", WHOLE), False, id="annotations of others are no matter"
        ),
        pytest.param(pod("p").by("alnair"), None, id="a pod without GPUs is not asked"),
        pytest.param(SLICE.by("somebody-else"), None, id="nor is somebody else's"),
    ],
)
def test_a_pod_that_can_be_bound_is_told_or_not(sentence: PodBuilder, told: bool | None) -> None:
    seen = read(sentence)
    assert (seen.problem, seen.shape.told) == ("", told)


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        pytest.param(SLICE, "container main: env NVIDIA_VISIBLE_DEVICES", id="none of it"),
        pytest.param(SLICE.told(cards=0), "env CUDA_DEVICE_MEMORY_LIMIT_0", id="no limit"),
        pytest.param(SLICE.told(whole=True), "env CUDA_DEVICE_SM_LIMIT", id="as for whole cards"),
        pytest.param(
            SLICE.told().with_env("NVIDIA_VISIBLE_DEVICES", "all"),
            "env NVIDIA_VISIBLE_DEVICES",
            id="overridden after it",
        ),
        pytest.param(
            SLICE.told(cards=2),
            "env CUDA_DEVICE_MEMORY_LIMIT_1 reads metadata.annotations",
            id="more cards than asked",
        ),
        pytest.param(
            SLICE.told().with_container("more").slice(memory_gib=1),
            "container more: env NVIDIA",
            id="one of two",
        ),
        pytest.param(
            WHOLE.told(whole=True).with_container("b").asking(gpu=1),
            "container b: env",
            id="one of two, whole",
        ),
        pytest.param(
            reading("NVIDIA_VISIBLE_DEVICES", "other.env.ai.centaurus.io/visible-devices", SLICE),
            "env NVIDIA_VISIBLE_DEVICES is not read from metadata.annotations['main.env",
            id="another container's",
        ),
        pytest.param(
            reading("MINE", "main.env.ai.centaurus.io/gpu-ids", WHOLE),
            "env NVIDIA_VISIBLE_DEVICES",
            id="a part of it",
        ),
        pytest.param(
            pod("p").by("alnair").slice_by_annotation("1Gi", count=17).told(cards=17),
            "has room for 16",
            id="too many cards",
        ),
        pytest.param(
            SLICE.with_(lambda it: it["spec"]["containers"][0].update(env=[{"name": 3}])),
            "cannot be read",
            id="no text",
        ),
    ],
)
def test_a_pod_that_would_get_an_empty_variable_has_a_problem(sentence: PodBuilder, says: str) -> None:
    assert says in read(sentence).problem


def test_the_problem_says_what_to_do() -> None:
    assert "delete the pod and create it again" in read(SLICE).problem


def test_with_delivery_off_nobody_is_asked() -> None:
    seen = as_pod(SLICE)
    assert (seen.problem, seen.shape.told) == ("", None)


def test_pods_that_differ_in_it_are_of_two_shapes() -> None:
    assert read(WHOLE).shape != read(WHOLE.told(whole=True)).shape


def test_the_variables_are_those_that_the_runtime_and_hami_core_read() -> None:
    assert names.env_of_container(2, whole=False) == {
        "NVIDIA_VISIBLE_DEVICES": "visible-devices",
        "ALNAIR_GPU_IDS": "gpu-ids",
        "ALNAIR_GPU_MEMORY_MIB": "memory-mib",
        "CUDA_DEVICE_SM_LIMIT": "sm-limit",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "memory-limit-0",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "memory-limit-1",
    }
    assert not [name for name in names.env_of_container(2, whole=True) if name.startswith("CUDA")]


def test_the_key_of_the_longest_container_name_is_a_valid_annotation() -> None:
    domain, _, name = names.env_key("c" * 63, "memory-limit-15").partition("/")
    assert len(domain) <= 253
    assert len(name) <= 63
