"""Delivery: the container gets exactly the card that was recorded, and nobody else has a say in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from alnair.api import names
from alnair.sandbox.access import Access
from harness.api import Api, Object, at
from harness.builders import PodBuilder, deployment, node, pod
from harness.fixtures import Fleet
from harness.kubelet import environment
from harness.operator import Operator, install
from harness.tenants import refusal, right, tenant, until_refused
from harness.watching import bound_now, bound_pods, condition, event_about, record_of_pod

pytestmark = pytest.mark.kubernetes(
    "1.36", "containers are told their cards by MutatingAdmissionPolicies, which are off before"
)
DEVICES = "main.env.ai.centaurus.io/visible-devices"


def recorded(record: Object, pod_name: str) -> dict[str, list[dict[str, Any]]]:
    """Container -> the slices that the record gives it."""
    (entry,) = (each for each in record["status"]["pods"] if each["name"] == pod_name)
    return {each["name"]: each["slices"] for each in entry["containers"]}


def told(slices: list[dict[str, Any]], *, limits: bool = True) -> dict[str, str]:
    """What a container with these slices has to find in its environment."""
    cards = ",".join(piece["gpu"] for piece in slices)
    wanted = {
        "NVIDIA_VISIBLE_DEVICES": cards,
        "ALNAIR_GPU_IDS": cards,
        "ALNAIR_GPU_MEMORY_MIB": ",".join(str(piece["memoryMiB"]) for piece in slices),
    }
    if limits:
        wanted["CUDA_DEVICE_SM_LIMIT"] = str(slices[0]["computePercent"])
        for index, piece in enumerate(slices):
            wanted[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] = f"{piece['memoryMiB']}m"
    return wanted


# -- what the container gets ---------------------------------------------------------------------------------------


@pytest.mark.shares_operator
async def test_a_pod_with_6_gib_is_told_exactly_the_card_that_kubectl_shows(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    asking = pod("one").slice(memory_gib=6, compute=30).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.with_env("MINE", "$(ALNAIR_GPU_IDS)").manifest(), namespace=namespace)

    record = await record_of_pod(api, namespace, "one", phase="Bound")
    bound = await api.get(at("pods", namespace, "one"))

    (piece,) = recorded(record, "one")["main"]
    assert environment(bound, "main") == {
        "NVIDIA_VISIBLE_DEVICES": piece["gpu"],
        "ALNAIR_GPU_IDS": piece["gpu"],
        "ALNAIR_GPU_MEMORY_MIB": "6144",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "6144m",
        "MINE": piece["gpu"],
    }
    header, row = cluster.kubectl("get", "gpuallocations", "-n", namespace, "-o", "wide").splitlines()
    column = header.index("CARDS")
    assert row[column:].split()[0] == environment(bound, "main")["NVIDIA_VISIBLE_DEVICES"]


@pytest.mark.shares_operator
async def test_two_gpu_containers_are_told_a_card_each_and_the_third_none(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2, memory_mib=16384))
    asking = (
        pod("two").by(operator.scheduler).selecting(fleet.selector).slice(memory_gib=10)
        .with_container("second").slice(memory_gib=12, compute=40)
        .with_container("log")
    )  # fmt: skip
    await api.create(asking.manifest(), namespace=namespace)

    slices = recorded(await record_of_pod(api, namespace, "two", phase="Bound"), "two")
    bound = await api.get(at("pods", namespace, "two"))

    assert environment(bound, "main") == told(slices["main"])
    assert environment(bound, "second") == told(slices["second"])
    assert environment(bound, "log") == {}
    assert slices["main"][0]["gpu"] != slices["second"][0]["gpu"]


@pytest.mark.shares_operator
async def test_a_slice_on_each_of_three_cards_has_a_limit_for_each(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    asking = pod("x").by(operator.scheduler).selecting(fleet.selector)
    by_annotation = asking.named("annotated").slice_by_annotation("2000Mi", compute=10, count=3)
    hami = {names.NVIDIA_GPU: "3", names.NVIDIA_GPUMEM: "2000", names.NVIDIA_GPUCORES: "10"}
    by_resource = asking.named("hami").asking(resources=hami)
    for each, name in ((by_annotation, "annotated"), (by_resource, "hami")):
        await api.create(each.manifest(), namespace=namespace)
        slices = recorded(await record_of_pod(api, namespace, name, phase="Bound"), name)["main"]
        bound = await api.get(at("pods", namespace, name))
        assert len({piece["gpu"] for piece in slices}) == 3
        assert environment(bound, "main") == told(slices)


@pytest.mark.shares_operator
async def test_init_containers_sidecars_and_every_way_of_asking_are_told_what_is_recorded(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(6))
    asking = pod("x").by(operator.scheduler).selecting(fleet.selector)
    staged = (
        asking.named("staged").slice(memory_gib=4)
        .with_init("fetch", {names.VGPU_MEMORY: "8"})
        .with_init("watch", {names.NVIDIA_GPU: "2", names.NVIDIA_GPUMEM: "1000"}, sidecar=True)
    )  # fmt: skip
    in_per_cent = {names.NVIDIA_GPU: "1", names.NVIDIA_GPUMEM_PERCENTAGE: "25"}
    ways = [
        staged,
        asking.named("percent").asking(resources=in_per_cent),
        asking.named("exclusive").slice(memory_gib=4).exclusively(),
        asking.named("counted").annotated({names.GPU_COUNT: "2"}),
    ]
    for each in ways:
        await api.create(each.manifest(), namespace=namespace)
    for each in ways:
        name = each.body["metadata"]["name"]
        slices = recorded(await record_of_pod(api, namespace, name, phase="Bound"), name)
        bound = await api.get(at("pods", namespace, name))
        for container, pieces in slices.items():
            assert environment(bound, container) == told(pieces, limits=name != "counted"), (name, container)
        assert slices.keys() == ({"fetch", "watch", "main"} if name == "staged" else {"main"})


@pytest.mark.shares_operator
async def test_a_deployments_pods_are_told_their_own_cards(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2, memory_mib=16384))
    asking = pod("web").slice(memory_gib=5).by(operator.scheduler).selecting(fleet.selector)
    await api.create(deployment("web", asking, replicas=4).manifest(), namespace=namespace)

    seen = set()
    for each in await bound_pods(api, namespace, 4):
        name = each["metadata"]["name"]
        slices = recorded(await record_of_pod(api, namespace, name, phase="Bound"), name)["main"]
        assert environment(each, "main") == told(slices)
        seen.add(slices[0]["gpu"])
    assert len(seen) == 2


@pytest.mark.shares_operator
async def test_whole_cards_of_alnairs_nodes_are_told_without_limits(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    asking = pod("whole").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    slices = recorded(await record_of_pod(api, namespace, "whole", phase="Bound"), "whole")["main"]
    bound = await api.get(at("pods", namespace, "whole"))
    assert environment(bound, "main") == told(slices, limits=False)
    assert len(slices) == 2


@pytest.mark.delivery(wholeCards="DevicePlugin")
async def test_whole_cards_go_where_the_pod_can_be_told_them(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(
        node("own").with_cards(2), node("plugin").with_cards(1, model="V100").owned_by("device-plugin")
    )
    asking = pod("x").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("plain").manifest(), namespace=namespace)
    plain = await record_of_pod(api, namespace, "plain", phase="Bound")
    bound = await api.get(at("pods", namespace, "plain"))
    assert plain["status"]["nodes"] == fleet.name("plugin")
    assert environment(bound, "main") == {}

    own = asking.named("own").selecting({names.GPU_OWNER: names.OWNED_BY_ALNAIR})
    await api.create(own.manifest(), namespace=namespace)
    slices = recorded(await record_of_pod(api, namespace, "own", phase="Bound"), "own")["main"]
    bound = await api.get(at("pods", namespace, "own"))
    assert bound["spec"]["nodeName"] == fleet.name("own")
    assert environment(bound, "main") == told(slices, limits=False)

    await api.create(asking.named("third").manifest(), namespace=namespace)
    note = (await event_about(api, namespace, "third", "FailedScheduling"))["note"]
    assert f"create it again with nodeSelector {names.GPU_OWNER}: {names.OWNED_BY_ALNAIR}" in note


# -- who is not told -----------------------------------------------------------------------------------------------


async def test_a_pod_from_before_the_policy_is_not_bound_but_told_why(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    early = pod("early").slice(memory_gib=6).by(namespace).selecting(fleet.selector)
    await api.create(early.manifest(), namespace=namespace)
    async with running(cluster, namespace, tmp_path):
        shown = await api.until(
            at("pods", namespace, "early"), lambda it: condition(it, "PodScheduled").get("message")
        )
        message = condition(shown, "PodScheduled")["message"]
        assert "container main: env NVIDIA_VISIBLE_DEVICES is not read from" in message
        assert "delete the pod and create it again" in message
        assert await bound_now(api, namespace) == []

        await api.create(early.named("late").manifest(), namespace=namespace)
        await record_of_pod(api, namespace, "late", phase="Bound")
        assert [each["metadata"]["name"] for each in await bound_now(api, namespace)] == ["late"]


async def test_with_delivery_off_pods_are_placed_and_nothing_is_asked(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    async with running(cluster, namespace, tmp_path, delivery={"enabled": False}):
        asking = pod("plain").slice(memory_gib=6).by(namespace).selecting(fleet.selector)
        await api.create(asking.manifest(), namespace=namespace)
        await record_of_pod(api, namespace, "plain", phase="Bound")
        assert environment(await api.get(at("pods", namespace, "plain")), "main") == {}


@asynccontextmanager
async def running(
    cluster: Access, namespace: str, folder: Path, *, delivery: dict[str, Any] | None = None
) -> AsyncIterator[Operator]:
    """The chart installed now, and an operator."""
    made = Operator(install(cluster, namespace, folder, delivery=delivery), folder)
    try:
        await made.start()
        yield made
        await made.stop()
    finally:
        made.kill()
        cluster.helm("uninstall", "alnair", "--namespace", namespace, "--wait=false")


@pytest.mark.shares_operator
async def test_pods_of_other_schedulers_are_left_alone(api: Api, namespace: str, operator: Operator) -> None:
    theirs = (
        pod("theirs").by("somebody-else").slice(memory_gib=6).annotated({DEVICES: "GPU-x"})
        .with_env("NVIDIA_VISIBLE_DEVICES", "all")
    )  # fmt: skip
    made = await api.create(theirs.manifest(), namespace=namespace)
    assert environment(made, "main") == {"NVIDIA_VISIBLE_DEVICES": "all"}
    changed = await api.patch(
        at("pods", namespace, "theirs"), {"metadata": {"annotations": {DEVICES: "GPU-y"}}}
    )
    assert changed["metadata"]["annotations"][DEVICES] == "GPU-y"


@pytest.mark.shares_operator
async def test_no_compute_is_no_part_of_a_card(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = (
        pod("p").by(operator.scheduler).slice(memory_gib=6).selecting(fleet.selector)
        .with_container("log").asking(resources={names.NVIDIA_GPUCORES: "0"})
    )  # fmt: skip
    await api.create(asking.manifest(), namespace=namespace)
    slices = recorded(await record_of_pod(api, namespace, "p", phase="Bound"), "p")
    bound = await api.get(at("pods", namespace, "p"))
    assert environment(bound, "main") == told(slices["main"])
    assert environment(bound, "log") == {}


@pytest.mark.shares_operator
async def test_a_pod_that_has_its_environment_already_is_not_changed(
    api: Api, namespace: str, operator: Operator
) -> None:
    asking = (
        pod("again").by(operator.scheduler).slice(memory_gib=6).with_env("A", "b")
        .with_container("second").asking(gpu=1).gated()
    )  # fmt: skip
    first = await api.create(asking.manifest(), namespace=namespace)
    assert {each["name"] for each in first["spec"]["containers"][1]["env"]} == names.ENV_OF_CARDS.keys()
    copy = {"metadata": {"name": "copy"}, "apiVersion": "v1", "kind": "Pod", "spec": first["spec"]}
    second = await api.create(copy, namespace=namespace)
    assert second["spec"]["containers"] == first["spec"]["containers"]


# -- nobody else has a say -----------------------------------------------------------------------------------------

FOREIGN: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "NVIDIA_VISIBLE_DEVICES": lambda it: it.with_env("NVIDIA_VISIBLE_DEVICES", "all"),
    "container main: env NVIDIA_VISIBLE_DEVICES": lambda it: it.with_env("NVIDIA_VISIBLE_DEVICES", "void"),
    "CUDA_DEVICE_MEMORY_LIMIT_0": lambda it: it.with_env("CUDA_DEVICE_MEMORY_LIMIT_0", "80g"),
    "CUDA_DEVICE_MEMORY_LIMIT": lambda it: it.with_env("CUDA_DEVICE_MEMORY_LIMIT", "80g"),
    "CUDA_DEVICE_SM_LIMIT_3": lambda it: it.with_env("CUDA_DEVICE_SM_LIMIT_3", "100"),
    "ALNAIR_GPU_IDS": lambda it: it.with_container("log").with_env("ALNAIR_GPU_IDS", "GPU-x"),
    DEVICES: lambda it: it.annotated({DEVICES: "GPU-x"}),
    names.GPU_SLICES: lambda it: it.annotated({names.GPU_SLICES: "[]"}),
}


@pytest.mark.shares_operator
async def test_values_of_the_users_own_are_refused_with_a_sentence(
    api: Api, namespace: str, operator: Operator
) -> None:
    asking = pod("p").by(operator.scheduler).slice(memory_gib=6).gated()
    probe = FOREIGN[DEVICES](asking).named("probe").manifest()
    dry = f"{at('pods', namespace)}?dryRun=All"
    await until_refused(lambda: api.call("POST", dry, probe))
    for what, add in FOREIGN.items():
        said = await refusal(api.create(add(asking).manifest(), namespace=namespace))
        assert what in said
        assert "remove it from the pod" in said
    # A container without cards may say so itself.
    hidden = asking.with_container("log").with_env("NVIDIA_VISIBLE_DEVICES", "void")
    made = await api.create(hidden.manifest(), namespace=namespace)
    assert environment(made, "log") == {"NVIDIA_VISIBLE_DEVICES": "void"}


@pytest.mark.delivery(userValues="Override")
async def test_values_of_the_users_own_are_overridden_where_that_is_configured(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("p").by(operator.scheduler).slice(memory_gib=6).selecting(fleet.selector)
    asking = asking.with_env("KEPT", "yes")
    for add in FOREIGN.values():
        asking = add(asking)
    made = await api.create(asking.annotated(note="kept").manifest(), namespace=namespace)
    assert made["metadata"]["annotations"] == {"note": "kept"}
    assert [each["name"] for each in made["spec"]["containers"][0]["env"]].count(
        "NVIDIA_VISIBLE_DEVICES"
    ) == 1
    assert environment(made, "log") == {}

    slices = recorded(await record_of_pod(api, namespace, "p", phase="Bound"), "p")["main"]
    bound = await api.get(at("pods", namespace, "p"))
    assert environment(bound, "main") == {**told(slices), "KEPT": "yes"}


@pytest.mark.shares_operator
async def test_what_a_pod_was_told_cannot_be_changed_afterwards(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("p").by(operator.scheduler).slice(memory_gib=6).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "p", phase="Bound")
    before = await api.get(at("pods", namespace, "p"))

    def changing(key: str, value: str | None) -> Awaitable[Any]:
        dry = f"{at('pods', namespace, 'p')}?dryRun=All"
        return api.patch(dry, {"metadata": {"annotations": {key: value}}})

    await until_refused(lambda: changing(DEVICES, "GPU-x"))
    for key in (DEVICES, names.GPU_SLICES, names.NODE):
        assert f"metadata.annotations[{key}]" in await refusal(changing(key, "x"))
        assert "cannot be changed" in await refusal(changing(key, None))
    assert "cannot be changed" in await refusal(changing("new.env.ai.centaurus.io/visible-devices", "GPU-x"))

    debugging = {
        "name": "debug",
        "image": "none",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    path = at("pods", namespace, "p", "ephemeralcontainers")
    adding = api.call(
        "PATCH", path, {"spec": {"ephemeralContainers": [debugging]}}, content="application/strategic-merge-patch+json"
    )  # fmt: skip
    assert "container debug: env NVIDIA_VISIBLE_DEVICES" in await refusal(adding)

    # Whoever changes something else is not in the way: a label, an annotation, the kubelet's status.
    await api.patch(
        at("pods", namespace, "p"), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    )
    ready = {"status": {"conditions": [{"type": "example.com/x", "status": "True"}]}}
    await api.patch(at("pods", namespace, "p", "status"), ready)
    after = await api.get(at("pods", namespace, "p"))
    assert environment(after, "main") == environment(before, "main")


@pytest.mark.shares_operator
async def test_a_tenant_cannot_tell_a_pod_its_cards_by_a_binding(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    (place,) = await fleet.add(node("gpu").with_cards(1, memory_mib=4096))
    asking = pod("p").by(operator.scheduler).slice(memory_gib=6).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    await event_about(api, namespace, "p", "FailedScheduling")

    may_bind = right("", ["pods/binding", "bindings"], ["create"])
    async with tenant(api, cluster, namespace, tmp_path, may_bind) as theirs:

        def forged(path: str, **annotations: str) -> Awaitable[Any]:
            target = {"apiVersion": "v1", "kind": "Node", "name": place}
            meta = {"name": "p", "annotations": annotations}
            return theirs.call(
                "POST", path, {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
            )

        ways = (at("pods", namespace, "p", "binding"), f"/api/v1/namespaces/{namespace}/bindings")
        await until_refused(lambda: forged(f"{ways[0]}?dryRun=All", **{DEVICES: "GPU-x"}))
        for way in ways:
            for key in (DEVICES, names.GPU_SLICES):
                assert "only Alnair may" in await refusal(forged(way, **{key: "GPU-x"}))
        assert await bound_now(api, namespace) == []
        # One that tells nothing may bind it: the container then sees no card at all.
        await forged(ways[0])
    (bound,) = await bound_now(api, namespace)
    assert set(environment(bound, "main").values()) == {""}


@pytest.mark.parametrize(
    "values", [pytest.param(each, marks=pytest.mark.delivery(userValues=each)) for each in ("Refuse", "Override")]
)  # fmt: skip
async def test_nobody_claims_cards_by_an_annotation_of_a_pod_that_another_scheduler_binds(
    api: Api, namespace: str, operator: Operator, values: str
) -> None:
    claim = {
        names.NODE: "gpu",
        names.GPU_SLICES: '[{"name": "main", "slices": [{"gpu": "x", "whole": true}]}]',
    }
    theirs = pod("theirs").by("somebody-else").gated()
    claiming = theirs.annotated(claim).manifest()
    dry = f"{at('pods', namespace)}?dryRun=All"
    await until_refused(lambda: api.call("POST", dry, claiming))
    assert names.GPU_SLICES in await refusal(api.create(claiming, namespace=namespace))
    await api.create(theirs.manifest(), namespace=namespace)
    path = at("pods", namespace, "theirs")
    await until_refused(lambda: api.patch(f"{path}?dryRun=All", {"metadata": {"annotations": claim}}))
    assert names.GPU_SLICES in await refusal(api.patch(path, {"metadata": {"annotations": claim}}))
    await api.patch(path, {"metadata": {"annotations": {"c": "d"}}})


async def test_a_gang_that_is_rolled_forward_after_a_crash_is_told_the_same(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    asking = pod("p").by(operator.scheduler).slice(memory_gib=6).selecting(fleet.selector)
    made = await api.create(asking.manifest(), namespace=namespace)
    await api.until_all(
        at("gpuallocations", namespace), lambda records: records
    )  # it may be bound by now, or not
    await operator.restart()
    name = names.record_name("p", made["metadata"]["uid"])
    record = await api.until(
        at("gpuallocations", namespace, name), lambda it: it["status"]["phase"] == "Bound"
    )
    bound = await api.get(at("pods", namespace, "p"))
    assert environment(bound, "main") == told(recorded(record, "p")["main"])
