"""What the kubelet aligns of a pod: by QoS class, whole CPUs, kinds of containers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from alnair.state import wire
from alnair.state.alignment import Alignment, AlignmentReader, ContainerNeed

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def read(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> Alignment | None:
    body = {"containers": list(containers), "initContainers": list(init), **spec}
    return AlignmentReader().read(msgspec.convert(body, wire.PodSpec))


def container(
    name: str = "main",
    limits: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    limits = limits or {}
    return {"name": name, "resources": {"limits": limits, "requests": {**limits, **(requests or {})}}, **more}


WHOLE = {"cpu": "2", "memory": "1Gi"}
NEED = ContainerNeed("main", cpus=2, memory=(("memory", GIB),))


@pytest.mark.parametrize(
    ("made", "needs"),
    [
        pytest.param(container(limits=WHOLE), (NEED,), id="Guaranteed with whole CPUs"),
        pytest.param(
            container(limits={"cpu": "2000m", "memory": "1073741824"}), (NEED,), id="the same in other words"
        ),
        pytest.param(
            container(limits={"cpu": "2500m", "memory": "1Gi"}),
            (ContainerNeed("main", memory=(("memory", GIB),)),),
            id="a fraction of a CPU shares",
        ),
        pytest.param(
            container(limits=WHOLE, requests={"cpu": "1"}), None, id="Burstable: requests less than limits"
        ),
        pytest.param(container(limits={"cpu": "2"}), None, id="Burstable: no memory"),
        pytest.param(container(), None, id="BestEffort"),
        pytest.param(container(limits={"cpu": "0", "memory": "1Gi"}), None, id="no CPU at all is no limit"),
        pytest.param(
            container(limits={**WHOLE, "hugepages-2Mi": "4Mi", GPU: "1"}),
            (ContainerNeed("main", 2, (("hugepages-2Mi", 4 << 20), ("memory", GIB)), ((GPU, 1),)),),
            id="huge pages and devices beside them",
        ),
        pytest.param(
            container(limits={GPU: "2"}),
            (ContainerNeed("main", devices=((GPU, 2),)),),
            id="devices of a BestEffort pod",
        ),
        pytest.param(container(limits={"alnair/vgpu-memory": "6"}), None, id="a slice is no device"),
    ],
)
def test_one_container(made: dict[str, Any], needs: tuple[ContainerNeed, ...] | None) -> None:
    assert read(made) == (Alignment(needs) if needs is not None else None)


def test_init_containers_come_first_and_pass_on_what_they_had_but_sidecars_keep_it() -> None:
    found = read(
        container("main", WHOLE),
        init=(container("first", WHOLE), container("beside", WHOLE, restartPolicy="Always")),
    )
    assert found is not None
    assert [(each.name, each.passes_on, each.stays) for each in found.containers] == [
        ("first", True, False),
        ("beside", False, True),
        ("main", False, False),
    ]


def test_one_container_that_is_not_guaranteed_makes_the_whole_pod_burstable() -> None:
    assert read(container("main", WHOLE), init=(container("first", {"cpu": "1"}),)) is None
    assert read(container("main", WHOLE), container("second")) is None


def test_of_a_pod_with_resources_of_its_own_only_devices_are_aligned() -> None:
    own = {"limits": WHOLE, "requests": WHOLE}
    assert read(container("main", WHOLE), resources=own) is None
    found = read(container("main", {**WHOLE, GPU: "1"}), resources=own)
    assert found == Alignment((ContainerNeed("main", devices=((GPU, 1),)),))


def test_pods_that_ask_for_the_same_share_one_object_and_others_do_not() -> None:
    reader = AlignmentReader()

    def of(*made: dict[str, Any]) -> Alignment | None:
        return reader.read(msgspec.convert({"containers": list(made)}, wire.PodSpec))

    assert of(container(limits=WHOLE)) is of(container(limits=WHOLE))
    assert of(container(limits=WHOLE)) != of(container(limits={**WHOLE, "cpu": "3"}))
    assert of(container("a", WHOLE), container("b", WHOLE)) != of(
        container("b", WHOLE), container("a", WHOLE)
    )
