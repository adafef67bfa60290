"""What comes and goes: elastic gangs, rigid ones and lone pods, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from alnair.api import names
from conformance.drawing.dice import Dice
from elastic.cluster import COUNTED, OWN
from harness.builders import GroupBuilder, PodBuilder, deployment, group, pod, statefulset
from witness import requests
from witness.requests import Ask, Asked
from witness.words import ASKS, DEPLOYMENTS, OF, STATEFUL_SETS, Object

NAMESPACES: Final = ("elastic-a", "elastic-b")
CARD_MIB: Final = 24 * 1024
MAIN: Final = "main"
RESTARTS: Final = 2
"""The time that a gang waits before it starts anew doubles; after more than two a rest would be too short for it."""

How = Literal["elastic", "gang", "lone"]


@dataclass(slots=True)
class Job:
    name: str
    namespace: str
    how: How
    manifests: list[Object]
    pool: str
    demand: float
    """Cards that it takes at least."""
    controller: str = ""
    """Plural of its target."""
    least: int = 1
    most: int = 1
    losses: int | None = None
    """How many members it may lose before it fails for good; None: any number."""
    pods: list[str] = field(default_factory=list)
    """Names, where no controller makes them up."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def elastic(dice: Dice, name: str, scheduler: str, controller: str) -> Job:
    worker, pool, cards = _worker(dice, name, scheduler)
    least = dice.weighted([(1, 3.0), (2, 4.0), (3, 2.0)])
    most = least + dice.number(1, 4)
    # As people write them: the least, the most, what they happen to have, or beyond the bounds.
    replicas = dice.weighted(
        [(least, 4.0), (most, 4.0), (dice.number(least, most), 2.0), (1, 0.5), (most + 2, 0.5)]
    )
    kind = "StatefulSet" if controller == STATEFUL_SETS else "Deployment"
    bounds = {
        "min": least,
        "max": most,
        "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name},
    }
    if dice.chance(0.4):
        power = dice.number(70, 95) / 100  # always a gain, ever less of it
        bounds["speedup"] = [
            {"members": members, "speedup": round(members**power, 3)} for members in range(1, most + 1)
        ]
    if dice.chance(0.3):
        bounds["weight"] = dice.pick((0.5, 2.0, 4.0))
    spec = {
        "elastic": bounds,
        "keepPlaceSeconds": dice.number(3, 10),
    }
    restarting = dice.chance(0.2)
    if restarting:
        spec |= {"onMemberFailure": "RestartGang", "restartLimit": RESTARTS}
    owned = (group(name, min_member=least) if dice.chance(0.3) else GroupBuilder(_bare(name))).with_(
        lambda it: it["spec"].update(spec)
    )
    make = statefulset if controller == STATEFUL_SETS else deployment
    manifests = [owned.manifest(), make(name, worker.in_group(name), replicas=replicas).manifest()]
    if dice.chance(0.3):
        manifests.reverse()  # the work is there before its group
    return Job(
        name,
        dice.pick(NAMESPACES),
        "elastic",
        manifests,
        pool,
        cards * least,
        controller=controller,
        least=least,
        most=most,
        losses=RESTARTS if restarting else None,
    )


def gang(dice: Dice, name: str, scheduler: str) -> Job:
    worker, pool, cards = _worker(dice, name, scheduler)
    size = dice.number(2, 5)
    pods = [worker.in_group(name).named(f"{name}-{place}").manifest() for place in range(size)]
    return Job(
        name,
        dice.pick(NAMESPACES),
        "gang",
        [
            group(name, min_member=size).with_(lambda it: it["spec"].update(keepPlaceSeconds=5)).manifest(),
            *pods,
        ],
        pool,
        cards * size,
        least=size,
        most=size,
        pods=[each["metadata"]["name"] for each in pods],
    )


def lone(dice: Dice, name: str, scheduler: str) -> Job:
    worker, pool, cards = _worker(dice, name, scheduler)
    return Job(name, dice.pick(NAMESPACES), "lone", [worker.manifest()], pool, cards, pods=[name])


def _bare(name: str) -> Object:
    return {
        "apiVersion": names.API_PODGROUP,
        "kind": names.KIND_PODGROUP,
        "metadata": {"name": name},
        "spec": {},
    }


def _worker(dice: Dice, name: str, scheduler: str) -> tuple[PodBuilder, str, float]:
    """One member, the pool that it can go to, and how many cards it comes to."""
    made = pod(name).by(scheduler).labelled({OF: name})
    kind = dice.weighted([("whole", 5.0), ("counted", 4.0), ("slice", 4.0)])
    if kind == "slice":
        gib, compute = dice.pick((4, 6, 8, 12)), dice.pick((0, 20, 30, 50))
        asked = Ask(MAIN, memory_mib=1024 * gib, compute=compute)
        made = made.slice(memory_gib=gib, compute=compute or None)
        pool, cards = OWN, max(1024 * gib / CARD_MIB, compute / 100)
    else:
        number = dice.weighted([(1, 5.0), (2, 1.0)])
        asked = Ask(MAIN, number, whole=True)
        made, cards = made.asking(gpu=number), float(number)
        pool = OWN if kind == "whole" else COUNTED
        if pool == OWN:  # else a device plugin gives them
            made = made.selecting({names.GPU_OWNER: names.OWNED_BY_ALNAIR})
    return made.annotated({ASKS: requests.told(Asked((asked,)))}), pool, cards


CONTROLLERS: Final = (STATEFUL_SETS, DEPLOYMENTS)
