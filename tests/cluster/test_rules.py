"""Placement rules on the real control plane: between the members of a gang, by namespaces' labels, and as wishes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.api import Api, Object, at
from harness.builders import group, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator, Release
from harness.watching import bound_pods, condition

RACK = "example.com/rack"
APP = {"app": "x"}


def places(pods: list[Object]) -> list[str]:
    return sorted(each["spec"]["nodeName"].partition(".")[0] for each in pods)


async def told(api: Api, namespace: str, name: str, words: str) -> None:
    """The pod's condition says so."""
    await api.until(
        at("pods", namespace, name),
        lambda it: words in condition(it, "PodScheduled").get("message", ""),
        what=f"pod {name} refused with {words}",
    )


@pytest.mark.shares_operator
async def test_members_that_must_be_apart_are_bound_apart_and_one_too_many_is_refused_by_name(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(
        *(node(name).labelled({RACK: rack}) for name, rack in (("a", "1"), ("b", "1"), ("c", "2")))
    )
    shy = pod("shy").labelled(APP).apart_from(APP, key=RACK).by(operator.scheduler).selecting(fleet.selector)
    await api.create(group("two", min_member=2).manifest(), namespace=namespace)
    await api.create_all(shy.in_group("two").copies(2), namespace=namespace)
    bound = places(await bound_pods(api, namespace, 2))
    assert bound in (["a", "c"], ["b", "c"])

    await api.create(shy.named("third").manifest(), namespace=namespace)
    await told(api, namespace, "third", f"3 have pods near that match app=x in one {RACK}")


@pytest.mark.shares_operator
async def test_members_spread_evenly_and_go_by_the_labels_of_namespaces(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(*(node(name).labelled({RACK: name}) for name in ("a", "b", "c")))
    worker = (
        pod("w")
        .labelled(APP)
        .spread_over(RACK, APP)
        .in_group("six")
        .by(operator.scheduler)
        .selecting(fleet.selector)
    )
    await api.create(group("six", min_member=6).manifest(), namespace=namespace)
    await api.create_all(worker.copies(6), namespace=namespace)
    assert places(await bound_pods(api, namespace, 6)) == ["a", "a", "b", "b", "c", "c"]

    own = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    loner = pod("loner").apart_from(APP, key=RACK, **own).by(operator.scheduler).selecting(fleet.selector)
    await api.create(loner.manifest(), namespace=namespace)
    await told(api, namespace, "loner", f"3 have pods near that match app=x in one {RACK}")


@pytest.fixture
def lecturing(release: Release) -> Release:
    """A release whose profiles look at Services and what manifests wish for, and at nothing else."""
    path = Path(release.config)
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    for profile in config["profiles"]:
        profile["scorers"] = [{"name": "ServiceSpreading"}, {"name": "NodeAffinity", "weight": 10}]
    path.write_text(yaml.safe_dump(config))
    return release


async def test_pods_of_a_service_are_spread_where_the_profile_says_so(
    api: Api, namespace: str, fleet: Fleet, lecturing: Release, operator: Operator
) -> None:
    await fleet.add(*(node(name) for name in ("a", "b", "c")))
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "x"},
        "spec": {"selector": APP, "ports": [{"port": 80}]},
    }
    await api.create(service, namespace=namespace)
    await operator.restart()  # whatever the watch has told by now: a new leader lists them before it plans
    asking = pod("p").labelled(APP).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(asking.copies(3), namespace=namespace)
    assert places(await bound_pods(api, namespace, 3)) == ["a", "b", "c"]
