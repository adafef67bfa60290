"""The streams of storage and of namespaces, poured into the books: who is forgotten, who is woken, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from alnair.handlers.feeds import NamespaceFeed
from alnair.handlers.storage import KINDS, StorageFeed
from alnair.ledger import volumes
from alnair.state import wire
from alnair.state.cluster import ClusterState
from alnair.state.selectors import PodSet, Selector, read_selector
from harness.builders import Built, node, pod
from harness.storage import attachment, capacity, claim, csi_driver, csi_node, storage_class, volume
from unit.builders import Cluster, as_pod, decoded
from unit.control.world import World

ONE_OF_EACH: list[Built] = [
    claim("one"),
    volume("one"),
    storage_class("one"),
    csi_node("one", {}),
    csi_driver("one", tells_capacity=True),
    capacity("one", of="x", nodes={}),
    attachment("one", to="a"),
]


def renamed(thing: Built, name: str) -> Any:
    return thing.with_(lambda it: it["metadata"].update(name=name)).manifest()


@pytest.mark.parametrize("thing", ONE_OF_EACH, ids=lambda each: str(each.body["kind"]))
async def test_every_kind_of_storage_comes_and_goes(thing: Built) -> None:
    async with World() as world:
        leader = await world.process()
        kind = next(each for each in KINDS if each.wire.__name__ == thing.body["kind"])
        feed = StorageFeed(kind, state=leader.state, ledger=leader.ledger)
        table = leader.state.volumes.table(kind.value)

        def names() -> list[str]:
            return sorted(key.rpartition("/")[2] for key in table)

        first, second, third = (decoded(renamed(thing, name), kind.wire) for name in ("a", "b", "c"))
        feed.replace([first, second])
        assert feed.synced.is_set()
        assert names() == ["a", "b"]
        freed = leader.state.freed
        feed.replace([second, third])
        assert names() == ["b", "c"]
        assert leader.state.freed > freed, "who waits for storage looks again"
        freed = leader.state.freed
        feed.put(third)
        assert leader.state.freed == freed, "nothing new"
        feed.drop(third)
        assert names() == ["b"]
        assert leader.state.freed > freed


async def test_whoever_waits_for_volumes_hears_of_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "LOOK_SECONDS", 3600)
    async with World() as world:
        leader = await world.process()
        kind = next(each for each in KINDS if each.wire is wire.PersistentVolumeClaim)
        feed = StorageFeed(kind, state=leader.state, ledger=leader.ledger)
        feed.put(decoded(claim("d").manifest(), kind.wire))
        hearing = asyncio.create_task(leader.ledger.volumes._hear())
        await asyncio.sleep(0)
        again = claim("d").with_(lambda it: it["metadata"].update(resourceVersion="9"))
        feed.put(decoded(again.manifest(), kind.wire))
        async with asyncio.timeout(60):
            await hearing


# -- namespaces --------------------------------------------------------------------------------------------------

GOLD = PodSet((), Selector(()), read_selector(wire.LabelSelector(match_labels={"tier": "gold"})))


def namespace(name: str, **labels: str) -> wire.Namespace:
    return decoded(
        {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}, wire.Namespace
    )


def test_pods_are_counted_by_the_labels_of_their_namespace() -> None:
    cluster = Cluster(node("a"))
    cluster.state.put_pod(as_pod(pod("p"), on="a"))
    feed = NamespaceFeed(state=cluster.state)

    def meant() -> int:
        return int(cluster.state.company.count(GOLD).sum())

    feed.replace([namespace("team"), namespace("other")])
    assert feed.synced.is_set()
    assert meant() == 0
    feed.put(namespace("team", tier="gold"))
    assert meant() == 1
    feed.replace([namespace("other")])
    assert meant() == 0
    feed.put(namespace("team", tier="gold"))
    feed.drop(namespace("team", tier="gold"))
    assert meant() == 0


def test_only_a_change_of_labels_wakes_anybody() -> None:
    state = ClusterState()
    feed = NamespaceFeed(state=state)
    feed.replace([namespace("team", tier="gold")])
    freed = state.freed
    feed.put(namespace("team", tier="gold"))
    feed.replace([namespace("team", tier="gold")])
    assert state.freed == freed
    feed.put(namespace("team", tier="tin"))
    assert state.freed > freed
