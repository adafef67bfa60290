"""Delivery: what a Binding tells of each container's cards, and the steps around it in their order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from alnair.kube import Client
from alnair.ledger import writer
from alnair.ledger.binding import Binder, Verdict
from alnair.ledger.delivery import Undeliverable, delivery_of
from alnair.ledger.lease import Lease, LeaseSettings
from alnair.ledger.records import Member
from alnair.state.holding import ContainerShare, Holding, Slice
from unit.apiserver import Store
from unit.builders import HandClock

POD = "/api/v1/namespaces/team/pods/p"
BIND = "POST p/binding"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.001)


def member(*shares: ContainerShare, node: str = "n1") -> Member:
    return Member("uid-p", "p", Holding(node, shares))


def annotations(who: Member) -> Mapping[str, str]:
    return delivery_of(who).annotations(who)


def test_a_container_with_a_slice_is_told_the_card_and_its_limits() -> None:
    who = member(ContainerShare("main", (Slice("GPU-a", 6144, 30),)))
    assert annotations(who) == {
        "main.env.ai.centaurus.io/visible-devices": "GPU-a",
        "main.env.ai.centaurus.io/gpu-ids": "GPU-a",
        "main.env.ai.centaurus.io/memory-mib": "6144",
        "main.env.ai.centaurus.io/sm-limit": "30",
        "main.env.ai.centaurus.io/memory-limit-0": "6144m",
    }


def test_each_container_is_told_its_own_cards() -> None:
    first = ContainerShare("a", (Slice("GPU-a", 1024, 0), Slice("GPU-b", 1024, 0)))
    second = ContainerShare("b", (Slice("GPU-b", 24576, 100, whole=True),))
    told = annotations(member(first, second))
    assert told["a.env.ai.centaurus.io/visible-devices"] == "GPU-a,GPU-b"
    assert told["a.env.ai.centaurus.io/memory-limit-1"] == "1024m"
    assert told["a.env.ai.centaurus.io/sm-limit"] == "0"
    assert told["b.env.ai.centaurus.io/visible-devices"] == "GPU-b"
    assert "b.env.ai.centaurus.io/memory-limit-1" not in told


@pytest.mark.parametrize(
    ("card", "visible"),
    [("GPU-a", "GPU-a"), ("n1/3", "3"), ("MIG-GPU-a/1/0", "MIG-GPU-a/1/0"), ("n10/3", "n10/3")],
)
def test_a_card_without_a_uuid_is_shown_by_its_index(card: str, visible: str) -> None:
    told = annotations(member(ContainerShare("main", (Slice(card, 1024, 0),))))
    assert told["main.env.ai.centaurus.io/visible-devices"] == visible
    assert told["main.env.ai.centaurus.io/gpu-ids"] == card


@pytest.mark.parametrize("shares", [(), (ContainerShare("main", counted=2),)])
def test_without_cards_by_name_nothing_is_told(shares: tuple[ContainerShare, ...]) -> None:
    assert annotations(member(*shares)) == {}


# -- the steps -----------------------------------------------------------------------------------------------------


class Steps:
    """A delivery that writes down what it is asked, beside the calls of the server."""

    def __init__(self, server: Store, *, refusing: str = "") -> None:
        self._server = server
        self._refusing = refusing
        self.taken: list[str] = []

    def _note(self, step: str) -> None:
        self.taken.append(f"{step} after {self._server.names().count(BIND)} binds")

    async def prepare(self, namespace: str, member: Member) -> None:
        self._note("prepare")
        if self._refusing:
            raise Undeliverable(self._refusing)

    def annotations(self, member: Member) -> Mapping[str, str]:
        return {"example.com/card": "GPU-a"}

    async def confirm(self, namespace: str, member: Member) -> None:
        self._note("confirm")

    async def undo(self, namespace: str, member: Member) -> None:
        self._note("undo")


@asynccontextmanager
async def delivering(*, refusing: str = "") -> AsyncIterator[tuple[Store, Binder, Steps]]:
    async with Store() as server, Client(server.connection()) as client:
        lease = Lease(client, LeaseSettings("alnair", "alnair", "me"), HandClock())
        await lease.acquire()
        server.put(POD, {"metadata": {"uid": "uid-p"}, "spec": {}, "status": {}})
        steps = Steps(server, refusing=refusing)
        yield server, Binder(client, lease, choose=lambda _: steps), steps


async def test_it_is_prepared_before_the_bind_and_confirmed_after_it() -> None:
    async with delivering() as (server, binder, steps):
        assert await binder.bind("team", member()) is Verdict.BOUND
        assert steps.taken == ["prepare after 0 binds", "confirm after 1 binds"]
        assert server.objects[POD]["metadata"]["annotations"]["example.com/card"] == "GPU-a"


async def test_it_is_undone_when_the_pod_is_not_bound_here() -> None:
    async with delivering() as (server, binder, steps):
        server.first(BIND, lambda: server.put(POD, {"spec": {"nodeName": "n2"}}))
        assert await binder.bind("team", member()) is Verdict.ELSEWHERE
        assert steps.taken[-1].startswith("undo")


async def test_what_cannot_be_delivered_is_not_bound() -> None:
    async with delivering(refusing="the node is locked") as (server, binder, steps):
        assert await binder.bind("team", member()) is Verdict.REFUSED
        assert BIND not in server.names()
        assert steps.taken == ["prepare after 0 binds"]
