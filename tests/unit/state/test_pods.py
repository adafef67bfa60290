"""Pods as the books see them: what they take as Kubernetes counts it, and what cannot be honoured said aloud."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api import names
from alnair.api.gpurequest import NO_GPU, CardDemand
from alnair.state import wire
from alnair.state.pods import MOST_OF_A_RESOURCE, Pod, PodReader, effective_requests
from harness.builders import pod
from unit.builders import as_pod, decoded

Spec = dict[str, Any]


def container(name: str = "c", *, restart: str = "", **requests: str) -> Spec:
    return {
        "name": name,
        "resources": {"requests": requests},
        **({"restartPolicy": restart} if restart else {}),
    }


def sidecar(**requests: str) -> Spec:
    return container("sidecar", restart="Always", **requests)


def takes(spec: Spec) -> dict[str, int]:
    return effective_requests(decoded(spec, wire.PodSpec))


def read(spec: Spec, annotations: dict[str, str] | None = None) -> Pod:
    meta = {"name": "p", "uid": "u", "annotations": annotations or {}}
    return PodReader().read(decoded({"metadata": meta, "spec": spec}, wire.Pod))


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container()]}, 0, id="a pod that asks for nothing takes nothing"),
        pytest.param({"containers": [container(cpu="1"), container(cpu="500m")]}, 1500, id="containers add up"),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]},
            3000,
            id="the largest init container counts, not their sum",
        ),
        pytest.param(
            {"containers": [container(cpu="4")], "initContainers": [container(cpu="3")]},
            4000,
            id="an init container smaller than the pod counts nothing",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="2")]},
            3000,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="2"), container(cpu="5")]},
            7000,
            id="an init container runs beside the sidecars started before it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="5"), sidecar(cpu="2")]},
            5000,
            id="but not beside those started after it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1250, id="the overhead is on top"
        ),
        pytest.param(
            {
                "containers": [container(cpu="1"), container(cpu="1")],
                "resources": {"requests": {"cpu": "5"}},
                "overhead": {"cpu": "1"},
            },
            6000,
            id="the pod's own request goes before its containers' sum, and the overhead on top",
        ),
        pytest.param({"containers": [container(cpu="0.1m")]}, 1, id="a crumb of a core is a thousandth"),
    ],
)  # fmt: skip
def test_a_pod_takes_what_kubernetes_says_it_takes(spec: Spec, cpu: int) -> None:
    assert takes(spec).get("cpu", 0) == cpu


@pytest.mark.parametrize(
    ("spec", "memory"),
    [
        pytest.param({"containers": [container(memory="500m"), container(memory="500m")]}, 1, id="containers"),
        pytest.param({"containers": [container(memory="1500m"), container(memory="600m")]}, 3, id="the sum, up"),
        pytest.param({"containers": [container(memory="1n")]}, 1, id="a crumb"),
        pytest.param({"containers": [container(memory="100m")], "overhead": {"memory": "900m"}}, 1, id="overhead"),
        pytest.param(
            {"containers": [container(memory="300m")], "initContainers": [sidecar(memory="700m")]}, 1, id="a sidecar"
        ),
        pytest.param(
            {
                "containers": [container(memory="0")],
                "initContainers": [sidecar(memory="500m"), container(memory="500m")],
            },
            1,
            id="a moment",
        ),
        pytest.param(
            {
                "containers": [container(memory="9")],
                "resources": {"requests": {"memory": "1500m"}},
                "overhead": {"memory": "500m"},
            },
            2,
            id="the pod as a whole",
        ),
    ],
)  # fmt: skip
def test_fractions_are_added_up_as_they_are_and_only_the_pods_sum_is_rounded(spec: Spec, memory: int) -> None:
    assert takes(spec)["memory"] == memory


def test_fractions_of_any_resource_are_rounded_once() -> None:
    each = {"cpu": "0.5m", "ephemeral-storage": "0.25", "example.com/x": "0.5", "hugepages-2Mi": "1500m"}
    assert takes({"containers": [container(**each), container(**each)]}) == {
        "cpu": 1, "ephemeral-storage": 1, "example.com/x": 1, "hugepages-2Mi": 3, "pods": 1
    }  # fmt: skip


def test_every_pod_takes_one_pod_slot_and_names_no_resource_of_nothing() -> None:
    assert takes({"containers": [container(cpu="0")]}) == {"pods": 1}


def test_slices_are_counted_on_cards_and_not_on_the_node() -> None:
    read = as_pod(pod("p").slice(memory_gib=6, compute=50).asking(cpu="1"))
    assert read.shape.requests == (("cpu", 1000), ("pods", 1))
    assert read.shape.gpu.demands == (CardDemand("main", 1, 6144, 50, whole=False),)


def test_whole_cards_are_counted_on_the_node_too() -> None:
    assert dict(as_pod(pod("p").asking(gpu=2)).shape.requests) == {names.NVIDIA_GPU: 2, "pods": 1}


def test_equal_pods_share_one_shape_and_different_ones_do_not() -> None:
    reader = PodReader()
    alike = pod("p").asking(gpu=1, cpu="1").selecting(pool="a").tolerating("gpu")
    one, other = (as_pod(alike.named(name), reader=reader) for name in ("a", "b"))
    assert one.shape is other.shape
    for different in (
        alike.asking(cpu="2"),
        alike.selecting(pool="b"),
        alike.tolerating("x"),
        alike.of_model("T4"),
    ):
        assert as_pod(different, reader=reader).shape != one.shape


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ({"cpu": "NaN"}, "resources.requests[cpu]: 'NaN'"),
        ({"cpu": "-1"}, "resources.requests[cpu]: '-1' is negative"),
        ({"memory": "1_000"}, "resources.requests[memory]: '1_000'"),
        ({"memory": "٣Gi"}, r"resources.requests[memory]: '\u0663Gi'"),
        ({"memory": "1e30"}, "resources.requests[memory]: '1e30' is too large"),
        ({names.NVIDIA_GPU: "0.5"}, f"container c: {names.NVIDIA_GPU}: '0.5' is not a whole number"),
        ({names.VGPU_MEMORY: "many"}, f"container c: {names.VGPU_MEMORY}: 'many' is not a quantity"),
    ],
)
def test_a_quantity_that_cannot_be_read_is_a_problem_of_that_pod(
    requests: dict[str, str], named: str
) -> None:
    pod = read({"containers": [container(**requests)]})
    assert named in pod.problem
    assert dict(pod.shape.requests)["pods"] == 1


def test_a_gpu_request_that_cannot_be_read_keeps_the_rest_in_the_books() -> None:
    pod = read({"containers": [container(cpu="2")], "nodeName": "a"}, {names.GPU_MEMORY: "much"})
    assert names.GPU_MEMORY in pod.problem
    assert (dict(pod.shape.requests)["cpu"], pod.shape.gpu) == (2000, NO_GPU)


@pytest.mark.parametrize(
    "containers", [[container(memory="7Ei")], [container(memory="7Ei"), container(memory="7Ei")]]
)
def test_a_request_beyond_all_nodes_is_a_problem_and_charged_as_the_most_there_is(
    containers: list[Spec],
) -> None:
    pod = read({"containers": containers})
    assert "resources.requests[memory]" in pod.problem
    assert dict(pod.shape.requests)["memory"] == MOST_OF_A_RESOURCE


ONE = [{"name": "c"}]


def test_a_rule_that_is_not_scheduled_by_is_named() -> None:
    problem = read({"containers": ONE, "resourceClaims": [{"name": "gpu"}]}).problem
    assert "spec.resourceClaims" in problem
    assert "use another scheduler" in problem


def test_cards_of_init_containers_are_read_in_running_order() -> None:
    pod = read(
        {
            "initContainers": [
                {"name": "first", "resources": {"limits": {names.NVIDIA_GPU: "2"}}},
                {
                    "name": "beside",
                    "restartPolicy": "Always",
                    "resources": {"limits": {names.VGPU_MEMORY: "4"}},
                },
            ],
            "containers": [{"name": "main", "resources": {"requests": {names.NVIDIA_GPU: "1"}}}],
        }
    )
    assert pod.problem == ""
    assert pod.shape.gpu.demands == (
        CardDemand("first", 2, 0, 0, whole=True, stage="Init"),
        CardDemand("beside", 1, 4096, 0, whole=False, stage="Sidecar"),
        CardDemand("main", 1, 0, 0, whole=True),
    )


def test_an_init_container_that_contradicts_itself_is_the_pods_problem() -> None:
    asked = {names.NVIDIA_GPU: "1", names.VGPU_MEMORY: "4"}
    pod = read({"initContainers": [{"name": "i", "resources": {"limits": asked}}], "containers": ONE})
    assert pod.problem.startswith("container i: nvidia.com/gpu: ")


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {}},
        {"affinity": {"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": None}},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
        {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
        {"volumes": [{"emptyDir": {}}, {"configMap": {"name": "x"}}, {"projected": {}}]},
        {"initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1"}}}]},
    ],
)
def test_rules_wishes_and_ordinary_fields_are_no_problem(spec: Spec) -> None:
    assert read({"containers": ONE, **spec}).problem == ""


@pytest.mark.parametrize(
    ("fields", "waiting"),
    [
        pytest.param({}, True, id="pending"),
        pytest.param({"on": "a"}, False, id="bound"),
        pytest.param({"phase": "Failed"}, False, id="failed before it was bound"),
        pytest.param({"terminating": True}, False, id="going away"),
    ],
)
def test_who_waits_for_a_place(fields: dict[str, Any], waiting: bool) -> None:
    assert as_pod(pod("p"), **fields).waiting is waiting


def test_a_gated_pod_does_not_wait_yet() -> None:
    assert not as_pod(pod("p").gated()).waiting


def test_only_a_controller_brings_a_pod_back() -> None:
    owner = {"kind": "Job", "name": "j", "uid": "u"}
    assert as_pod(pod("p"), ownerReferences=[{**owner, "controller": True}]).controlled
    assert not as_pod(pod("p"), ownerReferences=[owner]).controlled
    assert not as_pod(pod("p")).controlled


RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/x", *sorted(names.GPU_RESOURCES)]),
    st.one_of(st.text(max_size=8), st.integers(), st.sampled_from(["1", "500m", "7Ei", "1Gi"])),
    max_size=4,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(max_size=5),
            "restartPolicy": st.sampled_from(["", "Always"]),
            "resources": st.fixed_dictionaries({"requests": RESOURCES, "limits": RESOURCES}),
        }
    ),
    max_size=3,
)


@given(
    spec=st.fixed_dictionaries(
        {"containers": CONTAINERS, "initContainers": CONTAINERS, "overhead": RESOURCES}
    ),
    annotations=st.dictionaries(
        st.sampled_from([names.GPU_MEMORY, names.GPU_COMPUTE, names.GPU_COUNT, names.GPU_MODEL]), st.text()
    ),
)
def test_reading_a_pod_never_raises_and_never_counts_out_of_bounds(
    spec: Spec, annotations: dict[str, str]
) -> None:
    pod = read(spec, annotations)
    assert dict(pod.shape.requests)["pods"] == 1
    assert all(0 < amount <= MOST_OF_A_RESOURCE for _, amount in pod.shape.requests)
    assert len(pod.problem) < 500


# -- pods that are being resized ---------------------------------------------------------------------------------


def given(name: str = "c", *, actual: dict[str, str] | None, allocated: dict[str, str] | None = None) -> Spec:
    return {
        "name": name,
        **({"resources": {"requests": actual}} if actual is not None else {}),
        **({"allocatedResources": allocated} if allocated else {}),
    }


def takes_in_mid_air(spec: Spec, status: Spec) -> dict[str, int]:
    return effective_requests(decoded(spec, wire.PodSpec), decoded(status, wire.PodStatus))


def resize(reason: str) -> Spec:
    return {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({}, 2000, id="nothing is told"),
        pytest.param({"containerStatuses": [given(actual=None, allocated={"cpu": "9"})]}, 2000, id="not given yet"),
        pytest.param({"containerStatuses": [given(actual={"cpu": "2"})]}, 2000, id="it has what it wants"),
        pytest.param({"containerStatuses": [given(actual={"cpu": "3"})]}, 3000, id="it still has more"),
        pytest.param({"containerStatuses": [given(actual={"cpu": "1"})]}, 2000, id="it will have more"),
        pytest.param(
            {"containerStatuses": [given(actual={"cpu": "1"}, allocated={"cpu": "4"})]}, 4000, id="it was promised more"
        ),
        pytest.param(
            {"containerStatuses": [given(actual={"cpu": "1"})], **resize("Deferred")}, 2000, id="it waits for more"
        ),
        pytest.param(
            {"containerStatuses": [given(actual={"cpu": "1"})], **resize("Infeasible")}, 1000, id="it never will"
        ),
        pytest.param(
            {"containerStatuses": [given("other", actual={"cpu": "9"})]}, 2000, id="a container that there is none of"
        ),
    ],
)  # fmt: skip
def test_a_container_that_is_being_resized_takes_the_most_of_what_it_has_and_will_have(
    status: Spec, cpu: int
) -> None:
    assert takes_in_mid_air({"containers": [container(cpu="2")]}, status)["cpu"] == cpu


def test_what_a_resize_gives_is_compared_and_added_to_the_fraction() -> None:
    spec = {"containers": [container(memory="100m"), container("other", memory="600m")]}
    status = {"containerStatuses": [given(actual={"memory": "300m"}, allocated={"memory": "400m"})]}
    assert takes_in_mid_air(spec, status)["memory"] == 1


def test_a_sidecar_is_resized_and_an_ordinary_init_container_is_not() -> None:
    status = {
        "initContainerStatuses": [given("sidecar", actual={"cpu": "5"}), given("init", actual={"cpu": "50"})]
    }
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [sidecar(cpu="2"), container("init", cpu="3")],
    }
    assert takes_in_mid_air(spec, status)["cpu"] == 8000


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 5000),
        ({"resources": {"requests": {"cpu": "6"}}}, 6000),
        ({"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "7"}}, 7000),
        ({"resources": {"requests": {"cpu": "4"}}, **resize("Infeasible")}, 4000),
        ({"resources": {}, **resize("Infeasible")}, 0),
    ],
)
def test_a_pod_that_is_being_resized_as_a_whole(status: Spec, cpu: int) -> None:
    spec = {"containers": [container(cpu="2")], "resources": {"requests": {"cpu": "5"}}}
    assert takes_in_mid_air(spec, status).get("cpu", 0) == cpu


def test_a_pod_as_a_whole_asks_for_cpu_memory_and_huge_pages_only() -> None:
    spec = {
        "containers": [container(memory="1Gi", **{"example.com/x": "1", "ephemeral-storage": "5"})],
        "resources": {
            "requests": {
                "memory": "3Gi",
                "hugepages-2Mi": "4Mi",
                "example.com/x": "9",
                "ephemeral-storage": "7",
            }
        },
    }
    assert takes(spec) == {
        "memory": 3 << 30, "hugepages-2Mi": 4 << 20, "example.com/x": 1, "ephemeral-storage": 5, "pods": 1
    }  # fmt: skip
