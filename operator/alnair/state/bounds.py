"""How much one pod may say about where it goes.

Kubernetes bounds a pod by its bytes alone. What a pod says is worked out on the loop that keeps the Lease, whenever it
is planned and by each new leader: one pod with a thousand rules would stop scheduling for everybody. So a pod that says
more than anybody needs is not placed, and is told which field is too long.

Where somebody else has bound such a pod, it counts by what it takes of its node, and what it says too much of is passed
over. What must never happen here: work that grows faster than the pod's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from msgspec.structs import replace

from alnair.api import names
from alnair.state import wire
from alnair.state.rules import disks

MOST_CONTAINERS: Final = 128
MOST_RESOURCES: Final = 64
MOST_PORTS: Final = 256
MOST_TEXT: Final = 64 * 1024  # in one field, where the apiserver does not mind how long it is
MOST_VOLUMES: Final = 512
MOST_TOLERATIONS: Final = 256
MOST_CONSTRAINTS: Final = 16
MOST_TERMS: Final = 64  # of all affinities together
MOST_LINES: Final = 256  # of the selectors in one field
MOST_VALUES: Final = 1024  # that these lines name

ZERO: Final = ("0", 0)  # as the apiserver writes it
COUNTED_ANYWAY: Final = frozenset({"cpu", "memory", "ephemeral-storage"}) | names.GPU_RESOURCES

CONTAINERS: Final = "containers and initContainers"
RESOURCES: Final = "containers (resources)"
IMAGES: Final = "containers and volumes (characters of images)"
PORTS: Final = "containers (host ports)"
VOLUMES: Final = "volumes"
DISKS: Final = "volumes (characters of disks)"
TOLERATIONS: Final = "tolerations"
NODE_SELECTOR: Final = "nodeSelector"
SPREAD: Final = "topologySpreadConstraints"
AFFINITY: Final = "affinity"


def bounded(spec: wire.PodSpec) -> tuple[wire.PodSpec, str]:
    """The pod without what it says too much of, and a word about the first of that; else as it is, and nothing."""
    excess = [(field, number, most) for field, number, most in _sizes(spec) if number > most]
    if not excess:
        return spec, ""
    for field, _, _ in excess:
        spec = _without(spec, field)
    field, number, most = excess[0]
    return spec, f"spec.{field}: {number} are more than Alnair looks at; {most} are the most"


def _sizes(spec: wire.PodSpec) -> Iterator[tuple[str, int, int]]:
    """Field and what of it, how many there are, how many there may be."""
    containers = (*spec.init_containers, *spec.containers)
    yield CONTAINERS, len(containers), MOST_CONTAINERS
    yield RESOURCES, len(set().union(*_quantities(spec))), MOST_RESOURCES
    mounted = sum(len(each.image.reference) for each in spec.volumes if each.image is not None)
    yield IMAGES, sum(len(each.image) for each in containers) + mounted, MOST_TEXT
    yield PORTS, sum(port.host_port > 0 for each in containers for port in each.ports), MOST_PORTS
    yield VOLUMES, len(spec.volumes), MOST_VOLUMES
    yield DISKS, sum(len(part) + 1 for disk in disks(spec) for part in disk.id), MOST_TEXT
    yield TOLERATIONS, len(spec.tolerations), MOST_TOLERATIONS
    yield NODE_SELECTOR, len(spec.node_selector), MOST_LINES
    if constraints := spec.topology_spread_constraints:
        lines = list(chain.from_iterable(_lines(each.label_selector) for each in constraints))
        lines += [1] * sum(len(each.match_label_keys) for each in constraints)
        yield SPREAD, len(constraints), MOST_CONSTRAINTS
        yield f"{SPREAD} (lines of selectors)", len(lines), MOST_LINES
        yield f"{SPREAD} (values)", sum(lines), MOST_VALUES
    if spec.affinity is not None:
        nodes, pods = _node_terms(spec.affinity), _pod_terms(spec.affinity)
        asked = [each for term in nodes for each in (*term.match_expressions, *term.match_fields)]
        lines = [len(each.values) for each in asked]
        for term in pods:
            lines += _lines(term.label_selector)
            lines += _lines(term.namespace_selector)
            lines += [1] * (len(term.match_label_keys) + len(term.mismatch_label_keys))
            lines.append(len(term.namespaces))
        yield f"{AFFINITY} (terms)", len(nodes) + len(pods), MOST_TERMS
        yield f"{AFFINITY} (lines of selectors)", len(lines), MOST_LINES
        yield f"{AFFINITY} (values)", sum(lines), MOST_VALUES
        yield (
            f"{AFFINITY} (characters)",
            sum(len(value) for each in asked for value in each.values),
            MOST_TEXT,
        )


def _without(spec: wire.PodSpec, field: str) -> wire.PodSpec:
    if field == CONTAINERS:
        return spec  # what each takes counts; that is linear
    if field == RESOURCES:
        return _with_few_resources(spec)
    if field == IMAGES:
        unmounted = [replace(each, image=None) for each in spec.volumes]
        return _each(replace(spec, volumes=unmounted), lambda container: replace(container, image=""))
    if field == PORTS:
        # Where it is bound they are taken, and nobody goes through them: they are looked up.
        return spec if spec.node_name else _each(spec, lambda container: replace(container, ports=[]))
    if field in (VOLUMES, DISKS):
        return replace(spec, volumes=[])
    if field == TOLERATIONS:
        return replace(spec, tolerations=[])
    if field == NODE_SELECTOR:
        return replace(spec, node_selector={})
    if field.startswith(SPREAD):
        return replace(spec, topology_spread_constraints=[])
    return replace(spec, affinity=None)


def _each(spec: wire.PodSpec, change: Callable[[wire.Container], wire.Container]) -> wire.PodSpec:
    return replace(
        spec,
        containers=[change(each) for each in spec.containers],
        init_containers=[change(each) for each in spec.init_containers],
    )


def _with_few_resources(spec: wire.PodSpec) -> wire.PodSpec:
    """With those that it asks something of, if only the others are too many: kube-scheduler binds it for these."""
    asked = {name for each in _quantities(spec) for name, amount in each.items() if amount not in ZERO}
    counted = COUNTED_ANYWAY | asked if len(asked) <= MOST_RESOURCES else COUNTED_ANYWAY

    def few(resources: wire.Resources) -> wire.Resources:
        requests, limits = resources.requests, resources.limits
        return wire.Resources(
            {name: requests[name] for name in counted & requests.keys()},
            {name: limits[name] for name in counted & limits.keys()},
        )

    whole = few(spec.resources) if spec.resources is not None else None
    slim = _each(spec, lambda container: replace(container, resources=few(container.resources)))
    return replace(slim, resources=whole)


def _quantities(spec: wire.PodSpec) -> list[wire.Quantities]:
    asked = [each.resources for each in (*spec.init_containers, *spec.containers)]
    if spec.resources is not None:
        asked.append(spec.resources)
    return [amounts for each in asked for amounts in (each.requests, each.limits)]


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
