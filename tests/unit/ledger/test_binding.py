"""Binding: what a pod read back says decides, a stale or foreign Binding is refused, a lost answer is found out."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from alnair.api import names
from alnair.kube import Client
from alnair.ledger import writer
from alnair.ledger.binding import Binder, Verdict, binding, judge
from alnair.ledger.lease import LeadershipLost, Lease, LeaseSettings
from alnair.ledger.records import Member
from alnair.state.holding import Holding
from unit.apiserver import Call, Fault, Store, refusal, reply
from unit.builders import HandClock, card, holds, part

POD = "/api/v1/namespaces/team/pods/p"
BIND = "POST p/binding"
LATER = float("inf")
PLACE = holds("n1", part("n1", 0, 6144, 50), part("n1", 1, 6144, 50))


def member(version: str = "", holding: Holding = PLACE) -> Member:
    return Member("uid-p", "p", holding, version=version)


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        pytest.param({}, None, id="there and unbound"),
        pytest.param({"spec": {"nodeName": "n1"}}, Verdict.BOUND, id="bound where it was planned"),
        pytest.param({"spec": {"nodeName": "n2"}}, Verdict.ELSEWHERE, id="bound elsewhere"),
        pytest.param({"metadata": {"uid": "other"}}, Verdict.GONE, id="a namesake"),
        pytest.param({"metadata": {"uid": "other"}, "spec": {"nodeName": "n1"}}, Verdict.GONE, id="a namesake there"),
        pytest.param({"metadata": {"uid": "uid-p", "deletionTimestamp": "now"}}, Verdict.GONE, id="going, unbound"),
        pytest.param(
            {"metadata": {"uid": "uid-p", "deletionTimestamp": "now"}, "spec": {"nodeName": "n1"}},
            Verdict.BOUND,
            id="going, but bound: it holds what it has",
        ),
        pytest.param({"status": {"phase": "Failed"}}, Verdict.GONE, id="failed before it was bound"),
        pytest.param({"status": {"phase": "Succeeded"}}, Verdict.GONE, id="done before it was bound"),
        pytest.param({"status": {"phase": "Pending"}}, None, id="pending"),
        pytest.param({"spec": {"nodeName": "n1"}, "status": {"phase": "Succeeded"}}, Verdict.BOUND, id="bound, done"),
        pytest.param({"spec": None, "status": None}, None, id="nothing said"),
    ],
)  # fmt: skip
def test_a_pod_is_judged_by_what_it_says(pod: dict[str, Any], verdict: Verdict | None) -> None:
    assert judge({"metadata": {"uid": "uid-p"}, **pod}, member()) is verdict


def test_a_binding_names_the_pod_its_version_and_all_that_it_gets() -> None:
    made = binding(member(), version="7")
    assert made["target"]["name"] == "n1"
    assert (made["metadata"]["uid"], made["metadata"]["resourceVersion"]) == ("uid-p", "7")
    annotations = made["metadata"]["annotations"]
    assert annotations[names.NODE] == "n1"
    assert annotations[names.GPU_ID] == f"{card('n1', 0)},{card('n1', 1)}"
    (container,) = orjson.loads(annotations[names.GPU_SLICES])
    assert container["name"] == "main"
    assert [piece["memoryMiB"] for piece in container["slices"]] == [6144, 6144]


# -- against an apiserver ----------------------------------------------------------------------------------------


@asynccontextmanager
async def binding_pods() -> AsyncIterator[tuple[Store, Binder, Lease]]:
    async with Store() as server, Client(server.connection()) as client:
        lease = Lease(client, LeaseSettings("alnair", "alnair", "me"), HandClock())
        await lease.acquire()
        server.put(POD, {"metadata": {"uid": "uid-p"}, "spec": {}, "status": {}})
        yield server, Binder(client, lease), lease


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.001)


def bound_to(server: Store) -> str:
    return str(server.objects[POD]["spec"].get("nodeName", ""))


async def test_a_pod_that_did_not_change_since_the_plan_is_bound_by_one_call() -> None:
    async with binding_pods() as (server, binder, _):
        version = server.objects[POD]["metadata"]["resourceVersion"]
        server.calls.clear()
        assert await binder.bind("team", member(version)) is Verdict.BOUND
        assert server.names() == [BIND]
        assert bound_to(server) == "n1"


async def test_a_pod_that_changed_since_the_plan_is_read_and_bound() -> None:
    async with binding_pods() as (server, binder, _):
        stale = server.objects[POD]["metadata"]["resourceVersion"]
        server.put(POD, {"metadata": {"labels": {"a": "b"}}, "spec": {}})
        assert await binder.bind("team", member(stale)) is Verdict.BOUND
        assert bound_to(server) == "n1"


async def test_a_bind_whose_answer_got_lost_is_found_out_and_not_repeated() -> None:
    async with binding_pods() as (server, binder, _):
        server.loses_the_answer_of(BIND)
        assert await binder.bind("team", member()) is Verdict.BOUND
        assert server.names().count(BIND) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_bind_that_is_put_off_is_tried_again_after_a_look(status: int) -> None:
    async with binding_pods() as (server, binder, _):
        server.refuses(BIND, status, times=2, **{"Retry-After": "0"})
        assert await binder.bind("team", member()) is Verdict.BOUND
        binds = [index for index, name in enumerate(server.names()) if name == BIND]
        assert len(binds) == 3
        for before, after in itertools.pairwise(binds):
            assert "GET pods/p" in server.names()[before:after]


async def test_a_namesake_is_not_bound() -> None:
    async with binding_pods() as (server, binder, _):
        stale = server.objects[POD]["metadata"]["resourceVersion"]
        del server.objects[POD]
        server.put(POD, {"metadata": {"uid": "uid-of-another"}, "spec": {}})
        assert await binder.bind("team", member(stale)) is Verdict.GONE
        assert await binder.bind("team", member()) is Verdict.GONE
        assert bound_to(server) == ""


async def test_a_pod_that_is_not_there_is_gone() -> None:
    async with binding_pods() as (server, binder, _):
        del server.objects[POD]
        assert await binder.bind("team", member()) is Verdict.GONE
        assert await binder.bind("team", member("1")) is Verdict.GONE


async def test_a_pod_that_somebody_else_bound_is_left_where_it_is() -> None:
    async with binding_pods() as (server, binder, _):
        server.first(BIND, lambda: server.put(POD, {"spec": {"nodeName": "n2"}}))
        assert await binder.bind("team", member()) is Verdict.ELSEWHERE
        assert bound_to(server) == "n2"


async def test_an_apiserver_that_keeps_saying_no_means_it() -> None:
    async with binding_pods() as (server, binder, _):
        server.refuses(BIND, 422, "Invalid", times=50)
        assert await binder.bind("team", member()) is Verdict.REFUSED
        assert bound_to(server) == ""


async def test_nobody_binds_again_who_no_longer_leads() -> None:
    async with binding_pods() as (server, binder, _):
        server.refuses(BIND, 500)
        lease_path = "/apis/coordination.k8s.io/v1/namespaces/alnair/leases/alnair"
        server.put(lease_path, {"spec": {"holderIdentity": "rival", "leaseTransitions": 2}})
        with pytest.raises(LeadershipLost):
            await binder.bind("team", member("1"))
        assert bound_to(server) == ""


async def test_a_fence_refuses_every_binding_that_is_still_under_way() -> None:
    async with binding_pods() as (server, binder, _):
        planned = server.objects[POD]["metadata"]["resourceVersion"]
        assert await binder.fence("team", member(planned), "planned anew", patience=LATER) is None
        late = await asyncio.gather(
            Client.call(binder._client, "POST", f"{POD}/binding", body=binding(member(), version=planned)),
            return_exceptions=True,
        )
        assert "409" in str(late[0])
        assert bound_to(server) == ""


async def test_a_fence_that_changed_nothing_is_said_in_other_words() -> None:
    async with binding_pods() as (server, binder, _):
        assert await binder.fence("team", member(), "planned anew", patience=LATER) is None
        before = server.objects[POD]["metadata"]["resourceVersion"]
        assert await binder.fence("team", member(), "planned anew", patience=LATER) is None
        assert server.objects[POD]["metadata"]["resourceVersion"] != before


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        ({"spec": {"nodeName": "n1"}}, Verdict.BOUND),
        ({"spec": {"nodeName": "n2"}}, Verdict.ELSEWHERE),
        (None, Verdict.GONE),
    ],
)
async def test_a_fence_says_what_became_of_the_pod_if_it_is_not_simply_unbound(
    pod: dict[str, Any] | None, verdict: Verdict
) -> None:
    async with binding_pods() as (server, binder, _):
        if pod is None:
            del server.objects[POD]
        else:
            server.put(POD, pod)
        assert await binder.fence("team", member(), "planned anew", patience=LATER) is verdict


async def test_who_may_not_be_looked_at_is_waited_for_however_long_it_takes() -> None:
    """It may be bound: an older Binding has landed, and its answer was lost."""
    async with binding_pods() as (server, binder, _):
        with server.refusing(lambda call: call.name == "GET pods/p", 403) as refused:
            fence = asyncio.create_task(
                binder.fence("team", member(), "planned anew", patience=time.monotonic())
            )
            while len(refused) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            server.put(POD, {"spec": {"nodeName": "n1"}})
            assert not fence.done()
        assert await fence is Verdict.BOUND


@pytest.mark.parametrize("lost", [False, True])
async def test_a_pod_that_was_seen_unbound_and_may_not_be_changed_is_waited_for_until_patience_is_over(
    lost: bool,
) -> None:
    """Refused, or no answer: somebody's webhook may hang."""
    async with binding_pods() as (server, binder, _):
        with server.refusing(lambda call: call.method == "PATCH", 503 if lost else 422) as refused:
            patience = time.monotonic() + 0.05
            assert await binder.fence("team", member(), "planned anew", patience=patience) is None
            assert time.monotonic() > patience
        assert len(refused) > 1


async def test_a_look_from_before_patience_was_over_is_not_the_last() -> None:
    """A Binding that was under way when the pod was seen unbound may have landed since."""
    async with binding_pods() as (server, binder, _):
        seen = server.objects[POD]["metadata"]["resourceVersion"]

        async def too_late(_: Call) -> web.StreamResponse:
            server.put(POD, {"spec": {"nodeName": "n1"}})
            return refusal(422, "Refused")

        server.faults.append(Fault(lambda call: call.method == "PATCH", before=too_late))
        verdict = await binder.fence(
            "team", member(), "planned anew", version=seen, patience=time.monotonic()
        )
        assert verdict is Verdict.BOUND


async def test_a_pod_that_no_word_of_ours_changes_is_waited_for_with_pauses_and_not_for_ever() -> None:
    """Somebody's webhook puts its conditions back as they were."""
    async with binding_pods() as (server, binder, _):

        async def unchanged(_: Call) -> web.StreamResponse:
            return reply(200, server.objects[POD])

        server.faults.append(Fault(lambda call: call.method == "PATCH", before=unchanged, stays=True))
        patience = time.monotonic() + 0.1
        assert await binder.fence("team", member(), "planned anew", patience=patience) is None
        assert time.monotonic() > patience
        said = [
            each.body["status"]["conditions"][0]["message"] for each in server.calls if each.method == "PATCH"
        ]
        assert 2 < len(said) < 20
        assert len(set(said)) == len(said)
        assert max(map(len, said)) < 40
