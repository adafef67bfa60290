"""NodePorts: which host ports get in each other's way, among strangers and among members of one gang."""

from __future__ import annotations

import pytest

from harness.builders import PodBuilder, node, pod
from unit.builders import Cluster, let_through, reasons, times, where

PLAIN = pod("p").on_host_port(80)


@pytest.mark.parametrize(
    ("there", "asking", "conflict"),
    [
        pytest.param(PLAIN, PLAIN, True, id="one port"),
        pytest.param(PLAIN, pod("p").on_host_port(81), False, id="another port"),
        pytest.param(PLAIN, pod("p").on_host_port(80, protocol="TCP"), True, id="TCP is the default"),
        pytest.param(PLAIN, pod("p").on_host_port(80, protocol="UDP"), False, id="another protocol"),
        pytest.param(PLAIN, pod("p").on_host_port(80, ip="10.0.0.1"), True, id="everywhere meets one address"),
        pytest.param(pod("p").on_host_port(80, ip="10.0.0.1"), PLAIN, True, id="one address meets everywhere"),
        pytest.param(
            pod("p").on_host_port(80, ip="10.0.0.1"), pod("p").on_host_port(80, ip="10.0.0.1"), True, id="one address"
        ),
        pytest.param(
            pod("p").on_host_port(80, ip="10.0.0.1"),
            pod("p").on_host_port(80, ip="10.0.0.2"),
            False,
            id="two addresses",
        ),
        pytest.param(
            pod("p").on_host_port(80, ip="0.0.0.0"),
            pod("p").on_host_port(80, ip="10.0.0.2"),
            True,
            id="0.0.0.0 said aloud",
        ),
        pytest.param(PLAIN.on_host_port(90), pod("p").on_host_port(91).on_host_port(90), True, id="one of several"),
        pytest.param(pod("p"), PLAIN, False, id="nobody else has one"),
        pytest.param(PLAIN, pod("p"), False, id="the pod asks for none"),
    ],
)  # fmt: skip
def test_which_ports_conflict(there: PodBuilder, asking: PodBuilder, conflict: bool) -> None:
    cluster = Cluster(node("a"), node("b"))
    cluster.running(there.named("there"), on="a")
    assert let_through("NodePorts", cluster, asking) == (["b"] if conflict else ["a", "b"])


@pytest.mark.parametrize(("phase", "gone"), [("Running", False), ("Succeeded", True), ("Failed", True)])
def test_a_port_is_free_when_its_pod_is_done(phase: str, gone: bool) -> None:
    cluster = Cluster(node("a"))
    cluster.running(PLAIN.named("there"), on="a", phase=phase)
    assert let_through("NodePorts", cluster, PLAIN) == (["a"] if gone else [])


def test_a_port_is_free_again_only_when_the_last_of_its_pods_left() -> None:
    cluster = Cluster(node("a"))
    cluster.running(PLAIN.named("one"), on="a")
    cluster.running(PLAIN.named("two"), on="a")  # somebody's nodeName: nothing checked it
    cluster.state.drop_pod("uid-one")
    assert let_through("NodePorts", cluster, PLAIN) == []
    cluster.state.drop_pod("uid-two")
    assert let_through("NodePorts", cluster, PLAIN) == ["a"]


def test_the_ports_are_named() -> None:
    cluster = Cluster(node("a"), node("b"))
    cluster.running(PLAIN.named("there"), on="a")
    asking = pod("p").on_host_port(80).on_host_port(53, protocol="UDP", ip="10.0.0.1")
    assert reasons("NodePorts", cluster, asking) == [
        ("has a pod with host port 80/TCP, 10.0.0.1:53/UDP already", 1)
    ]


def test_members_of_one_gang_get_in_each_others_way() -> None:
    cluster = Cluster(node("a"), node("b"))
    assert sorted(where(cluster.place(*times(PLAIN, 2))).values()) == ["a", "b"]
    message = Cluster(node("a"), node("b")).refuses(*times(PLAIN, 3))
    assert message == (
        "2 of 3 members fit. 1 more needs a place, but of 2 nodes: 2 have a pod with host port 80/TCP already."
    )
