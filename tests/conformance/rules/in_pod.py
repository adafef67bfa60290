"""Rules in the judged pod's manifest. Each function takes one out, in place, and says whether there was any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from conformance.drawing.placement import REQUIRED
from conformance.drawing.words import GPU, PAGES, Manifest

ALWAYS = {"key": "conformance.example/absent", "operator": "DoesNotExist"}
"""Holds for every node: in the place of a requirement that is taken out, for a term without any matches nothing."""


def _containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]


def _quantities(pod: Manifest) -> Iterable[Manifest]:
    """Every mapping in which the pod asks for resources."""
    spec = pod["spec"]
    for bearer in (*_containers(pod), spec):
        resources = bearer.get("resources") or {}
        yield from (resources[side] for side in ("requests", "limits") if side in resources)
    if "overhead" in spec:
        yield spec["overhead"]


def _resource(wanted: Callable[[str], bool], pod: Manifest) -> bool:
    found = False
    for quantities in _quantities(pod):
        for name in [name for name in quantities if wanted(name)]:
            del quantities[name]
            found = True
    return found


def _extended(name: str) -> bool:
    return "/" in name and name != GPU


def _init_containers(pod: Manifest) -> bool:
    """Those that end before the others begin."""
    inits = pod["spec"].get("initContainers", [])
    kept = [each for each in inits if each.get("restartPolicy") == "Always"]
    pod["spec"]["initContainers"] = kept
    return len(kept) < len(inits)


def _sidecars(pod: Manifest) -> bool:
    """As if they were ordinary init containers."""
    found = [each for each in pod["spec"].get("initContainers", ()) if each.pop("restartPolicy", None)]
    return bool(found)


def _field(name: str, pod: Manifest) -> bool:
    return bool(pod["spec"].pop(name, None))


# -- node affinity


def _node_terms(pod: Manifest) -> list[Manifest]:
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
    terms: list[Manifest] = required.get("nodeSelectorTerms", [])
    return terms


def _node_affinity(pod: Manifest) -> bool:
    return bool(pod["spec"].get("affinity", {}).get("nodeAffinity", {}).pop(REQUIRED, None))


def _node_operator(operator: str, pod: Manifest) -> bool:
    found = False
    for term in _node_terms(pod):
        lines = term.get("matchExpressions", [])
        for index, line in enumerate(lines):
            if line["operator"] == operator:
                lines[index] = ALWAYS
                found = True
    return found


def _match_fields(pod: Manifest) -> bool:
    found = False
    for term in _node_terms(pod):
        if term.pop("matchFields", None):
            term.setdefault("matchExpressions", [ALWAYS])
            found = True
    return found


def _more_terms(pod: Manifest) -> bool:
    """Any of several terms will do; here only the first."""
    terms = _node_terms(pod)
    found = len(terms) > 1
    del terms[1:]
    return found


# -- tolerations


def _toleration(wanted: Callable[[Manifest], bool], pod: Manifest) -> bool:
    tolerations = pod["spec"].get("tolerations", [])
    kept = [each for each in tolerations if not wanted(each)]
    pod["spec"]["tolerations"] = kept
    return len(kept) < len(tolerations)


def _effects(pod: Manifest) -> bool:
    found = [each for each in pod["spec"].get("tolerations", ()) if each.pop("effect", None)]
    return bool(found)


# -- other pods


def _terms(pod: Manifest) -> list[Manifest]:
    affinity = pod["spec"].get("affinity", {})
    return [
        term
        for kind in ("podAffinity", "podAntiAffinity")
        for term in affinity.get(kind, {}).get(REQUIRED, ())
    ]


def _affinity(kind: str, pod: Manifest) -> bool:
    return bool(pod["spec"].get("affinity", {}).get(kind, {}).pop(REQUIRED, None))


def _term_field(name: str, pod: Manifest) -> bool:
    found = False
    for term in _terms(pod):
        if term.pop(name, None) is not None:
            found = True
    return found


def _keys(name: str, terms: Iterable[Manifest]) -> bool:
    """Also what the apiserver wrote into the selector because of it."""
    found = False
    for term in terms:
        keys = term.pop(name, None)
        if keys:
            found = True
            selector = term.get("labelSelector", {})
            lines = selector.get("matchExpressions", [])
            selector["matchExpressions"] = [line for line in lines if line["key"] not in keys]
    return found


def _term_keys(name: str, pod: Manifest) -> bool:
    return _keys(name, _terms(pod))


def _own_labels(pod: Manifest) -> bool:
    """Without them a pod does not mean itself by its affinity."""
    if not pod["spec"].get("affinity", {}).get("podAffinity", {}).get(REQUIRED):
        return False
    return bool(pod["metadata"].pop("labels", None))


# -- spread


def _constraints(pod: Manifest) -> list[Manifest]:
    found: list[Manifest] = pod["spec"].get("topologySpreadConstraints", [])
    return found


def _max_skew(pod: Manifest) -> bool:
    for constraint in _constraints(pod):
        constraint["maxSkew"] = 1000
    return bool(_constraints(pod))


def _spread_field(name: str, pod: Manifest) -> bool:
    found = [each for each in _constraints(pod) if each.pop(name, None) is not None]
    return bool(found)


def _spread_keys(pod: Manifest) -> bool:
    return _keys("matchLabelKeys", _constraints(pod))


def _schedule_anyway(pod: Manifest) -> bool:
    """As if a wish were a rule."""
    soft = [each for each in _constraints(pod) if each["whenUnsatisfiable"] == "ScheduleAnyway"]
    for constraint in soft:
        constraint["whenUnsatisfiable"] = "DoNotSchedule"
    return bool(soft)


# -- ports


def _host_ports(pod: Manifest) -> bool:
    found = [
        port for each in _containers(pod) for port in each.get("ports", ()) if port.pop("hostPort", None)
    ]
    return bool(found)


def _protocol(pod: Manifest) -> bool:
    """As if a port were taken for every protocol."""
    found = False
    for container in _containers(pod):
        ports = [port for port in container.get("ports", ()) if "hostPort" in port]
        for port in ports:
            container["ports"] += [{**port, "protocol": each} for each in ("TCP", "UDP", "SCTP")]
            found = True
    return found


def _host_ip(pod: Manifest) -> bool:
    """As if a port were taken on every address."""
    found = [port for each in _containers(pod) for port in each.get("ports", ()) if port.pop("hostIP", None)]
    return bool(found)


def _preferred(pod: Manifest) -> bool:
    """As if a wish were a rule."""
    found = False
    for kind in ("podAffinity", "podAntiAffinity"):
        part = pod["spec"].get("affinity", {}).get(kind, {})
        for wish in part.pop("preferredDuringSchedulingIgnoredDuringExecution", ()):
            part.setdefault(REQUIRED, []).append(wish["podAffinityTerm"])
            found = True
    return found


IN_POD: dict[str, Callable[[Manifest], bool]] = {
    "cpu": partial(_resource, lambda name: name == "cpu"),
    "memory": partial(_resource, lambda name: name == "memory"),
    "ephemeralStorage": partial(_resource, lambda name: name == "ephemeral-storage"),
    "hugePages": partial(_resource, lambda name: name == PAGES),
    "extendedResources": partial(_resource, _extended),
    "gpus": partial(_resource, lambda name: name == GPU),
    "initContainers": _init_containers,
    "sidecars": _sidecars,
    "overhead": partial(_field, "overhead"),
    "podLevelResources": partial(_field, "resources"),
    "schedulingGates": partial(_field, "schedulingGates"),
    "nodeSelector": partial(_field, "nodeSelector"),
    "nodeAffinity": _node_affinity,
    **{
        f"nodeAffinity.{operator}": partial(_node_operator, operator)
        for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    },
    "nodeAffinity.matchFields": _match_fields,
    "nodeAffinity.severalTerms": _more_terms,
    "tolerations": partial(_toleration, lambda each: True),
    "tolerations.everyKey": partial(_toleration, lambda each: not each.get("key")),
    "tolerations.Gt": partial(_toleration, lambda each: each.get("operator") == "Gt"),
    "tolerations.Lt": partial(_toleration, lambda each: each.get("operator") == "Lt"),
    "tolerations.effect": _effects,
    "podAffinity": partial(_affinity, "podAffinity"),
    "podAffinity.self": _own_labels,
    "podAffinity.preferredIsNoRule": _preferred,
    "podAntiAffinity": partial(_affinity, "podAntiAffinity"),
    "podTerms.namespaces": partial(_term_field, "namespaces"),
    "podTerms.namespaceSelector": partial(_term_field, "namespaceSelector"),
    "podTerms.matchLabelKeys": partial(_term_keys, "matchLabelKeys"),
    "podTerms.mismatchLabelKeys": partial(_term_keys, "mismatchLabelKeys"),
    "topologySpread": partial(_field, "topologySpreadConstraints"),
    "topologySpread.maxSkew": _max_skew,
    "topologySpread.minDomains": partial(_spread_field, "minDomains"),
    "topologySpread.nodeAffinityPolicy": partial(_spread_field, "nodeAffinityPolicy"),
    "topologySpread.nodeTaintsPolicy": partial(_spread_field, "nodeTaintsPolicy"),
    "topologySpread.matchLabelKeys": _spread_keys,
    "topologySpread.whenUnsatisfiable": _schedule_anyway,
    "hostPorts": _host_ports,
    "hostPorts.protocol": _protocol,
    "hostPorts.hostIP": _host_ip,
}
