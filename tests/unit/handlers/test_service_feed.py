"""The Service stream, poured into the books: what a relist no longer has is gone."""

from __future__ import annotations

from typing import Any

from alnair.handlers.feeds import ServiceFeed
from alnair.state import wire
from alnair.state.cluster import ClusterState
from unit.builders import decoded


def service(name: str, namespace: str = "team", **selector: str) -> wire.Service:
    spec: dict[str, Any] = {
        "type": "ClusterIP",
        "ports": [{"port": 80}],
        **({"selector": selector} if selector else {}),
    }
    return decoded({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, wire.Service)


def test_services_come_change_and_go() -> None:
    state = ClusterState()
    feed = ServiceFeed(state=state)
    assert not feed.synced.is_set()
    feed.replace([service("a", app="x"), service("b", "other", app="x"), service("headless")])
    assert feed.synced.is_set()
    assert sorted(state.services.names()) == [("other", "b"), ("team", "a")]
    assert len(state.services.of("team", {"app": "x", "more": "1"})) == 1
    feed.put(service("a", app="y"))
    assert state.services.of("team", {"app": "x"}) == ()
    assert len(state.services.of("team", {"app": "y"})) == 1
    feed.drop(service("a", app="y"))
    assert state.services.of("team", {"app": "y"}) == ()


def test_a_relist_forgets_what_it_does_not_list() -> None:
    state = ClusterState()
    feed = ServiceFeed(state=state)
    feed.replace([service("a", app="x"), service("b", app="y")])
    feed.replace([service("b", app="y"), service("c", app="z")])
    assert sorted(state.services.names()) == [("team", "b"), ("team", "c")]


def test_only_a_service_that_means_other_pods_wakes_those_who_wait() -> None:
    state = ClusterState()
    feed = ServiceFeed(state=state)
    feed.replace([service("a", app="x")])
    since = state.freed
    feed.put(service("a", app="x"))
    feed.replace([service("a", app="x")])
    feed.drop(service("b", app="y"))
    feed.put(service("headless"))
    assert state.freed == since
    feed.put(service("a", app="y"))
    assert state.freed > since
    since = state.freed
    feed.drop(service("a", app="y"))
    assert state.freed > since
