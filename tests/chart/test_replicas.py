"""Several operators: on different nodes, drained one at a time, replaced one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from alnair.handlers.kopf_thread import STOP_SECONDS
from alnair.handlers.leader import GRACE_SECONDS
from alnair.kube.client import CALL_SECONDS

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] == kind]


def deployment(objects: list[Manifest]) -> Manifest:
    (found,) = of_kind(objects, "Deployment")
    return found


def test_by_default_there_is_one_to_take_over(render: Render) -> None:
    assert deployment(render())["spec"]["replicas"] == 2


@pytest.mark.parametrize(("replicas", "guarded"), [(0, False), (1, False), (2, True), (3, True)])
def test_several_are_drained_one_at_a_time_and_a_single_one_blocks_no_drain(
    render: Render, replicas: int, guarded: bool
) -> None:
    objects = render({"replicas": replicas})
    budgets = of_kind(objects, "PodDisruptionBudget")
    assert len(budgets) == guarded
    for budget in budgets:
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        assert budget["spec"]["selector"] == deployment(objects)["spec"]["selector"]


def test_a_budget_in_per_cent_stays_one(render: Render) -> None:
    (budget,) = of_kind(render({"podDisruptionBudget": {"maxUnavailable": "50%"}}), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == "50%"


def test_they_keep_apart_by_node_where_they_can(render: Render) -> None:
    spec = deployment(render(release="blue"))["spec"]
    assert spec["template"]["spec"]["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": spec["selector"],
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]


def test_other_ways_to_keep_apart_replace_ours_and_may_bring_a_selector(render: Render) -> None:
    own = {
        "maxSkew": 2,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    zone = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    pod = deployment(render({"topologySpreadConstraints": [own, zone]}))["spec"]["template"]["spec"]
    first, second = pod["topologySpreadConstraints"]
    assert first == own
    assert zone.items() <= second.items()
    assert second["labelSelector"]
    assert (
        "topologySpreadConstraints"
        not in (deployment(render({"topologySpreadConstraints": []}))["spec"]["template"]["spec"])
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_upgrade_starts_the_successor_before_it_stops_anybody(render: Render, replicas: int) -> None:
    strategy = deployment(render({"replicas": replicas}))["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_the_kubelet_waits_until_the_lease_is_handed_over(render: Render) -> None:
    """What is under way is waited for, the Lease is read and written, Kopf's thread is waited for."""
    longest = GRACE_SECONDS + 2 * CALL_SECONDS + STOP_SECONDS
    assert deployment(render())["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > longest


def test_the_leases_duration_is_a_value(render: Render) -> None:
    arguments = deployment(render({"leaseDurationSeconds": 5}))["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    assert arguments[arguments.index("--lease-duration") + 1] == "5"


def test_the_selector_is_what_it_was_in_the_first_version_since_it_can_never_change(render: Render) -> None:
    assert deployment(render(release="blue"))["spec"]["selector"] == yaml.safe_load(
        "{matchLabels: {app.kubernetes.io/name: alnair, app.kubernetes.io/instance: blue}}"
    )
