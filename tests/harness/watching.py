"""What tests look for in the cluster, in words of the domain. All of it waits on watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from alnair.api import names
from harness.api import Api, Object, at


async def bound_pods(api: Api, namespace: str, number: int, *, timeout: float = 30) -> list[Object]:
    """The namespace's bound pods, once there are exactly so many."""
    pods = await api.until_all(
        at("pods", namespace),
        lambda pods: len(_bound(pods)) == number,
        timeout=timeout,
        what=f"{number} bound pods in {namespace}",
    )
    return _bound(pods)


async def bound_now(api: Api, namespace: str) -> list[Object]:
    return _bound(await api.items(at("pods", namespace)))


def _bound(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


async def refused(api: Api, namespace: str, group: str, *saying: str, timeout: float = 30) -> str:
    """Waits until the group's condition says no with all these words in it; returns the message."""
    shown = await api.until(
        at("podgroups", namespace, group),
        lambda it: (
            condition(it, "Scheduled").get("status") == "False"
            and all(words in condition(it, "Scheduled")["message"] for words in saying)
        ),
        timeout=timeout,
        what=f"group {group} refused with {saying}",
    )
    return str(condition(shown, "Scheduled")["message"])


async def event_about(api: Api, namespace: str, name: str, reason: str, *, timeout: float = 30) -> Object:
    """The first event of that reason about an object of that name."""

    def told(events: list[Object]) -> list[Object]:
        return [e for e in events if e["regarding"].get("name") == name and e["reason"] == reason]

    events = await api.until_all(
        at("events", namespace), told, timeout=timeout, what=f"event {reason} about {name}"
    )
    return told(events)[0]


async def record_of_group(api: Api, namespace: str, name: str, *, phase: str, timeout: float = 30) -> Object:
    owner = await api.get(at("podgroups", namespace, name))
    return await _record(api, namespace, owner, phase, timeout)


async def record_of_pod(api: Api, namespace: str, name: str, *, phase: str, timeout: float = 30) -> Object:
    owner = await api.get(at("pods", namespace, name))
    return await _record(api, namespace, owner, phase, timeout)


async def _record(api: Api, namespace: str, owner: Object, phase: str, timeout: float) -> Object:
    name = names.record_name(owner["metadata"]["name"], owner["metadata"]["uid"])
    return await api.until(
        at("gpuallocations", namespace, name),
        lambda it: it.get("status", {}).get("phase") == phase,
        timeout=timeout,
    )


def condition(thing: Object, kind: str) -> dict[str, Any]:
    """The condition of that type, or an empty one."""
    return next((each for each in thing.get("status", {}).get("conditions", []) if each["type"] == kind), {})


def slices_by_card(records: Iterable[Object]) -> Counter[str]:
    """MiB taken on each card, over these records."""
    taken: Counter[str] = Counter()
    for record in records:
        for pod in record.get("status", {}).get("pods", []):
            for container in pod.get("containers", []):
                for piece in container.get("slices", []):
                    taken[piece["gpu"]] += piece["memoryMiB"]
    return taken
