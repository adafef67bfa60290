"""The sample workloads: what `alnair demo` applies and what lies in `examples/`, from one source.

A sample is a file of manifests that any user may apply, and a check that says in words what is not (yet) as it
should be once Alnair has dealt with it. `python -m alnair.sandbox.workloads examples` writes the files; a test
fails when they differ. Nothing in a sample may depend on the sandbox: no namespace, no node by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from alnair.api import names
from alnair.api.allocation import BOUND
from alnair.api.podgroup import RUNNING

Manifest = dict[str, Any]

IMAGE = "busybox:1.37"
UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True)
class Seen:
    """A namespace as the apiserver shows it."""

    pods: Sequence[Manifest] = ()
    groups: Sequence[Manifest] = ()
    records: Sequence[Manifest] = ()
    events: Sequence[Manifest] = ()  # of events.k8s.io

    def labelled(self, app: str) -> list[Manifest]:
        return [pod for pod in self.pods if pod["metadata"].get("labels", {}).get("app") == app]

    def group(self, name: str) -> Manifest:
        return next((each for each in self.groups if each["metadata"]["name"] == name), {})

    def record(self, kind: str, name: str) -> Manifest:
        owner = {"kind": kind, "name": name}
        return next((each for each in self.records if owner.items() <= each["spec"]["owner"].items()), {})

    def told(self, kind: str, name: str, reason: str) -> bool:
        """Whether an event of that reason tells of that object."""
        about = {"kind": kind, "name": name}
        return any(
            each["reason"] == reason and about.items() <= each["regarding"].items() for each in self.events
        )


Check = Callable[[Seen], list[str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One file under `examples/`."""

    file: str
    shows: str  # in a few words, for the demo's own line
    comment: str  # the head of the file
    manifests: tuple[Manifest, ...]
    wrong: Check = field(compare=False)  # what is not as it should be; empty when all is

    def text(self) -> str:
        head = "".join(f"# {line}\n" if line else "#\n" for line in self.comment.strip().splitlines())
        return head + yaml.safe_dump_all(self.manifests, sort_keys=False, width=110)


# -- what the samples are made of ------------------------------------------------------------------------------------


def _pod_spec(scheduler: str, limits: dict[str, str]) -> Manifest:
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": limits}
    return {
        "schedulerName": scheduler,
        "containers": [
            {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"], "resources": resources}
        ],
    }


def _slice_pod(name: str, app: str, gib: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": _pod_spec(names.PROFILE_COST_SAVING, {names.VGPU_MEMORY: str(gib)}),
    }


def _gang(
    name: str,
    size: int,
    limits: dict[str, str],
    *,
    annotations: dict[str, str] | None = None,
    node_selector: dict[str, str] | None = None,
) -> tuple[Manifest, ...]:
    """A PodGroup and the Deployment whose pods are its members."""
    template: Manifest = {"labels": {"app": name, names.POD_GROUP_LABEL: name}}
    if annotations:
        template["annotations"] = annotations
    spec = _pod_spec(names.PROFILE_DEFAULT, limits)
    if node_selector:
        spec["nodeSelector"] = node_selector
    group: Manifest = {
        "apiVersion": names.API_PODGROUP,
        "kind": names.KIND_PODGROUP,
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    deployment: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template, "spec": spec},
        },
    }
    return group, deployment


# -- what is expected of them ----------------------------------------------------------------------------------------


def _not_running(pods: Sequence[Manifest], expected: int, what: str) -> list[str]:
    run = sum(bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == RUNNING for pod in pods)
    return [] if run == expected else [f"{run} of {expected} pods of {what} are bound and Running"]


def _not_bound(record: Manifest, pods: int, what: str) -> list[str]:
    status = record.get("status", {})
    if status.get("phase") == BOUND and status.get("scheduled") == pods:
        return []
    said = f"phase {status.get('phase')} with {status.get('scheduled')} pods" if record else "not there"
    return [f"the GPUAllocation of {what} is {said}, expected {BOUND} with {pods}"]


def _not_told(seen: Seen, kind: str, name: str, reason: str) -> list[str]:
    return [] if seen.told(kind, name, reason) else [f"no event {reason} tells of {kind} {name}"]


def cards(record: Manifest) -> set[str]:
    """The cards that a record names."""
    return {
        piece["gpu"]
        for pod in record.get("status", {}).get("pods", [])
        for container in pod.get("containers", [])
        for piece in container.get("slices", [])
    }


def _sharing(*pods: str) -> Check:
    def wrong(seen: Seen) -> list[str]:
        there = [pod for pod in seen.pods if pod["metadata"]["name"] in pods]
        problems = _not_running(there, len(pods), " and ".join(pods))
        for name in pods:
            problems += _not_bound(seen.record("Pod", name), 1, f"pod {name}")
            problems += _not_told(seen, "Pod", name, "Scheduled")
        held = [cards(seen.record("Pod", name)) for name in pods]
        if not problems and (len(held[0]) != 1 or any(each != held[0] for each in held)):
            problems.append(f"{' and '.join(pods)} share no card: {[sorted(each) for each in held]}")
        return problems

    return wrong


def _whole(name: str, size: int) -> Check:
    def wrong(seen: Seen) -> list[str]:
        phase = seen.group(name).get("status", {}).get("phase")
        return [
            *_not_running(seen.labelled(name), size, f"PodGroup {name}"),
            *_not_bound(seen.record(names.KIND_PODGROUP, name), size, f"PodGroup {name}"),
            *([] if phase == RUNNING else [f"PodGroup {name} is in phase {phase}, expected {RUNNING}"]),
            *_not_told(seen, names.KIND_PODGROUP, name, "Scheduled"),
        ]

    return wrong


def _refused(name: str, size: int) -> Check:
    def wrong(seen: Seen) -> list[str]:
        pods = seen.labelled(name)
        bound = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]
        conditions = seen.group(name).get("status", {}).get("conditions", [])
        said: Manifest = next((each for each in conditions if each["type"] == "Scheduled"), {})
        problems = []
        if len(pods) != size:
            problems.append(f"{len(pods)} of {size} pods of PodGroup {name} exist")
        if bound:
            problems.append(f"PodGroup {name} cannot be whole, yet {', '.join(bound)} are bound")
        if seen.record(names.KIND_PODGROUP, name):
            problems.append(f"PodGroup {name} has no place, yet a GPUAllocation")
        if said.get("reason") != UNSCHEDULABLE or not said.get("message"):
            problems.append(f"PodGroup {name} gives no reason yet (its condition is {said or 'not there'})")
        return problems + _not_told(seen, names.KIND_PODGROUP, name, UNSCHEDULABLE)

    return wrong


# -- the samples -----------------------------------------------------------------------------------------------------

SHARED_CARD = Sample(
    file="shared-card.yaml",
    shows="two pods ask for 4 and 6 GiB of GPU memory and share one card",
    comment="""
Two pods that need a part of a card each: 4 GiB and 6 GiB of GPU memory.

alnair/vgpu-memory is in GiB on one card; alnair/vgpu-compute (per cent of that card) may stand beside it.
The profile alnair-cost-saving fills cards that are in use first, so the two share one.
A pod without a group is a gang of one: it has a GPUAllocation of its own.
""",
    manifests=(_slice_pod("notebook-4g", "notebook", 4), _slice_pod("notebook-6g", "notebook", 6)),
    wrong=_sharing("notebook-4g", "notebook-6g"),
)

GANG = Sample(
    file="gang.yaml",
    shows="four pods with a whole A10 each start together, or not at all",
    comment="""
A gang of four: none of them starts before all four have a card.

The pods join the PodGroup by their label. nvidia.com/gpu asks for whole cards; the annotation limits them
to a model (a comma-separated list), spelt as the nodes spell it. The nodeSelector says that the cards are to be
Alnair's: without it the pods go to nodes whose cards a device plugin hands out.
""",
    manifests=_gang(
        "trainer",
        4,
        {names.NVIDIA_GPU: "1"},
        annotations={names.GPU_MODEL: "NVIDIA-A10"},
        node_selector={names.GPU_OWNER: names.OWNED_BY_ALNAIR},
    ),
    wrong=_whole("trainer", 4),
)

TOO_LARGE = Sample(
    file="gang-without-room.yaml",
    shows="ten pods of 36 GiB each, with cards for eight: none starts, and the group says why",
    comment="""
A gang of ten that needs 36 GiB on one card for each member.

Where only some of the ten fit, none is started and nothing is held: see `alnair explain podgroup/simulation`.
It is tried again when a node or capacity is added, and starts when all ten fit.
""",
    manifests=_gang("simulation", 10, {names.VGPU_MEMORY: "36"}),
    wrong=_refused("simulation", 10),
)

SAMPLES = (SHARED_CARD, GANG, TOO_LARGE)


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        (folder / sample.file).write_text(sample.text(), "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m alnair.sandbox.workloads FOLDER   (writes the sample manifests there)")
    write(Path(sys.argv[1]))
