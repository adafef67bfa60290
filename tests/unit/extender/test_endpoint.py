"""The Service leads to whoever leads: its EndpointSlice is written by each leader, and put right."""

from __future__ import annotations

import asyncio

import pytest

from alnair.extender import endpoint
from alnair.extender.endpoint import Endpoint
from alnair.kube import Client
from unit.apiserver import Store

COLLECTION = "/apis/discovery.k8s.io/v1/namespaces/gpu/endpointslices"
PATH = f"{COLLECTION}/alnair-extender"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LOOK_SECONDS", 0.005)
    monkeypatch.setattr(endpoint, "RETRY_SECONDS", 0.005)


def here(address: str = "10.0.0.7") -> Endpoint:
    return Endpoint("gpu", "alnair-extender", address, 8888)


def shown(store: Store) -> tuple[str, list[str], int]:
    there = store.objects[PATH]
    assert there["metadata"]["labels"]["kubernetes.io/service-name"] == "alnair-extender"
    return there["addressType"], there["endpoints"][0]["addresses"], there["ports"][0]["port"]


async def test_each_leader_writes_itself_over_the_one_before() -> None:
    async with Store() as store, Client(store.connection()) as client:
        for address, family in (("10.0.0.7", "IPv4"), ("10.0.0.8", "IPv4"), ("fd00::9", "IPv6")):
            keeping = asyncio.create_task(endpoint.keep(client, here(address)))
            async with asyncio.timeout(5):
                while PATH not in store.objects or shown(store) != (family, [address], 8888):  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
            keeping.cancel()


async def test_what_others_do_to_it_is_put_right_and_nothing_is_written_at_rest() -> None:
    async with Store() as store, Client(store.connection()) as client:
        store.refuses("POST gpu/endpointslices", 403, "Forbidden")
        keeping = asyncio.create_task(endpoint.keep(client, here()))
        async with asyncio.timeout(5):
            while PATH not in store.objects:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            for spoilt in ({"endpoints": []}, {"metadata": {"labels": {}}}):
                store.put(PATH, {**store.objects[PATH], **spoilt})
                while not store.objects[PATH]["endpoints"] or not store.objects[PATH]["metadata"]["labels"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
            store.remove(PATH)
            while PATH not in store.objects:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        written = [name for name in store.names() if not name.startswith("GET")]
        await asyncio.sleep(0.05)
        assert [name for name in store.names() if not name.startswith("GET")] == written
        keeping.cancel()


def test_an_address_is_an_ip_address() -> None:
    with pytest.raises(ValueError, match="leader"):
        here("leader.example")
