"""Objects for tests, written as sentences; `.manifest()` ends one.

    pod("trainer-0").in_group("team").asking(gpu=1).by("alnair")
    pod("small").slice(memory_gib=6, compute=50).selecting(pool="a")
    group("team", min_member=4)
    node("gpu-1").with_cards(8, model="A100", memory_mib=40960).owned_by("device-plugin")

Every word returns a new builder, so a half sentence can be kept and continued in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from alnair.api import names
from alnair.sandbox import fleet
from alnair.sandbox.fleet import CardKind, Owner

Manifest = dict[str, Any]
IMAGE = "pause"


@dataclass(frozen=True)
class Built:
    """A manifest under construction. It is never changed in place."""

    body: Manifest

    def manifest(self) -> Manifest:
        return deepcopy(self.body)

    def with_(self, change: Callable[[Manifest], object]) -> Self:
        """For what has no word: `with_(lambda it: it["spec"].update(hostNetwork=True))`."""
        body = deepcopy(self.body)
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

    def of_model(self, *models: str) -> Self:
        return self.annotated({names.GPU_MODEL: ",".join(models)})

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

    def gated(self, gate: str = "example.com/wait") -> Self:
        return self.with_(lambda it: it["spec"].setdefault("schedulingGates", []).append({"name": gate}))

    def with_priority(self, class_name: str) -> Self:
        return self._spec(priorityClassName=class_name)

    def with_container(self, name: str) -> Self:
        """One more container; `asking` and `slice` speak of it from now on."""
        return self.with_(lambda it: it["spec"]["containers"].append({"name": name, "image": IMAGE}))

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
        return deepcopy({"metadata": metadata, "spec": self.body["spec"]})

    def _spec(self, **fields: Any) -> Self:
        return self.with_(lambda it: it["spec"].update(fields))


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

    def named(self, name: str) -> Self:
        return replace(self, name=name)

    def with_cards(
        self, count: int, *, model: str = fleet.A10.model, memory_mib: int = fleet.A10.memory_mib
    ) -> Self:
        """Adds equal cards; said twice with different ones, the node is mixed."""
        return replace(self, cards=self.cards + (CardKind(model, memory_mib),) * count)

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
        if len(kinds) == 1:
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
            made += [fleet.topology(self.name, self.cards)] if kinds else []
        for side in ("capacity", "allocatable"):
            made[0]["status"][side].update(self.holds)
        return made


def node(name: str) -> NodeBuilder:
    """A node without cards, 64 cores, 512 GiB."""
    return NodeBuilder(name)


def nodes(prefix: str, count: int, like: NodeBuilder) -> Sequence[NodeBuilder]:
    """`prefix-1`, `prefix-2`, …, all like one."""
    return [like.named(f"{prefix}-{number}") for number in range(1, count + 1)]
