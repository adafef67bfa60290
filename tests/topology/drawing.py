"""Random cases: a machine with something taken, and a few pods one after the other.

A case is plain JSON, the same for both sides. Sizes are small and near to what is there, so that both answers are
common.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

from alnair.state.machine import BEST_EFFORT, CONTAINER, NONE, POD, RESTRICTED, SINGLE

GUARANTEED, FRACTIONAL, BURSTABLE, BEST = "Guaranteed", "GuaranteedFractional", "Burstable", "BestEffort"
COMBINATIONS = tuple(
    itertools.product(
        (NONE, BEST_EFFORT, RESTRICTED, SINGLE), (CONTAINER, POD), (GUARANTEED, FRACTIONAL, BURSTABLE, BEST)
    )
)
DEVICES = ("nvidia.com/gpu", "vendor.example/nic")
HUGE = "hugepages-2Mi"
PAGE = 2 << 20

Case = dict[str, Any]


def draw(dice: Random, combination: tuple[str, str, str]) -> Case:
    policy, scope, qos = combination
    count = dice.choice((1, 2, 2, 2, 2, 3, 4, 4, 6))
    ids = sorted(dice.sample(range(count + 2), count)) if dice.random() < 0.2 else list(range(count))
    cpus = dice.randint(2, 8)
    huge = dice.random() < 0.3
    zones = [_zone(dice, number, cpus, huge=huge) for number in ids]
    if not zones[0]["reserved"]:  # the kubelet keeps at least one for itself
        zones[0] |= {"reserved": 1, "used": min(zones[0]["used"], cpus - 1)}
    if dice.random() < 0.15 and count > 1:
        zones[-1] |= {"cpus": 0, "reserved": 0, "used": 0}  # memory without CPUs
    _pin(dice, zones)
    devices = {name: _devices(dice, count) for name in DEVICES if dice.random() < 0.6}
    case: Case = {
        "policy": policy,
        "scope": scope,
        "qos": qos,
        "zones": zones,
        "cpu_manager": dice.random() < 0.85,
        "memory_manager": dice.random() < 0.7,
        "devices": {name: stock for name, stock in devices.items() if any(all_ for all_, *_ in stock)},
        "modest": dice.random() < 0.6,
    }
    case["pods"] = [_pod(dice, case, cpus) for _ in range(dice.choice((1, 1, 2, 3)))]
    return case


def _zone(dice: Random, number: int, cpus: int, *, huge: bool) -> dict[str, Any]:
    reserved = dice.choice((0, 0, 1))
    memory = {"memory": _amount(dice, PAGE)} | ({HUGE: _amount(dice, PAGE)} if huge else {})
    used = dice.choice((0, dice.randint(0, cpus - reserved)))
    return {"id": number, "cpus": cpus, "reserved": reserved, "used": used, "memory": memory, "group": []}


def _amount(dice: Random, unit: int) -> list[int]:
    there = dice.choice((8, 8, 8, 12, 4))
    return [there * unit, dice.choice((there, there, dice.randint(0, there))) * unit]


def _pin(dice: Random, zones: list[dict[str, Any]]) -> None:
    """Say over which zones the memory that is taken is pinned: each its own, or some of them together."""
    together = [each["id"] for each in zones]
    together = dice.sample(together, dice.randint(2, len(together))) if len(zones) > 1 else []
    pinned = dice.random() < 0.25
    for each in zones:
        if pinned and each["id"] in together:
            each["group"] = sorted(together)
        elif any(free < there for there, free in each["memory"].values()):
            each["group"] = [each["id"]]


def _devices(dice: Random, count: int) -> list[list[int]]:
    stock = []
    for _ in range(count):
        there = dice.choice((0, 1, 2, 2, 4))
        healthy = there if dice.random() < 0.9 else dice.randint(0, there)
        stock.append([there, healthy, dice.choice((0, 0, dice.randint(0, healthy)))])
    if not any(healthy for _, healthy, _ in stock):
        stock[0] = [2, 2, 0]
    return stock


def _pod(dice: Random, case: Case, cpus: int) -> list[dict[str, Any]]:
    kinds = ["init"] * dice.choice((0, 0, 0, 1, 2)) + ["sidecar"] * dice.choice((0, 0, 0, 1))
    dice.shuffle(kinds)
    kinds += ["main"] * dice.choice((1, 1, 2, 3))
    return [_container(dice, case, cpus, kind, number) for number, kind in enumerate(kinds)]


def _container(dice: Random, case: Case, cpus: int, kind: str, number: int) -> dict[str, Any]:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    qos = case["qos"]
    if qos != BEST:
        many = dice.random() < 0.05 or (not case["modest"] and dice.random() < 0.1)
        few = (1, 1, 2) if case["modest"] else (1, 2, cpus // 2, cpus, cpus + 1)
        cpu = str(dice.choice((cpus + 1, 2 * cpus) if many else few))
        if qos == FRACTIONAL and (number == 0 or dice.random() < 0.5):
            cpu = dice.choice(("500m", "1500m", "2500m"))
        sizes = (9, 16) if many else (1, 1, 2) if case["modest"] else (2, 4, 6, 8, 9)
        memory = str(dice.choice(sizes) * PAGE)
        requests = {"cpu": cpu, "memory": memory}
        if qos in (GUARANTEED, FRACTIONAL):
            limits = dict(requests)
        elif dice.random() < 0.5:
            limits = {"memory": memory}
    if HUGE in case["zones"][0]["memory"] and dice.random() < 0.4 and qos != BEST:
        requests[HUGE] = limits[HUGE] = str(dice.choice((1, 1) if case["modest"] else (1, 2, 4, 8)) * PAGE)
    for name in (*case["devices"], "vendor.example/absent"):
        if dice.random() < (0.5 if name in case["devices"] else 0.05):
            counts = (1, 1, 1, 1, 2, 0) if case["modest"] else (1, 1, 2, 2, 3, 4, 0)
            requests[name] = limits[name] = str(dice.choice(counts))
    init, sidecar = kind != "main", kind == "sidecar"
    return {"name": f"c{number}", "init": init, "sidecar": sidecar, "requests": requests, "limits": limits}
