"""How much one pod may say about where it goes.

Kubernetes bounds a pod by its bytes alone. What a pod says is worked out on the loop that keeps the Lease, whenever it
is planned and by each new leader: one pod with a thousand rules would stop scheduling for everybody. So a pod that says
more than anybody needs is not placed, and is told which field is too long.

Where somebody else has bound such a pod, it counts by what it takes of its node, and what it says too much of is passed
over. What must never happen here: work that grows faster than the pod's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from alnair.api import names
from alnair.state import wire

MOST_CONTAINERS: Final = 128
MOST_RESOURCES: Final = 64
MOST_PORTS: Final = 256
MOST_IMAGE_TEXT: Final = 64 * 1024
MOST_VOLUMES: Final = 512
MOST_TOLERATIONS: Final = 256
MOST_CONSTRAINTS: Final = 16
MOST_TERMS: Final = 64  # of all affinities together
MOST_LINES: Final = 256  # of the selectors in one field
MOST_VALUES: Final = 1024  # that these lines name

COUNTED_ANYWAY: Final = frozenset({"cpu", "memory", "ephemeral-storage", names.NVIDIA_GPU})


def bounded(spec: wire.PodSpec) -> tuple[wire.PodSpec, str]:
    """The pod without what it says too much of, and a word about the first of that; else as it is, and nothing."""
    excess = {field: (number, most) for field, number, most in _sizes(spec) if number > most}
    if not excess:
        return spec, ""
    (field, (number, most)), *_ = excess.items()
    told = f"spec.{field}: {number} are more than Alnair looks at; {most} are the most"
    without: dict[str, Any] = {}
    for field in excess:
        without |= _without(spec, field.partition(" ")[0])
    return replace(spec, **without), told


def _sizes(spec: wire.PodSpec) -> Iterator[tuple[str, int, int]]:
    """Field and what of it, how many there are, how many there may be."""
    containers = (*spec.init_containers, *spec.containers)
    yield "containers", len(containers), MOST_CONTAINERS
    yield "containers (resources)", len(_resources(containers)), MOST_RESOURCES
    yield "containers (characters of images)", sum(len(each.image) for each in containers), MOST_IMAGE_TEXT
    yield "containers (ports)", sum(len(each.ports) for each in containers), MOST_PORTS
    yield "volumes", len(spec.volumes), MOST_VOLUMES
    yield "tolerations", len(spec.tolerations), MOST_TOLERATIONS
    yield "nodeSelector", len(spec.node_selector), MOST_LINES
    if constraints := spec.topology_spread_constraints:
        yield "topologySpreadConstraints", len(constraints), MOST_CONSTRAINTS
        lines = list(chain.from_iterable(_lines(each.label_selector) for each in constraints))
        yield "topologySpreadConstraints (lines of selectors)", len(lines), MOST_LINES
        yield "topologySpreadConstraints (values)", sum(lines), MOST_VALUES
    if spec.affinity is not None:
        nodes, pods = _node_terms(spec.affinity), _pod_terms(spec.affinity)
        yield "affinity (terms)", len(nodes) + len(pods), MOST_TERMS
        lines = [len(each.values) for term in nodes for each in (*term.match_expressions, *term.match_fields)]
        for term in pods:
            lines += _lines(term.label_selector)
            lines += _lines(term.namespace_selector)
            lines.append(len(term.namespaces))
        yield "affinity (lines of selectors)", len(lines), MOST_LINES
        yield "affinity (values)", sum(lines), MOST_VALUES


def _without(spec: wire.PodSpec, field: str) -> dict[str, Any]:
    match field:
        case "containers":
            return {
                "containers": [_plain(each) for each in spec.containers],
                "init_containers": [_plain(each) for each in spec.init_containers],
            }
        case "volumes":
            return {"volumes": []}
        case "tolerations":
            return {"tolerations": []}
        case "nodeSelector":
            return {"node_selector": {}}
        case "topologySpreadConstraints":
            return {"topology_spread_constraints": []}
    return {"affinity": None}


def _plain(container: wire.Container) -> wire.Container:
    """With what is counted on every node, and nothing else."""
    asked = container.resources
    resources = wire.Resources(_counted(asked.requests), _counted(asked.limits))
    return wire.Container(container.name, resources=resources, restart_policy=container.restart_policy)


def _counted(asked: wire.Quantities) -> wire.Quantities:
    return {name: asked[name] for name in COUNTED_ANYWAY & asked.keys()}


def _resources(containers: Iterable[wire.Container]) -> set[str]:
    return set(chain.from_iterable((*each.resources.requests, *each.resources.limits) for each in containers))


def _lines(selector: wire.LabelSelector | None) -> list[int]:
    """How many values each line of it names."""
    if selector is None:
        return []
    return [1] * len(selector.match_labels) + [len(each.values) for each in selector.match_expressions]


def _node_terms(affinity: wire.Affinity) -> list[wire.NodeSelectorTerm]:
    nodes = affinity.node_affinity
    if nodes is None:
        return []
    required = nodes.required_during_scheduling_ignored_during_execution
    preferred = nodes.preferred_during_scheduling_ignored_during_execution
    return [
        *(required.node_selector_terms if required is not None else ()),
        *(each.preference for each in preferred),
    ]


def _pod_terms(affinity: wire.Affinity) -> list[wire.PodAffinityTerm]:
    return [
        term
        for pods in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if pods is not None
        for term in (
            *pods.required_during_scheduling_ignored_during_execution,
            *(each.pod_affinity_term for each in pods.preferred_during_scheduling_ignored_during_execution),
        )
    ]
