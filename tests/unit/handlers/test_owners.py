"""Controllers are asked once what their pods used, and no answer is an answer too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from alnair.api import names
from alnair.api.peaks import Peak
from alnair.handlers.owners import KEPT_SECONDS, MOST_KEPT, Owners, controller_of
from alnair.kube import Client
from alnair.state import wire
from unit.apiserver import Store
from unit.builders import HandClock, decoded

LIGHT = {names.PEAK_GPU_UTIL: "5"}
ASKED = "GET jobs/train"


def job(uid: str = "u1", name: str = "train") -> wire.OwnerReference:
    return wire.OwnerReference("Job", name, uid, "batch/v1", True)


class Desk:
    """An apiserver, and somebody who asks it."""

    def __init__(self, server: Store, client: Client) -> None:
        self.server = server
        self.clock = HandClock()
        self.answered: asyncio.Queue[str] = asyncio.Queue()
        self.owners = Owners(client, clock=self.clock, on_answer=self.answered.put_nowait)

    def tells(self, annotations: dict[str, str] | None, uid: str = "u1", name: str = "train") -> None:
        manifest = {"metadata": {"name": name, "uid": uid, "annotations": annotations}}
        self.server.put(f"/apis/batch/v1/namespaces/team/jobs/{name}", manifest)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with Store() as server, Client(server.connection()) as client:
        yield Desk(server, client)


async def test_a_controller_is_asked_once_for_all_its_pods_and_its_word_is_kept_for_a_while(
    desk: Desk,
) -> None:
    desk.tells(LIGHT)
    assert desk.owners.ask(job(), "team")
    assert desk.owners.ask(job(), "team")  # the second pod waits for the same answer
    assert await desk.answered.get() == "u1"
    assert desk.server.names() == [ASKED]
    assert desk.owners.peak("u1") == Peak(compute=0.05)
    assert not desk.owners.ask(job(), "team")
    desk.tells({names.PEAK_GPU_UTIL: "6"})
    desk.clock.pass_(KEPT_SECONDS)
    assert desk.owners.ask(job(), "team")
    await desk.answered.get()
    assert desk.owners.peak("u1") == Peak(compute=0.06)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda desk: None, id="there is none"),
        pytest.param(lambda desk: desk.server.refuses(ASKED, 403), id="it may not be read"),
        pytest.param(lambda desk: desk.server.loses_the_answer_of(ASKED), id="the answer is lost"),
        pytest.param(lambda desk: desk.tells(LIGHT, uid="u2"), id="it is a successor of that name"),
        pytest.param(lambda desk: desk.tells({names.PEAK_GPU_UTIL: "NaN"}), id="it tells nonsense"),
        pytest.param(lambda desk: desk.tells(None), id="it tells nothing"),
    ],
)
async def test_no_answer_is_an_answer_too(desk: Desk, happens: Callable[[Desk], None]) -> None:
    happens(desk)
    assert desk.owners.ask(job(), "team")
    assert await desk.answered.get() == "u1"
    assert desk.owners.peak("u1") is None
    assert not desk.owners.ask(job(), "team")


async def test_what_is_kept_does_not_grow_for_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alnair.handlers.owners.MOST_KEPT", 3)
    assert MOST_KEPT > 3
    for number in range(4):
        desk.tells(LIGHT, uid=f"u{number}", name=f"j{number}")
        desk.owners.ask(job(f"u{number}", f"j{number}"), "team")
        await desk.answered.get()
    assert desk.owners.peak("u0") is None
    assert all(desk.owners.peak(f"u{number}") for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("reference", "asked"),
    [
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, True),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet"}, False),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}, False),
        ({"apiVersion": "v1", "kind": "Node", "controller": True}, False),
    ],
)
def test_only_controllers_of_three_kinds_are_asked(reference: dict[str, Any], asked: bool) -> None:
    meta = {"name": "p", "ownerReferences": [{"name": "o", "uid": "u", **reference}]}
    assert (controller_of(decoded(meta, wire.Metadata)) is not None) is asked
