"""Tenants as attackers: each attack is refused with a sentence that names the rule, or it is harmless.

The tenant is a real ServiceAccount with the ClusterRole `edit` and PodGroups of its namespace. The careless one was
granted more than anybody needs (statuses, Bindings, GPUAllocations): so not RBAC but the chart's policies are tried.
What the apiserver lets pass must not stop the operator, mislead it, or pass for a line of its log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from alnair.api import names
from alnair.sandbox.access import Access
from harness.api import Api, Object, Refused, at
from harness.builders import group, node, pod
from harness.fixtures import Fleet, make_namespace
from harness.operator import ADMINISTRATOR, Operator
from harness.tenants import refusal, right, tenant, until_refused
from harness.watching import (
    bound_now,
    bound_pods,
    condition,
    event_about,
    record_of_group,
    record_of_pod,
    refused,
)

ENV_KEY = names.env_key("main", names.VISIBLE_DEVICES)
RESERVED = {
    names.NODE: "n",
    names.GPU_ID: "GPU-x",
    names.GPU_SLICES: '[{"name": "main", "slices": []}]',
    ENV_KEY: "GPU-x",
}
VAST = {
    "elastic": {
        "min": 1,
        "max": 10_000,
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"},
    }
}
CROWD = {f"example.com/{number}": "" for number in range(1025)}
GROUPS = right(names.GROUP_PODGROUP, ["podgroups"])
CARELESS = (
    GROUPS,
    right("", ["pods/status", "pods/binding", "bindings"]),
    right(names.GROUP_ALLOCATION, ["gpuallocations", "gpuallocations/status"]),
)
KUBE_SYSTEM = "system:serviceaccount:kube-system"
Attack = Callable[[Api], Awaitable[Any]]


def forged_record(scheduler: str, **metadata: Any) -> Object:
    owner = {"kind": "PodGroup", "name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}
    return {
        "apiVersion": names.API_ALLOCATION,
        "kind": names.KIND_ALLOCATION,
        "metadata": {"name": names.record_name("ghost", owner["uid"]), **metadata},
        "spec": {"owner": owner, "schedulerName": scheduler},
    }


def binding(name: str, target: str, **metadata: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": target},
    }


def attacks(
    namespace: str, scheduler: str, place: str, record: str
) -> dict[str, tuple[Attack, tuple[str, ...]]]:
    """What is tried -> how, and what the refusal says. There are a bound member `m-0`, a pod `waits`, and a record.

    The policy is named by its last words: what no release permits, another's may refuse first.
    """
    asking = pod("forged").by(scheduler).slice(memory_gib=1)
    pods, ledger = at("pods", namespace), at("gpuallocations", namespace)
    kept = ("is written by system:serviceaccount:", "alone", ".alnair.records")
    found: dict[str, tuple[Attack, tuple[str, ...]]] = {}

    def creating(manifest: Object) -> Attack:
        return lambda who: who.create(manifest, namespace=namespace)

    def patching(path: str, body: Object) -> Attack:
        return lambda who: who.patch(path, body)

    for key, value in RESERVED.items():
        rule = (f"metadata.annotations[{key}]", ".alnair.pods-")
        found[f"create with {key}"] = (creating(asking.annotated({key: value}).manifest()), rule)
        for way in ("", "/status"):
            for text in (value + "x", None):
                found[f"pods{way}: {key} = {text}"] = (
                    patching(f"{pods}/m-0{way}", {"metadata": {"annotations": {key: text}}}),
                    (*rule, "cannot be changed"),
                )
        for way in (f"{pods}/waits/binding", f"/api/v1/namespaces/{namespace}/bindings"):
            body = binding("waits", place, annotations={key: value})
            found[f"{way} with {key}"] = (
                lambda who, way=way, body=body: who.call("POST", way, body),  # type: ignore[misc]
                ("only Alnair may", ".alnair.bindings"),
            )
    for way in (f"{pods}/waits/binding", f"/api/v1/namespaces/{namespace}/bindings"):
        found[f"{way} with more annotations than a policy can look at"] = (
            lambda who, way=way: who.call("POST", way, binding("waits", place, annotations=CROWD)),  # type: ignore[misc]
            ("metadata.annotations: 1025 are too many", "at most 1024", ".alnair.bindings"),
        )
        into = binding("waits", place, labels={names.POD_GROUP_LABEL: "team"})
        found[f"{way} into a group"] = (
            lambda who, way=way, body=into: who.call("POST", way, body),  # type: ignore[misc]
            (f"metadata.labels[{names.POD_GROUP_LABEL}]", "no Binding changes that", ".alnair.bindings"),
        )
    for way in ("", "/status"):
        found[f"pods{way}: more annotations than a policy can look at"] = (
            patching(f"{pods}/waits{way}", {"metadata": {"annotations": CROWD}}),
            ("metadata.annotations", "are too many", "at most 1024", ".alnair.pods-update"),
        )
        for member, label in (("m-0", "another"), ("m-0", None), ("waits", "team")):
            found[f"pods{way}: {member} into group {label}"] = (
                patching(f"{pods}/{member}{way}", {"metadata": {"labels": {names.POD_GROUP_LABEL: label}}}),
                (names.POD_GROUP_LABEL, "cannot be changed", ".alnair.pods-update"),
            )
    for kind, preset in {
        "a slice": asking,
        "a slice by annotation": pod("forged").by(scheduler).slice_by_annotation("1Gi"),
        "a whole card": pod("forged").by(scheduler).asking(gpu=1),
        "a slice of another scheduler's pod": asking.by("default-scheduler"),
    }.items():
        found[f"{kind} on a node of its choice"] = (
            creating(preset.with_(lambda it: it["spec"].update(nodeName=place)).manifest()),
            (f"spec.nodeName: {place}", ".alnair.pods-create"),
        )
    found |= {
        "a forged record": (creating(forged_record(scheduler)), kept),
        "a forged record under our label": (
            creating(forged_record("nobody", labels={names.INSTANCE: f"{namespace}.alnair"})),
            kept,
        ),
        "a record without its finalizer": (patching(f"{ledger}/{record}", {"metadata": {"finalizers": None}}), kept),
        "a record with another's label": (
            patching(f"{ledger}/{record}", {"metadata": {"labels": {names.INSTANCE: "somebody.else"}}}),
            kept,
        ),
        "a record with other pods": (patching(f"{ledger}/{record}/status", {"status": {"pods": []}}), kept),
        "a record deleted": (lambda who: who.call("DELETE", f"{ledger}/{record}"), kept),
        "all records deleted": (lambda who: who.call("DELETE", ledger), kept),
        "a group of 10,000": (
            creating(group("vast", min_member=10_000).manifest()),
            ("spec.minMember: 10000", "policies.groupMembers", ".alnair.podgroups"),
        ),
        "a group grown to 10,000": (
            patching(at("podgroups", namespace, "team"), {"spec": {"minMember": 10_000}}),
            ("spec.minMember: 10000", "policies.groupMembers"),
        ),
        "a group that may grow to 10,000": (
            creating(group("vast", min_member=1).with_(lambda it: it.update(spec=VAST)).manifest()),
            ("spec.elastic.max", "less than or equal to 8192"),
        ),
        "more annotations than a policy can look at": (
            creating(asking.annotated(CROWD).manifest()),
            ("metadata.annotations: 1025 are too many", "at most 1024", ".alnair.pods-create"),
        ),
        "256 KiB of annotations and more": (
            creating(asking.annotated({"example.com/long": "x" * 262_145}).manifest()),
            ("metadata.annotations", "Too long"),
        ),
    }  # fmt: skip
    return found


@pytest.mark.policies(recordEditors=[])
async def test_nobody_but_the_operator_writes_what_is_reserved_and_each_refusal_names_the_rule(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    (place,) = await fleet.add(node("gpu").with_cards(1, memory_mib=16384))
    await api.create(group("team", min_member=2).manifest(), namespace=namespace)
    member = pod("m").in_group("team").slice(memory_gib=8).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    record = await record_of_group(api, namespace, "team", phase="Bound")
    waits = pod("waits").slice(memory_gib=8).by(operator.scheduler).selecting(fleet.selector)
    await api.create(waits.manifest(), namespace=namespace)
    await event_about(api, namespace, "waits", "FailedScheduling")
    tried = attacks(namespace, operator.scheduler, place, record["metadata"]["name"])
    before = await api.items(at("pods", namespace))

    await in_force(api, namespace, operator.scheduler, place)
    async with tenant(api, cluster, namespace, tmp_path, *CARELESS, roles=["edit"]) as careless:
        # An administrator, too: who may do everything is asked to do this through the chart.
        for who, whoever in ((careless, "tenant"), (api, ADMINISTRATOR)):
            for what, (attack, words) in tried.items():
                said = await refusal(attack(who))
                assert all(word in said for word in words), f"{what} by {whoever}: {said}"

    assert [told(each) for each in await api.items(at("pods", namespace))] == [told(each) for each in before]
    after = await api.get(at("gpuallocations", namespace, record["metadata"]["name"]))
    assert (after["status"], after["metadata"]["labels"]) == (record["status"], record["metadata"]["labels"])
    # Who does not touch what is reserved is not in the way of it: a kubelet's status, a label, a smaller group.
    await api.patch(
        at("pods", namespace, "m-0", "status"), {"metadata": {"annotations": {"example.com/a": "b"}}}
    )
    await api.patch(at("pods", namespace, "m-0"), {"metadata": {"labels": {"example.com/a": "b"}}})
    await api.patch(at("podgroups", namespace, "team"), {"spec": {"minMember": 1}})
    # Who empties namespaces and who collects garbage may delete.
    for controller in ("namespace-controller", "generic-garbage-collector"):
        as_it = (f"--namespace={namespace}", "--dry-run=server", f"--as={KUBE_SYSTEM}:{controller}")
        cluster.kubectl("delete", "gpuallocation", record["metadata"]["name"], "--wait=false", *as_it)
    await api.delete(at("pods", namespace, "m-0"))
    await api.delete(at("pods", namespace, "m-1"))
    await record_of_pod(api, namespace, "waits", phase="Bound")


def told(pod: Object) -> tuple[Any, ...]:
    meta = pod["metadata"]
    return meta["name"], meta.get("annotations"), meta.get("labels"), pod["spec"].get("nodeName")


async def in_force(api: Api, namespace: str, scheduler: str, place: str) -> None:
    """Until each of the release's policies refuses something; nothing is written by asking. What is asked about pods
    is no other release's business."""
    dry = "?dryRun=All"
    asking = pod("forged").by(scheduler).annotated({names.NODE: "n"}).manifest()
    await until_refused(lambda: api.call("POST", f"{at('pods', namespace)}{dry}", asking))
    label = {"metadata": {"labels": {names.POD_GROUP_LABEL: "another"}}}
    await until_refused(lambda: api.patch(f"{at('pods', namespace, 'm-0')}{dry}", label))
    claim = binding("waits", place, annotations={names.GPU_SLICES: "[]"})
    await until_refused(lambda: api.call("POST", f"{at('pods', namespace, 'waits', 'binding')}{dry}", claim))
    record = forged_record(scheduler)
    await until_refused(lambda: api.call("POST", f"{at('gpuallocations', namespace)}{dry}", record))
    vast = group("vast", min_member=10_000).manifest()
    await until_refused(lambda: api.call("POST", f"{at('podgroups', namespace)}{dry}", vast))


async def test_a_tenant_without_rights_to_the_ledger_is_refused_by_rbac_already(
    api: Api, cluster: Access, namespace: str, tmp_path: Path
) -> None:
    async with tenant(api, cluster, namespace, tmp_path, GROUPS, roles=["edit"]) as plain:
        for path in (
            at("gpuallocations", namespace),
            at("pods", namespace, "p", "binding"),
            f"/api/v1/namespaces/{namespace}/bindings",
        ):
            assert "cannot create resource" in await refusal(plain.call("POST", path, {}))
        assert "cannot patch resource" in await refusal(plain.patch(at("pods", namespace, "p", "status"), {}))
        assert "cannot patch resource" in await refusal(plain.patch(at("nodes", None, "n"), {}))


# -- what the apiserver lets pass ----------------------------------------------------------------------------------

INJECTED = "\n2026-01-01 00:00:00 ERROR alnair: all gangs are evicted"
HELL: dict[str, Any] = {
    "overflow": "1e999999999999",
    "no-number": "NaN",
    "infinity": "Infinity",
    "underscores": "1_000Mi",
    "arabic": "\u0666Gi",
    "negative": "-6Gi",
    "spaces": " 6Gi",
    "empty": "",
    "hexadecimal": "0x10Gi",
    "newline": f"6Gi{INJECTED}",
    "nul": "6Gi\x00",
    "escape": "6Gi\x1b[2J",
    "surrogate": orjson.Fragment(b'"6Gi\\ud800"'),
    "duplicates": '{"a": 1, "a": 2}',
    "deep": "[" * 5000 + "]" * 5000,
    "deeper": '{"a":' * 5000,
    "digits": "9" * 100_000,
    "long": "x" * 250_000,
}


@pytest.mark.shares_operator
async def test_what_tenants_write_is_refused_or_explained_and_a_neighbours_gang_is_scheduled_meanwhile(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    asking = pod("x").by(operator.scheduler).selecting(fleet.selector)
    async with tenant(api, cluster, namespace, tmp_path, GROUPS, roles=["edit"]) as attacker:
        for kind, value in HELL.items():
            for key in (names.GPU_MEMORY, names.GPU_COUNT):
                manifest = asking.named(f"{kind}-{key.rpartition('-')[2]}").manifest()
                manifest["metadata"]["annotations"] = {key: value}
                await attacker.create(manifest, namespace=namespace)
            wanted = group(kind, min_member=1).manifest()
            for field in ("minMember", "scheduleTimeoutSeconds", "onMemberFailure"):
                bad = {**wanted, "spec": {**wanted["spec"], field: value}}
                assert f"spec.{field}" in await refusal(attacker.create(bad, namespace=namespace))
            wanted["metadata"]["annotations"] = {names.TOPOLOGY_REQUIRED: value}
            await attacker.create(wanted, namespace=namespace)
            member = asking.named(f"{kind}-member").in_group(kind).slice(memory_gib=1)
            await attacker.create(member.manifest(), namespace=namespace)
        await neighbour(api, cluster, operator, fleet)

        def explained(pods: list[Object]) -> bool:
            for each in pods:
                annotations = each["metadata"].get("annotations", {names.TOPOLOGY_REQUIRED: ""})
                honest(condition(each, "PodScheduled").get("message", ""), next(iter(annotations)))
            return True

        assert len(await api.until_all(at("pods", namespace), explained)) == 3 * len(HELL)
        for kind in HELL:
            honest(await refused(api, namespace, kind, names.TOPOLOGY_REQUIRED), names.TOPOLOGY_REQUIRED)
        assert await bound_now(api, namespace) == []
    unharmed(operator)


def verbose() -> dict[str, tuple[Object, str]]:
    """Pods that say far more than anybody needs: what, and the field that they are told."""
    spread = {
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"example.com/a": "b"}},
    }
    apart = [
        {
            "topologyKey": "example.com/rack",
            "namespaceSelector": {},
            "labelSelector": {
                "matchExpressions": [{"key": f"example.com/{each}", "operator": "DoesNotExist"}]
            },
        }
        for each in range(2000)
    ]
    wishes = [{"weight": 1, "podAffinityTerm": each} for each in apart]
    values = {
        "key": "example.com/rack",
        "operator": "NotIn",
        "values": [f"r{each}" for each in range(50_000)],
    }
    required = {"nodeSelectorTerms": [{"matchExpressions": [values]}]}
    asked = {f"example.com/{each}": "1" for each in range(5000)}
    spreads = [{**spread, "topologyKey": f"example.com/{each}"} for each in range(1000)]
    return {
        "spreads": ({"topologySpreadConstraints": spreads}, "spec.topologySpreadConstraints"),
        "likes": (
            {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}},
            "spec.affinity",
        ),
        "values": (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}},
            "spec.affinity",
        ),
        "resources": (
            {"containers": [{"name": "main", "image": "x", "resources": {"limits": asked}}]},
            "spec.containers (resources)",
        ),
    }


@pytest.mark.shares_operator
async def test_pods_that_say_too_much_are_told_so_and_stop_nobody(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    (place,) = await fleet.add(node("gpu").with_cards(4))
    async with tenant(api, cluster, namespace, tmp_path, GROUPS, roles=["edit"]) as attacker:
        for kind, (rules, field) in verbose().items():
            waits = pod(f"waits-{kind}").by(operator.scheduler)
            await attacker.create(
                waits.with_(lambda it, rules=rules: it["spec"].update(rules)).manifest(), namespace=namespace
            )
            there = pod(f"there-{kind}").with_(
                lambda it, rules=rules: it["spec"].update(rules, nodeName=place)
            )
            await attacker.create(there.manifest(), namespace=namespace)
            told = await event_about(api, namespace, f"waits-{kind}", "FailedScheduling")
            assert field in told["note"]
        await neighbour(api, cluster, operator, fleet)
    unharmed(operator)


@pytest.mark.shares_operator
async def test_a_disk_that_no_driver_could_name_stops_nobody_who_has_disks(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    (place,) = await fleet.add(node("gpu").with_cards(4))
    broken = pod("broken").with_volume(awsElasticBlockStore={"volumeID": "aws://["})
    async with tenant(api, cluster, namespace, tmp_path, GROUPS, roles=["edit"]) as attacker:
        bound = broken.with_(lambda it: it["spec"].update(nodeName=place))
        await attacker.create(bound.manifest(), namespace=namespace)
        async with borrowed(cluster) as other:
            careful = pod("careful").with_volume(awsElasticBlockStore={"volumeID": "vol-1"})
            careful = careful.slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
            await api.create(careful.manifest(), namespace=other)
            await bound_pods(api, other, 1)
    unharmed(operator)


@pytest.mark.shares_operator
async def test_a_group_named_as_another_namespaces_gets_none_of_its_members(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    member = pod("x").in_group("team").by(operator.scheduler).slice(memory_gib=1).selecting(fleet.selector)
    async with (
        tenant(api, cluster, namespace, tmp_path, GROUPS, roles=["edit"]) as attacker,
        borrowed(cluster) as other,
    ):
        await api.create(group("team", min_member=2).manifest(), namespace=other)
        await api.create(member.named("one").manifest(), namespace=other)
        # With a group of that name, and without.
        await attacker.create(member.named("stray").manifest(), namespace=namespace)
        told = await event_about(api, namespace, "stray", "FailedScheduling")
        assert f"PodGroup {namespace}/team does not exist" in told["note"]
        await attacker.create(group("team", min_member=2).manifest(), namespace=namespace)
        for each in (namespace, other):
            await refused(api, each, "team", "1 of at least 2")
        await api.create(member.named("two").manifest(), namespace=other)
        theirs = {each["metadata"]["uid"] for each in await bound_pods(api, other, 2)}
        record = await record_of_group(api, other, "team", phase="Bound")
        assert {each["uid"] for each in record["status"]["pods"]} == theirs
        assert await bound_now(api, namespace) == []


NODE_KEYS = (
    names.GPU_STATIC,
    names.HAMI_REGISTER,
    names.PHYSICAL_GPU_COUNT,
    names.VIRTUAL_GPU_COUNT,
    f"{names.PREFIX}gpu-0",
    names.NODE_READING,
)


@pytest.mark.shares_operator
async def test_what_a_broken_agent_writes_on_nodes_and_topologies_stops_nobody(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("whole").with_cards(4))
    broken = []
    for kind, value in HELL.items():
        made = node(f"hell-{kind}").with_cards(1).labelled(fleet.selector)
        text = "x" * 40_000 if kind in ("long", "digits") else value
        manifest = made.named(fleet.name(made.name)).annotated(dict.fromkeys(NODE_KEYS, text)).manifest()
        amounts = dict.fromkeys(("capacity", "allocatable", "available"), text)
        zone = {"name": "gpu-0", "type": "GPU", "resources": [{"name": "memory", **amounts}]}
        topology = {"apiVersion": names.API_NRT, "kind": names.KIND_NRT, "metadata": manifest["metadata"]}
        with suppress(Refused):  # the rest is for the operator to refuse
            fleet.made.append(await api.create({**topology, "zones": [zone]}))
        broken.append(await api.create(manifest))
        fleet.made.append(broken[-1])
    await neighbour(api, cluster, operator, fleet)
    for each in broken:
        honest((await event_about(api, "default", each["metadata"]["name"], "InvalidTopology"))["note"])
    unharmed(operator)


@asynccontextmanager
async def borrowed(cluster: Access) -> AsyncIterator[str]:
    """A namespace of somebody else's."""
    name = make_namespace(cluster)
    try:
        yield name
    finally:
        cluster.request("DELETE", f"/api/v1/namespaces/{name}")


async def neighbour(api: Api, cluster: Access, operator: Operator, fleet: Fleet) -> None:
    """A gang of another namespace is bound, while all that stands there."""
    async with borrowed(cluster) as name:
        await api.create(group("gang", min_member=2).manifest(), namespace=name)
        member = pod("m").in_group("gang").slice(memory_gib=1).by(operator.scheduler)
        await api.create_all(member.selecting(fleet.selector).copies(2), namespace=name)
        await bound_pods(api, name, 2)


def honest(said: str, *words: str) -> None:
    """It names what is wrong, in one line that a terminal can show."""
    assert all(word in said for word in words), said
    assert said.isprintable()
    assert len(said) < 2000


def unharmed(operator: Operator) -> None:
    """It runs, and no line of its log was written by somebody else."""
    assert operator.running()
    lines = operator.log.read_bytes().split(b"\n")
    forged = INJECTED.strip().encode()
    assert not [line for line in lines if line.startswith(forged)]
    assert not [line for line in lines if b"\x00" in line or b"\x1b" in line]
    assert not [line for line in lines if b"Traceback" in line]
