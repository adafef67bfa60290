"""The placement rules in a pod's manifest, read into the parts of its shape.

Nothing is judged here: a rule that contradicts itself is kept as it is and matches what Kubernetes says it matches.
"""

from __future__ import annotations

from typing import Any

from alnair.state import wire
from alnair.state.migration import disk_of
from alnair.state.selectors import (
    Labels,
    NodeTerm,
    PodSet,
    PodTerm,
    Requirement,
    Selector,
    read_node_term,
    read_pod_term,
    read_selector,
)
from alnair.state.shapes import EVERY_IP, ClaimUse, Disk, HostPort, SpreadRule

NO_NODES = wire.NodeAffinity()
NO_PODS = wire.PodAffinity()


def placement_rules(meta: wire.Metadata, spec: wire.PodSpec) -> dict[str, Any]:
    """The keyword arguments of a `PodShape` that come from its rules."""
    found: dict[str, Any] = {
        "node_selector": tuple(sorted(spec.node_selector.items())),
        "tolerations": tuple(dict.fromkeys(spec.tolerations)),
        "ports": host_ports(spec),
        "images": tuple(
            full_image_name(each.image) for each in (*spec.init_containers, *spec.containers) if each.image
        ),
    }
    if spec.os is not None:
        found["os"] = spec.os.name
    if spec.volumes:
        found |= {"claims": claim_uses(meta, spec), "disks": disks(spec)}
        mounted = (each.image.reference for each in spec.volumes if each.image is not None)
        found["mounted_images"] = tuple(full_image_name(name) for name in mounted if name)
    if spec.affinity is not None:
        found |= _affinity(spec.affinity, meta)
    if spec.topology_spread_constraints:
        found["spread"] = tuple(
            spread_rule(each, namespace=meta.namespace, labels=meta.labels)
            for each in spec.topology_spread_constraints
        )
    return found


def _affinity(affinity: wire.Affinity, meta: wire.Metadata) -> dict[str, Any]:
    nodes = affinity.node_affinity or NO_NODES
    with_, without = affinity.pod_affinity or NO_PODS, affinity.pod_anti_affinity or NO_PODS
    required = nodes.required_during_scheduling_ignored_during_execution
    terms: tuple[NodeTerm, ...] | None = None
    if required is not None:
        terms = tuple(read_node_term(term) for term in required.node_selector_terms)

    def read(term: wire.PodAffinityTerm) -> PodTerm:
        return read_pod_term(term, namespace=meta.namespace, labels=meta.labels)

    def wishes(each: wire.PodAffinity, sign: int) -> list[tuple[int, PodTerm]]:
        preferred = each.preferred_during_scheduling_ignored_during_execution
        return [(sign * wish.weight, read(wish.pod_affinity_term)) for wish in preferred]

    return {
        "node_terms": terms,
        "preferred_nodes": tuple(
            (each.weight, read_node_term(each.preference))
            for each in nodes.preferred_during_scheduling_ignored_during_execution
        ),
        "near": tuple(map(read, with_.required_during_scheduling_ignored_during_execution)),
        "apart": tuple(map(read, without.required_during_scheduling_ignored_during_execution)),
        "preferred_pods": (*wishes(with_, +1), *wishes(without, -1)),
    }


def spread_rule(constraint: wire.SpreadConstraint, *, namespace: str, labels: Labels) -> SpreadRule:
    selector = read_selector(constraint.label_selector)
    if selector is not None:
        own = [Requirement(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels]
        selector = Selector(
            (*selector.requirements, *(each for each in own if each not in selector.requirements))
        )
    return SpreadRule(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        pods=PodSet((namespace,), selector, living=True),
        hard=constraint.when_unsatisfiable == "DoNotSchedule",
        min_domains=constraint.min_domains or 1,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
    )


def full_image_name(name: str) -> str:
    """As kubelets list it: with a tag, `latest` if it names none. A colon before a slash is a registry's port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    """Those of containers and of sidecars; an ordinary init container is done before anybody could mind."""
    sidecars = (each for each in spec.init_containers if each.restart_policy == "Always")
    return tuple(
        dict.fromkeys(
            HostPort(port.protocol or "TCP", port.host_ip or EVERY_IP, port.host_port)
            for container in (*spec.containers, *sidecars)
            for port in container.ports
            if port.host_port > 0
        )
    )


def claim_uses(meta: wire.Metadata, spec: wire.PodSpec) -> tuple[ClaimUse, ...]:
    """Those that the pod names, and those that are made for it and named after it."""
    uses: dict[ClaimUse, None] = {}
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            uses[ClaimUse(f"{meta.namespace}/{volume.persistent_volume_claim.claim_name}")] = None
        elif wire.present(volume.ephemeral):
            uses[ClaimUse(f"{meta.namespace}/{meta.name}-{volume.name}", owner=meta.uid)] = None
    return tuple(uses)


ISCSI, RBD = "iscsi", "rbd"


def disks(spec: wire.PodSpec) -> tuple[Disk, ...]:
    """Disks that the pod names without a claim."""
    found: dict[Disk, None] = {}
    for volume in spec.volumes:
        if volume.iscsi is not None:
            found[Disk(ISCSI, (volume.iscsi.iqn,), volume.iscsi.read_only)] = None
        elif (rbd := volume.rbd) is not None:
            found[Disk(RBD, (rbd.pool, rbd.image, *sorted(rbd.monitors)), rbd.read_only)] = None
        elif (disk := disk_of(volume)) is not None:
            found[disk] = None
    return tuple(found)
