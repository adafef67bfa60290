"""The lease: taken, kept, given back; a rival's is judged by our own clock; a question is asked after the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from alnair.kube import Client
from alnair.kube.clock import Clock
from alnair.ledger import lease as lease_module
from alnair.ledger.lease import LeadershipLost, Lease, LeaseSettings
from unit.apiserver import Call, Fault, Store, refusal
from unit.builders import HandClock

PATH = "/apis/coordination.k8s.io/v1/namespaces/alnair/leases/alnair"
GET, PUT, POST = "GET leases/alnair", "PUT leases/alnair", "POST alnair/leases"


class Arena:
    """One apiserver, one clock, any number of rivals."""

    def __init__(self, server: Store, client: Client) -> None:
        self.server = server
        self.client = client
        self.clock = HandClock()

    def lease(self, identity: str = "me", *, seconds: float = 15.0) -> Lease:
        return Lease(self.client, LeaseSettings("alnair", "alnair", identity, seconds), self.clock)

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.server.objects[PATH]["spec"])

    def held_by(self, identity: str, *, term: int = 1, seconds: int = 15) -> None:
        spec = {"holderIdentity": identity, "leaseTransitions": term, "leaseDurationSeconds": seconds}
        self.server.put(PATH, {"spec": spec})

    async def tries(self, lease: Lease) -> bool:
        """One look at the lease, without the waiting in between."""
        return await lease._try()


@asynccontextmanager
async def arena() -> AsyncIterator[Arena]:
    async with Store() as server, Client(server.connection()) as client:
        yield Arena(server, client)


async def finishes(work: Awaitable[Any], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        await work


# -- taking it ---------------------------------------------------------------------------------------------------


async def test_a_lease_that_is_not_there_is_made() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        assert (lease.held, lease.term) == (True, 1)
        assert there.spec["holderIdentity"] == "me"
        assert there.spec["leaseDurationSeconds"] == 15


async def test_of_two_who_make_it_at_once_one_leads() -> None:
    async with arena() as there:
        mine, rival = there.lease("me"), there.lease("rival")
        won = await asyncio.gather(there.tries(mine), there.tries(rival))
        assert sorted(won) == [False, True]


async def test_a_lease_given_back_is_taken_at_once_in_the_next_term() -> None:
    async with arena() as there:
        there.held_by("", term=4)
        lease = there.lease()
        await lease.acquire()
        assert lease.term == 5
        assert there.spec["leaseTransitions"] == 5


async def test_a_rivals_lease_is_expired_when_we_saw_it_unchanged_for_its_whole_duration() -> None:
    async with arena() as there:
        there.held_by("rival", seconds=30)
        lease = there.lease(seconds=15)
        assert not await there.tries(lease)
        there.clock.pass_(30)
        assert not await there.tries(lease)
        there.clock.pass_(0.1)
        assert await there.tries(lease)
        assert (there.spec["holderIdentity"], lease.term) == ("me", 2)


async def test_a_rival_that_renews_never_expires_whatever_its_own_clock_says() -> None:
    async with arena() as there:
        lease = there.lease()
        for _ in range(5):
            there.server.put(
                PATH, {"spec": {"holderIdentity": "rival", "renewTime": "1970-01-01T00:00:00.000000Z"}}
            )
            assert not await there.tries(lease)
            there.clock.pass_(14)
        assert not lease.held


async def test_an_expired_lease_goes_to_one_of_two() -> None:
    async with arena() as there:
        there.held_by("dead")
        one, other = there.lease("one"), there.lease("other")
        assert not await there.tries(one)
        assert not await there.tries(other)
        there.clock.pass_(16)
        assert sorted(await asyncio.gather(there.tries(one), there.tries(other))) == [False, True]


@pytest.mark.parametrize("call", [GET, POST])
async def test_an_apiserver_that_fails_is_asked_again(call: str) -> None:
    async with arena() as there:
        there.server.refuses(call, 503)
        lease = there.lease()
        assert not await there.tries(lease)
        assert await there.tries(lease)


async def test_a_creation_whose_answer_got_lost_is_ours_nevertheless() -> None:
    async with arena() as there:
        there.server.loses_the_answer_of(POST)
        lease = there.lease()
        assert not await there.tries(lease)
        assert await there.tries(lease)
        assert lease.term == 1


# -- waiting for it ----------------------------------------------------------------------------------------------


@pytest.fixture
def only_the_watch_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the lease because some time has passed."""
    for pause in ("LONGEST_LOOK", "UNWATCHED_LOOK"):
        monkeypatch.setattr(lease_module, pause, 3600.0)


def watched(there: Arena) -> asyncio.Event:
    """The lease may be watched, and the watch tells of a change when this is set."""
    changed = asyncio.Event()

    async def tell(call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(call.request)
        await changed.wait()
        await response.write(b'{"type": "MODIFIED"}\n')
        return response

    there.server.faults.append(Fault(lambda call: "watch" in call.query, before=tell, stays=True))
    return changed


@pytest.mark.usefixtures("only_the_watch_tells")
async def test_a_stand_by_takes_a_lease_that_is_given_back_when_the_watch_tells_of_it() -> None:
    async with arena() as there:
        there.held_by("rival", seconds=3600)
        version = there.server.objects[PATH]["metadata"]["resourceVersion"]
        changed = watched(there)
        lease = there.lease(seconds=3600)
        waiting = asyncio.create_task(lease.acquire())
        await there.server.until(lambda: any("watch" in call.query for call in there.server.calls))
        asked = there.server.calls[-1].query
        assert (asked["fieldSelector"], asked["resourceVersion"]) == ("metadata.name=alnair", version)
        there.held_by("", seconds=3600)
        changed.set()
        await finishes(waiting)
        assert there.spec["holderIdentity"] == "me"


@pytest.mark.usefixtures("only_the_watch_tells")
async def test_a_stand_by_looks_again_at_the_moment_when_the_lease_expires() -> None:
    async with arena() as there:
        there.held_by("dead", seconds=1)
        watched(there)
        settings = LeaseSettings("alnair", "alnair", "me", 3600.0)
        await finishes(Lease(there.client, settings, Clock()).acquire(), seconds=30)
        assert there.spec["holderIdentity"] == "me"


async def test_a_stand_by_that_may_not_watch_looks_by_itself() -> None:
    async with arena() as there:
        there.held_by("rival")
        there.server.faults.append(Fault(lambda call: "watch" in call.query, before=_forbidden, stays=True))
        lease = there.lease(seconds=0.06)
        waiting = asyncio.create_task(lease.acquire())
        await there.server.until(lambda: there.server.names().count(GET) >= 2)
        there.held_by("")
        await finishes(waiting)


async def _forbidden(_: Call) -> web.StreamResponse:
    return refusal(403, "Forbidden")


# -- keeping it --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def keeping(lease: Lease) -> AsyncIterator[None]:
    task = asyncio.create_task(lease.keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_is_renewed_and_its_term_stays() -> None:
    async with arena() as there:
        lease = there.lease(seconds=0.06)
        await lease.acquire()
        began = there.spec["acquireTime"]
        there.clock.pass_(1)
        async with keeping(lease):
            await there.server.until(lambda: there.server.names().count(PUT) >= 3)
        assert lease.held
        assert (there.spec["leaseTransitions"], there.spec["acquireTime"]) == (1, began)
        assert there.spec["renewTime"] != began


async def test_a_lease_taken_by_another_is_lost() -> None:
    async with arena() as there:
        lease = there.lease(seconds=0.06)
        await lease.acquire()
        there.held_by("rival", term=2)
        async with keeping(lease):
            await finishes(lease.lost.wait())
        assert not lease.held
        assert there.spec["holderIdentity"] == "rival"


async def test_a_lease_that_is_deleted_is_lost() -> None:
    async with arena() as there:
        lease = there.lease(seconds=0.06)
        await lease.acquire()
        del there.server.objects[PATH]
        async with keeping(lease):
            await finishes(lease.lost.wait())
        assert not lease.held


async def test_a_conflict_that_was_our_own_doing_loses_nothing() -> None:
    async with arena() as there:
        lease = there.lease(seconds=0.06)
        await lease.acquire()
        there.server.put(PATH, {"spec": there.spec, "metadata": {"labels": {"touched": "yes"}}})
        async with keeping(lease):
            await there.server.until(lambda: there.server.names().count(PUT) >= 3)
        assert lease.held


async def test_an_apiserver_that_is_away_takes_no_lease_away() -> None:
    async with arena() as there:
        lease = there.lease(seconds=0.06)
        await lease.acquire()
        there.server.refuses(PUT, 503, times=2)
        async with keeping(lease):
            await there.server.until(lambda: there.server.names().count(PUT) >= 4)
        assert lease.held


async def test_a_renewal_that_is_refused_is_not_tried_without_a_pause() -> None:
    async with arena() as there:
        lease = there.lease(seconds=0.06)
        await lease.acquire()
        with there.server.refusing(lambda call: call.method == "PUT", 403) as refused:
            async with keeping(lease):
                await asyncio.sleep(0.3)
        assert lease.held
        assert 1 <= len(refused) <= 3


# -- giving it back ----------------------------------------------------------------------------------------------


async def test_a_lease_given_back_names_nobody() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        await lease.release()
        assert not lease.held
        assert there.spec["holderIdentity"] == ""
        rival = there.lease("rival")
        assert await there.tries(rival)
        assert rival.term == 2


async def test_a_lease_that_is_anothers_by_now_is_not_given_back() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        there.held_by("rival")
        await lease.release()
        assert there.spec["holderIdentity"] == "rival"


async def test_giving_back_what_is_not_held_asks_nobody() -> None:
    async with arena() as there:
        await there.lease().release()
        assert there.server.calls == []


async def test_an_apiserver_that_is_away_does_not_stop_the_end() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        there.server.refuses(GET, 503)
        await lease.release()
        assert not lease.held


# -- asking for it -----------------------------------------------------------------------------------------------


async def test_to_confirm_is_to_ask_the_apiserver() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        there.server.calls.clear()
        await lease.confirm()
        assert there.server.names() == [GET]


async def test_who_lost_the_lease_hears_so() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        there.held_by("rival")
        with pytest.raises(LeadershipLost):
            await lease.confirm()
        assert lease.lost.is_set()
        with pytest.raises(LeadershipLost):
            await lease.confirm()


async def test_a_question_without_an_answer_is_asked_again() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        there.server.refuses(GET, 503, times=2)
        await finishes(lease.confirm())
        assert lease.held


async def test_many_who_come_while_a_question_is_under_way_share_the_next_one() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        there.server.calls.clear()
        gate = there.server.holds_back(GET)
        first = asyncio.create_task(lease.confirm())
        await there.server.until(lambda: len(there.server.calls) == 1)
        others = [asyncio.create_task(lease.confirm()) for _ in range(50)]
        await asyncio.sleep(0)
        gate.set()
        await finishes(asyncio.gather(first, *others))
        assert len(there.server.calls) == 2


async def test_an_answer_to_an_earlier_question_is_never_taken_for_a_later_one() -> None:
    """However questions overlap: once a rival has the lease, whoever asks after that hears no."""
    async with arena() as there:
        lease, server = there.lease(), there.server
        await lease.acquire()
        server.calls.clear()
        gates = [
            server.holds_back(GET) for _ in range(3)
        ]  # each answer is what stood there when it was asked
        earlier = [asyncio.create_task(lease.confirm())]
        await server.until(lambda: len(server.calls) == 1)
        earlier.append(asyncio.create_task(lease.confirm()))
        await asyncio.sleep(0)
        gates[0].set()
        await server.until(lambda: len(server.calls) == 2)
        earlier.append(asyncio.create_task(lease.confirm()))
        await asyncio.sleep(0.05)
        there.held_by("rival")
        late = asyncio.create_task(lease.confirm())
        await asyncio.sleep(0)
        for gate in gates:
            gate.set()
        with pytest.raises(LeadershipLost):
            await late
        await asyncio.gather(*earlier, return_exceptions=True)


async def test_a_caller_that_goes_away_takes_no_answer_from_the_others() -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        gate = there.server.holds_back(GET)
        impatient = asyncio.create_task(lease.confirm())
        await there.server.until(lambda: there.server.names().count(GET) >= 2)
        patient = asyncio.create_task(lease.confirm())
        await asyncio.sleep(0)
        impatient.cancel()
        gate.set()
        await finishes(patient)


async def test_who_was_told_lately_need_not_ask_and_who_was_stopped_for_long_does() -> None:
    async with arena() as there:
        lease = there.lease(seconds=15)
        await lease.acquire()
        await lease.confirm()
        there.server.calls.clear()
        there.clock.pass_(14)
        await lease.ensure()
        assert there.server.names() == []
        there.clock.pass_(2)
        await lease.ensure()
        assert there.server.names() == [GET]
        there.held_by("rival")
        there.clock.pass_(16)
        with pytest.raises(LeadershipLost):
            await lease.ensure()


# -- counting ------------------------------------------------------------------------------------------------------


async def test_terms_go_on_where_a_lease_cannot_count_any_further() -> None:
    """Its field has 32 bits, and a hand may write into it, or into a record, whatever fits there."""
    async with arena() as there:
        there.held_by("", term=2**31 - 1)
        lease = there.lease()
        await lease.acquire()
        assert (lease.term, there.spec["leaseTransitions"]) == (2**31, 2**31 - 1)
        await lease.count_from(3_000_000_000)
        assert (lease.term, there.spec["leaseTransitions"]) == (3_000_000_000, 2**31 - 1)
        assert there.server.names().count(PUT) == 1, "nothing was left to say"


async def test_a_question_that_fails_in_a_way_that_nobody_thought_of_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with arena() as there:
        lease = there.lease()
        await lease.acquire()
        get, failures = there.client.get, [RuntimeError("an empty token")]

        async def fails_once(path: str) -> Any:
            if failures:
                raise failures.pop()
            return await get(path)

        monkeypatch.setattr(there.client, "get", fails_once)
        await finishes(lease.confirm())
        assert not failures
