"""Cards that fail, vanish and come back while pods run, on a real control plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alnair.api import names
from alnair.sandbox import fleet as fleets
from harness.api import Api, Object, at
from harness.builders import NodeBuilder, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import condition, event_about, record_of_pod


def registered(name: str, *changed: dict[str, Any] | None) -> dict[str, str]:
    """HAMi's word on the node's cards; None for one that is not there."""
    text = fleets.hami_node(name, fleets.A10, len(changed))["metadata"]["annotations"][names.HAMI_REGISTER]
    entries = [
        {**entry, **change}
        for entry, change in zip(json.loads(text), changed, strict=True)
        if change is not None
    ]
    return {names.HAMI_REGISTER: json.dumps(entries)}


def hami(fleet: Fleet, *changed: dict[str, Any] | None) -> NodeBuilder:
    return node("hami").annotated(registered(fleet.name("hami"), *changed))


async def says(api: Api, name: str, *changed: dict[str, Any] | None) -> None:
    await api.patch(at("nodes", None, name), {"metadata": {"annotations": registered(name, *changed)}})


async def running_slice(api: Api, namespace: str, fleet: Fleet, operator: Operator, name: str) -> Object:
    asking = pod(name).slice(memory_gib=20).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    return await record_of_pod(api, namespace, name, phase="Bound")


async def told(api: Api, record: Object, status: str, reason: str) -> Object:
    meta = record["metadata"]
    return await api.until(
        at("gpuallocations", meta["namespace"], meta["name"]),
        lambda it: (
            (condition(it, "CardsHealthy").get("status"), condition(it, "CardsHealthy").get("reason"))
            == (status, reason)
        ),
        what=f"CardsHealthy {status} {reason}",
    )


@pytest.mark.shares_operator
async def test_a_card_that_fails_keeps_its_pod_takes_nobody_new_and_is_given_back_when_it_recovers(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (name,) = await fleet.add(hami(fleet, {}))
    record = await running_slice(api, namespace, fleet, operator, "first")
    await says(api, name, {"health": False})
    failed = await told(api, record, "False", "CardUnhealthy")
    card = fleets.card_uuid(name, 0)
    message = condition(failed, "CardsHealthy")["message"]
    assert message == f"card {card} on node {name} is unhealthy; held by first"
    assert failed["status"]["pods"] == record["status"]["pods"]
    for where, about in ((namespace, record["metadata"]["name"]), (namespace, "first"), ("default", name)):
        event = await event_about(api, where, about, "CardUnhealthy")
        assert card in event["note"]

    # Its memory is free once the pod is gone, and yet nobody gets it before it is well.
    await api.delete(at("pods", namespace, "first"))
    await api.until_gone(at("gpuallocations", namespace, record["metadata"]["name"]))
    second = pod("second").slice(memory_gib=20).by(operator.scheduler).selecting(fleet.selector)
    await api.create(second.manifest(), namespace=namespace)
    await event_about(api, namespace, "second", "FailedScheduling")
    await says(api, name, {})
    again = await record_of_pod(api, namespace, "second", phase="Bound")
    assert again["status"]["cards"] == card


async def test_a_card_that_vanishes_during_a_restart_is_told_and_so_is_its_return(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (name,) = await fleet.add(hami(fleet, {}, {}))
    record = await running_slice(api, namespace, fleet, operator, "p")
    held = record["status"]["cards"]
    present: list[dict[str, Any] | None] = [None if fleets.card_uuid(name, n) == held else {} for n in (0, 1)]
    operator.kill()
    await says(api, name, *present)
    await operator.start()
    gone = await told(api, record, "False", "CardGone")
    assert held in condition(gone, "CardsHealthy")["message"]
    assert gone["status"]["pods"] == record["status"]["pods"]
    await says(api, name, {}, {})
    back = await told(api, record, "True", "CardsRecovered")
    assert back["status"]["pods"] == record["status"]["pods"]


@pytest.mark.shares_operator
async def test_a_card_that_shrinks_below_what_is_held_gets_nothing_new(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (name,) = await fleet.add(hami(fleet, {}))
    record = await running_slice(api, namespace, fleet, operator, "p")
    await says(api, name, {"devmem": 16 * 1024})
    shrunk = await told(api, record, "False", "CardShrunk")
    assert "has only 16384 MiB now" in condition(shrunk, "CardsHealthy")["message"]
    tiny = pod("tiny").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(tiny.manifest(), namespace=namespace)
    await event_about(api, namespace, "tiny", "FailedScheduling")
    await api.delete(at("pods", namespace, "p"))
    await record_of_pod(api, namespace, "tiny", phase="Bound")


@pytest.mark.shares_operator
async def test_a_topology_that_says_unhealthy_is_followed_too(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (name,) = await fleet.add(node("mixed").with_cards(1).with_cards(1, model="T4", memory_mib=16384))
    record = await running_slice(api, namespace, fleet, operator, "p")
    path = at("noderesourcetopologies", None, name)
    zones = (await api.get(path))["zones"]
    card = next(zone for zone in zones if zone["name"] == "gpu-0")
    card["attributes"].append({"name": "health", "value": "xid-79"})
    await api.patch(path, {"zones": zones})
    await told(api, record, "False", "CardUnhealthy")
    card["attributes"].pop()
    await api.patch(path, {"zones": zones})
    await told(api, record, "True", "CardsRecovered")
