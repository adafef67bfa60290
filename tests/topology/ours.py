"""Our side of a case, by the way that a real one takes: a NodeResourceTopology and pods as the apiserver sends them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from alnair.api.topology import NodeResourceTopology
from alnair.scheduling.numa.admit import Verdict, admit
from alnair.scheduling.numa.orders import devices
from alnair.state import wire
from alnair.state.alignment import Alignment, AlignmentReader
from alnair.state.machine import Machine, Rules, machine_of, rules_of
from topology.drawing import Case

NOTHING = Alignment(())


def verdicts(case: Case) -> Iterator[tuple[Verdict, Machine]]:
    """One for each pod, up to the first that is refused or of which the kubelet itself leaves something to chance."""
    there, rules = machine(case)
    chance: frozenset[str] = frozenset()
    for containers in case["pods"]:
        need = alignment(containers) or NOTHING
        verdict = admit(need, there, rules)
        if chance.intersection(devices(need)):
            verdict = replace(verdict, certain=False)
        yield verdict, there
        if not verdict.admitted or not verdict.certain:
            return
        there = verdict.machine
        chance |= verdict.unsettled


def machine(case: Case) -> tuple[Machine, Rules]:
    published = NodeResourceTopology.model_validate(topology(case))
    found = machine_of(published)
    assert found is not None
    return replace(found, groups=_groups(case, found)), rules_of(published)  # groups are published by nobody


def alignment(containers: list[dict[str, Any]]) -> Alignment | None:
    def made(each: dict[str, Any]) -> dict[str, Any]:
        resources = {"requests": each["requests"], "limits": each["limits"]}
        again = {"restartPolicy": "Always"} if each["sidecar"] else {}
        return {"name": each["name"], "resources": resources, **again}

    spec = {
        "initContainers": [made(each) for each in containers if each["init"]],
        "containers": [made(each) for each in containers if not each["init"]],
    }
    return AlignmentReader().read(msgspec.convert(spec, wire.PodSpec))


def topology(case: Case) -> dict[str, Any]:
    return {
        "metadata": {"name": "node"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": case["policy"]},
            {"name": "topologyManagerScope", "value": case["scope"]},
        ],
        "zones": [_zone(case, place, zone) for place, zone in enumerate(case["zones"])],
    }


def _zone(case: Case, place: int, zone: dict[str, Any]) -> dict[str, Any]:
    resources = []
    if case["cpu_manager"]:
        left = zone["cpus"] - zone["reserved"]
        resources.append(_resource("cpu", zone["cpus"], left, left - zone["used"]))
    if case["memory_manager"]:
        resources += [_resource(name, there, there, free) for name, (there, free) in zone["memory"].items()]
    for name, stock in case["devices"].items():
        there, healthy, used = stock[place]
        resources.append(_resource(name, there, healthy, healthy - used))
    return {"name": f"node-{zone['id']}", "type": "Node", "resources": resources}


def _resource(name: str, capacity: int, allocatable: int, available: int) -> dict[str, str]:
    return {
        "name": name,
        "capacity": str(capacity),
        "allocatable": str(allocatable),
        "available": str(available),
    }


def _groups(case: Case, machine: Machine) -> tuple[int, ...]:
    place = {number: 1 << index for index, number in enumerate(machine.ids)}
    return tuple(sum(place[number] for number in zone["group"]) for zone in case["zones"])
