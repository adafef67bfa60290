"""The config file changes under a running operator: taken over whole, or refused whole and said so."""

from __future__ import annotations

from typing import Any

import yaml

from harness.api import Api, Object, at
from harness.builders import node, pod
from harness.fixtures import Fleet
from harness.operator import Operator, Release
from harness.watching import bound_pods, event_about

Config = dict[str, Any]


def config_of(release: Release) -> Config:
    found: Config = yaml.safe_load(release.config.read_text())
    return found


def write(release: Release, config: Config) -> None:
    """As a mounted ConfigMap does it: the whole file at once."""
    new = release.config.with_suffix(".new")
    new.write_text(yaml.safe_dump(config))
    new.replace(release.config)


async def bound(api: Api, namespace: str, name: str) -> Object:
    return await api.until(
        at("pods", namespace, name), lambda it: it["spec"].get("nodeName"), what=f"{name} bound"
    )


async def test_a_profile_that_is_added_takes_the_pods_that_waited_for_it_and_one_that_is_removed_takes_none(
    api: Api, namespace: str, fleet: Fleet, release: Release, operator: Operator
) -> None:
    await fleet.add(node("a"), node("b"))
    added = f"{namespace}-added"
    await api.create(pod("early").by(added).selecting(fleet.selector).manifest(), namespace=namespace)
    config = config_of(release)
    config["profiles"] = [
        {"schedulerName": added, "scorers": ["LeastRequested"], "picker": "worst-fit"},
        *config["profiles"][1:],
    ]
    write(release, config)
    await bound(api, namespace, "early")
    taken = await event_about(api, namespace, "alnair", "ConfigTaken")
    assert (taken["regarding"]["kind"], taken["type"]) == ("ConfigMap", "Normal")
    assert added in taken["note"]

    removed = operator.scheduler
    assert removed not in taken["note"].removeprefix("profiles: ").split(", ")
    await api.create(pod("orphan").by(removed).selecting(fleet.selector).manifest(), namespace=namespace)
    await api.create(pod("later").by(added).selecting(fleet.selector).manifest(), namespace=namespace)
    assert {each["metadata"]["name"] for each in await bound_pods(api, namespace, 2)} == {"early", "later"}

    config["profiles"].append({**config["profiles"][0], "schedulerName": removed})
    write(release, config)
    await bound(api, namespace, "orphan")


async def test_a_wrong_file_is_refused_whole_and_the_old_one_goes_on(
    api: Api, namespace: str, fleet: Fleet, release: Release, operator: Operator
) -> None:
    await fleet.add(node("a"))
    config = config_of(release)
    added = {"schedulerName": f"{namespace}-added", "scorers": ["BinPack"], "picker": "best-fit"}
    wrong = {**added, "schedulerName": f"{namespace}-wrong", "scorers": ["BinPak"]}
    write(release, {**config, "profiles": [*config["profiles"], added, wrong]})
    refused = await event_about(api, namespace, "alnair", "ConfigRefused")
    assert "scorers[0]: 'BinPak': scorers knows no rule of that name; it knows BinPack" in refused["note"]
    await operator.metrics_with("alnair_config_good 0.0")
    asking = pod("p").selecting(fleet.selector)
    await api.create(asking.named("nobodys").by(added["schedulerName"]).manifest(), namespace=namespace)
    await api.create(asking.named("ours").by(operator.scheduler).manifest(), namespace=namespace)
    assert [each["metadata"]["name"] for each in await bound_pods(api, namespace, 1)] == ["ours"]

    write(release, {**config, "profiles": [*config["profiles"], added]})
    await operator.metrics_with("alnair_config_good 1.0")
    await bound(api, namespace, "nobodys")


async def test_another_order_of_scorers_holds_for_the_next_pod(
    api: Api, namespace: str, fleet: Fleet, release: Release, operator: Operator
) -> None:
    await fleet.add(node("a").with_cards(1), node("b").with_cards(1))
    asking = pod("p").slice(memory_gib=2).by(operator.release.cost_saving).selecting(fleet.selector)
    await api.create(asking.named("first").manifest(), namespace=namespace)
    first = await bound(api, namespace, "first")
    config = config_of(release)
    for profile in config["profiles"]:
        if profile["schedulerName"] == operator.release.cost_saving:
            profile["scorers"], profile["picker"] = [{"name": "Spread"}], "worst-fit"
    write(release, config)
    await event_about(api, namespace, "alnair", "ConfigTaken")
    await api.create(asking.named("second").manifest(), namespace=namespace)
    second = await bound(api, namespace, "second")
    assert second["spec"]["nodeName"] != first["spec"]["nodeName"]
