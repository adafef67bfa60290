"""Objects for tests, written as sentences; `.manifest()` ends one.

    pod("trainer-0").in_group("team").asking(gpu=1).by("alnair")
    pod("small").slice(memory_gib=6, compute=50).selecting(pool="a")
    group("team", min_member=4)
    node("gpu-1").with_cards(8, model="A100", memory_mib=40960).owned_by("device-plugin")

Every word returns a new builder, so a half sentence can be kept and continued in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from alnair.api import names
from alnair.sandbox import fleet
from alnair.sandbox.fleet import CardKind, Owner

Manifest = dict[str, Any]
IMAGE = "pause"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def copied(manifest: Manifest) -> Manifest:
    """Nothing but dictionaries, lists and values is in it, so this does as well as `deepcopy`, and faster."""
    return {key: _copied(value) for key, value in manifest.items()}


def _copied(part: Any) -> Any:
    if isinstance(part, dict):
        return copied(part)
    return [_copied(value) for value in part] if isinstance(part, list) else part


@dataclass(frozen=True)
class Built:
    """A manifest under construction. It is never changed in place."""

    body: Manifest

    def manifest(self) -> Manifest:
        return copied(self.body)

    def with_(self, change: Callable[[Manifest], object]) -> Self:
        """For what has no word: `with_(lambda it: it["spec"].update(hostNetwork=True))`."""
        body = copied(self.body)
        change(body)
        return replace(self, body=body)

    def named(self, name: str) -> Self:
        return self.with_(lambda it: it["metadata"].update(name=name))

    def in_namespace(self, namespace: str) -> Self:
        return self.with_(lambda it: it["metadata"].update(namespace=namespace))

    def labelled(self, labels: dict[str, str] | None = None, **more: str) -> Self:
        return self.with_(
            lambda it: it["metadata"].setdefault("labels", {}).update({**(labels or {}), **more})
        )

    def annotated(self, annotations: dict[str, str] | None = None, **more: str) -> Self:
        return self.with_(
            lambda it: it["metadata"].setdefault("annotations", {}).update({**(annotations or {}), **more})
        )


@dataclass(frozen=True)
class PodBuilder(Built):
    def by(self, scheduler: str) -> Self:
        """Which scheduler (profile) places it."""
        return self._spec(schedulerName=scheduler)

    def in_group(self, name: str) -> Self:
        return self.labelled({names.POD_GROUP_LABEL: name})

    def asking(
        self,
        *,
        gpu: int | str | None = None,
        cpu: str | None = None,
        memory: str | None = None,
        resources: dict[str, str] | None = None,
    ) -> Self:
        """Resources of the last container, as requests and limits: whole cards, cpu, memory, any other."""
        wanted = {
            **({"cpu": cpu} if cpu is not None else {}),
            **({"memory": memory} if memory is not None else {}),
            **({names.NVIDIA_GPU: str(gpu)} if gpu is not None else {}),
            **(resources or {}),
        }

        def change(it: Manifest) -> None:
            ask = it["spec"]["containers"][-1].setdefault("resources", {})
            for side in ("requests", "limits"):
                ask.setdefault(side, {}).update(wanted)

        return self.with_(change)

    def slice(self, *, memory_gib: int | str, compute: int | str | None = None) -> Self:
        """A part of one card by Alnair's resources: GiB, and per cent of its compute."""
        share = {names.VGPU_COMPUTE: str(compute)} if compute is not None else {}
        return self.asking(resources={names.VGPU_MEMORY: str(memory_gib), **share})

    def slice_by_annotation(
        self, memory: str, *, compute: int | str | None = None, count: int | str | None = None
    ) -> Self:
        """A part of a card by annotations: memory such as `6Gi` or `6000Mi`, on `count` distinct cards."""
        wanted = {names.GPU_MEMORY: memory}
        if compute is not None:
            wanted[names.GPU_COMPUTE] = str(compute)
        if count is not None:
            wanted[names.GPU_COUNT] = str(count)
        return self.annotated(wanted)

    def told(self, *, cards: int = 1, whole: bool = False) -> Self:
        """The last container reads its cards from its environment, as the chart's policy would have it."""

        def change(it: Manifest) -> None:
            container = it["spec"]["containers"][-1]
            for variable, value in names.env_of_container(cards, whole=whole).items():
                path = f"metadata.annotations['{names.env_key(container['name'], value)}']"
                source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
                container.setdefault("env", []).append({"name": variable, "valueFrom": source})

        return self.with_(change)

    def with_env(self, name: str, value: str) -> Self:
        """A variable of the user's own in the last container."""
        one = {"name": name, "value": value}
        return self.with_(lambda it: it["spec"]["containers"][-1].setdefault("env", []).append(one))

    def of_model(self, *models: str) -> Self:
        return self.annotated({names.GPU_MODEL: ",".join(models)})

    def on_cards(self, *cards: str) -> Self:
        """Only these: UUIDs, or NODE/INDEX."""
        return self.annotated({names.GPU_UUID: ",".join(cards)})

    def exclusively(self) -> Self:
        """Its slices are on cards that nobody else has a part of."""
        return self.annotated({names.GPU_SHARING: names.EXCLUSIVE})

    def selecting(self, labels: dict[str, str] | None = None, **more: str) -> Self:
        """A nodeSelector."""
        return self.with_(
            lambda it: it["spec"].setdefault("nodeSelector", {}).update({**(labels or {}), **more})
        )

    def tolerating(self, key: str, value: str | None = None, *, effect: str | None = None) -> Self:
        one = {"key": key, "operator": "Exists" if value is None else "Equal"}
        one |= {"value": value} if value is not None else {}
        one |= {"effect": effect} if effect is not None else {}
        return self.with_(lambda it: it["spec"].setdefault("tolerations", []).append(one))

    def on_nodes(self, *terms: Manifest, weight: int | None = None) -> Self:
        """Node affinity: any of these terms is required, or (with a weight) each is wished for. See `term`."""

        def change(it: Manifest) -> None:
            nodes = _affinity(it, "nodeAffinity")
            if weight is None:
                nodes.setdefault(REQUIRED, {"nodeSelectorTerms": []})["nodeSelectorTerms"].extend(terms)
            else:
                wishes = [{"weight": weight, "preference": each} for each in terms]
                nodes.setdefault(PREFERRED, []).extend(wishes)

        return self.with_(change)

    def near_to(
        self, labels: dict[str, str] | None, *, key: str, weight: int | None = None, **fields: Any
    ) -> Self:
        """Affinity to pods with these labels (None: no selector) in one domain of the node label `key`; a wish if it
        has a weight. More fields of the term by their names: `namespaces=[...]`."""
        return self._beside("podAffinity", labels, key, weight, fields)

    def apart_from(
        self, labels: dict[str, str] | None, *, key: str, weight: int | None = None, **fields: Any
    ) -> Self:
        """Anti-affinity; see `near_to`."""
        return self._beside("podAntiAffinity", labels, key, weight, fields)

    def _beside(
        self, kind: str, labels: dict[str, str] | None, key: str, weight: int | None, fields: Manifest
    ) -> Self:
        one: Manifest = {"topologyKey": key, **fields}
        if labels is not None:
            one.setdefault("labelSelector", {"matchLabels": labels} if labels else {})

        def change(it: Manifest) -> None:
            pods = _affinity(it, kind)
            if weight is None:
                pods.setdefault(REQUIRED, []).append(one)
            else:
                pods.setdefault(PREFERRED, []).append({"weight": weight, "podAffinityTerm": one})

        return self.with_(change)

    def spread_over(
        self,
        key: str,
        labels: dict[str, str] | None,
        *,
        max_skew: int = 1,
        hard: bool = True,
        **fields: Any,
    ) -> Self:
        """A topology spread constraint for pods with these labels (None: no selector)."""
        one: Manifest = {
            "topologyKey": key,
            "maxSkew": max_skew,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            **fields,
        }
        if labels is not None:
            one.setdefault("labelSelector", {"matchLabels": labels} if labels else {})
        return self.with_(lambda it: it["spec"].setdefault("topologySpreadConstraints", []).append(one))

    def on_host_port(self, port: int, *, protocol: str | None = None, ip: str | None = None) -> Self:
        """A host port of the last container."""
        one: Manifest = {"containerPort": port, "hostPort": port}
        one |= {"protocol": protocol} if protocol is not None else {}
        one |= {"hostIP": ip} if ip is not None else {}
        return self.with_(lambda it: it["spec"]["containers"][-1].setdefault("ports", []).append(one))

    def running_image(self, image: str) -> Self:
        """Of the last container."""
        return self.with_(lambda it: it["spec"]["containers"][-1].update(image=image))

    def mounting(self, *claims: str) -> Self:
        """Volumes of these PersistentVolumeClaims."""
        made = self
        for claim in claims:
            made = made.with_volume(persistentVolumeClaim={"claimName": claim})
        return made

    def with_volume(self, name: str = "", **source: Any) -> Self:
        """A volume of any kind: `with_volume(gcePersistentDisk={"pdName": "d"})`."""

        def change(it: Manifest) -> None:
            volumes = it["spec"].setdefault("volumes", [])
            volumes.append({"name": name or f"v{len(volumes)}", **source})

        return self.with_(change)

    def nominated_to(self, node: str) -> Self:
        """A preemption made room for it there."""
        return self.with_(lambda it: it.setdefault("status", {}).update(nominatedNodeName=node))

    def gated(self, gate: str = "example.com/wait") -> Self:
        return self.with_(lambda it: it["spec"].setdefault("schedulingGates", []).append({"name": gate}))

    def with_priority(self, class_name: str) -> Self:
        return self._spec(priorityClassName=class_name)

    def with_container(self, name: str) -> Self:
        """One more container; `asking` and `slice` speak of it from now on."""
        return self.with_(lambda it: it["spec"]["containers"].append({"name": name, "image": IMAGE}))

    def with_init(self, name: str, resources: dict[str, str], *, sidecar: bool = False) -> Self:
        """One more init container, with these requests and limits; a sidecar restarts always."""
        one: Manifest = {"name": name, "image": IMAGE}
        one["resources"] = {"requests": dict(resources), "limits": dict(resources)}
        one |= {"restartPolicy": "Always"} if sidecar else {}
        return self.with_(lambda it: it["spec"].setdefault("initContainers", []).append(one))

    def held_by(self, finalizer: str = "example.com/hold") -> Self:
        """A finalizer: once deleted it stays, terminating, until the finalizer is taken away."""
        return self.with_(lambda it: it["metadata"].setdefault("finalizers", []).append(finalizer))

    def copies(self, count: int) -> list[Manifest]:
        """`name-0`, `name-1`, …: manifests."""
        name = self.body["metadata"]["name"]
        return [self.named(f"{name}-{index}").manifest() for index in range(count)]

    def template(self) -> Manifest:
        """The same as a pod template, for Jobs and Deployments."""
        metadata = {
            key: self.body["metadata"][key]
            for key in ("labels", "annotations")
            if key in self.body["metadata"]
        }
        return copied({"metadata": metadata, "spec": self.body["spec"]})

    def _spec(self, **fields: Any) -> Self:
        return self.with_(lambda it: it["spec"].update(fields))


def term(*expressions: Manifest, fields: Sequence[Manifest] = ()) -> Manifest:
    """One term of a node affinity: `term(line("zone", "In", "x"), line("old", "DoesNotExist"))`."""
    return {
        **({"matchExpressions": list(expressions)} if expressions else {}),
        **({"matchFields": list(fields)} if fields else {}),
    }


def line(key: str, operator: str, *values: str) -> Manifest:
    """One requirement of a selector."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _affinity(pod: Manifest, kind: str) -> Manifest:
    found: Manifest = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    return found


def pod(name: str) -> PodBuilder:
    """A pod with one container `main` that asks for nothing."""
    return PodBuilder(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": IMAGE}], "terminationGracePeriodSeconds": 0},
        }
    )


@dataclass(frozen=True)
class GroupBuilder(Built):
    def giving_up_after(self, seconds: int) -> Self:
        return self.with_(lambda it: it["spec"].update(scheduleTimeoutSeconds=seconds))

    def needing(self, resources: dict[str, str]) -> Self:
        """minResources."""
        return self.with_(lambda it: it["spec"].update(minResources=resources))


def group(name: str, *, min_member: int) -> GroupBuilder:
    """A PodGroup; its pods join by `.in_group(name)` in the same namespace."""
    return GroupBuilder(
        {
            "apiVersion": names.API_PODGROUP,
            "kind": names.KIND_PODGROUP,
            "metadata": {"name": name},
            "spec": {"minMember": min_member},
        }
    )


def job(name: str, of: PodBuilder, *, count: int) -> Built:
    """A Job of `count` pods at once."""
    template = of.template()
    template["spec"]["restartPolicy"] = "Never"
    return Built(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"parallelism": count, "completions": count, "template": template},
        }
    )


def deployment(name: str, of: PodBuilder, *, replicas: int) -> Built:
    template = of.labelled({"app": name}).template()
    return Built(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
    )


def statefulset(name: str, of: PodBuilder, *, replicas: int) -> Built:
    """Its pods come and go all at once."""
    template = of.labelled({"app": name}).template()
    return Built(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "serviceName": name,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            },
        }
    )


@dataclass(frozen=True)
class NodeBuilder:
    """A node that kwok plays. Its cards are described in its owner's way when the sentence ends."""

    name: str
    cards: tuple[CardKind, ...] = ()
    owner: Owner = "alnair"
    holds: dict[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "512Gi", "pods": "110"})
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] = ()
    unschedulable: bool = False
    images: tuple[tuple[str, int], ...] = ()
    distance: Callable[[int, int], int] | None = None

    def named(self, name: str) -> Self:
        return replace(self, name=name)

    def with_cards(
        self, count: int, *, model: str = fleet.A10.model, memory_mib: int = fleet.A10.memory_mib
    ) -> Self:
        """Adds equal cards; said twice with different ones, the node is mixed."""
        return replace(self, cards=self.cards + (CardKind(model, memory_mib),) * count)

    def linked(self, distance: Callable[[int, int], int] = fleet.nvlink_pairs) -> Self:
        """How far its cards are from each other, told by a NodeResourceTopology."""
        return replace(self, distance=distance)

    def owned_by(self, owner: Owner) -> Self:
        return replace(self, owner=owner)

    def holding(
        self, *, cpu: str | None = None, memory: str | None = None, pods: int | None = None, **more: str
    ) -> Self:
        given = {"cpu": cpu, "memory": memory, "pods": str(pods) if pods is not None else None, **more}
        return replace(
            self, holds={**self.holds, **{key: value for key, value in given.items() if value is not None}}
        )

    def labelled(self, labels: dict[str, str] | None = None, **more: str) -> Self:
        return replace(self, labels={**self.labels, **(labels or {}), **more})

    def annotated(self, annotations: dict[str, str]) -> Self:
        """What it says wins over what the cards would say: for malformed annotations."""
        return replace(self, annotations={**self.annotations, **annotations})

    def tainted(self, key: str, value: str = "", *, effect: str = "NoSchedule") -> Self:
        return replace(self, taints=(*self.taints, {"key": key, "value": value, "effect": effect}))

    def with_image(self, name: str, size: int) -> Self:
        """An image that its kubelet has pulled; bytes."""
        return replace(self, images=(*self.images, (name, size)))

    def cordoned(self) -> Self:
        return replace(self, unschedulable=True)

    def manifest(self) -> Manifest:
        """The Node object."""
        return self.manifests()[0]

    def manifests(self) -> list[Manifest]:
        """The Node, and its NodeResourceTopology where only that can describe its cards."""
        kinds = set(self.cards)
        if len(kinds) > 1 and self.owner != "alnair":
            raise ValueError(
                f"node {self.name}: labels cannot describe different cards; a mixed node is Alnair's"
            )
        if len(kinds) == 1 and self.distance is None:
            (kind,) = kinds
            made = [
                fleet.gpu_node(
                    self.name,
                    model=kind.model,
                    cards=len(self.cards),
                    memory_mib=kind.memory_mib,
                    owner=self.owner,
                    labels=self.labels,
                    annotations=self.annotations,
                    taints=self.taints,
                    unschedulable=self.unschedulable,
                )
            ]
        else:
            mixed = {names.GPU_OWNER: names.OWNED_BY_ALNAIR} if kinds else {}
            made = [
                fleet.plain_node(
                    self.name,
                    labels={**mixed, **self.labels},
                    annotations=self.annotations,
                    taints=self.taints,
                    unschedulable=self.unschedulable,
                )
            ]
            made += [fleet.topology(self.name, self.cards, distance=self.distance)] if kinds else []
        for side in ("capacity", "allocatable"):
            made[0]["status"][side].update(self.holds)
        if self.images:
            made[0]["status"]["images"] = [{"names": [name], "sizeBytes": size} for name, size in self.images]
        return made


def node(name: str) -> NodeBuilder:
    """A node without cards, 64 cores, 512 GiB."""
    return NodeBuilder(name)


def nodes(prefix: str, count: int, like: NodeBuilder) -> Sequence[NodeBuilder]:
    """`prefix-1`, `prefix-2`, …, all like one."""
    return [like.named(f"{prefix}-{number}") for number in range(1, count + 1)]
