"""Who may read the metrics: what is asked, what is remembered, and that nothing but a yes lets in.

The apiserver's side is played here, for what it is asked and how often; the real one judges in
tests/cluster/test_metrics_door.py.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from alnair.console import readers as module
from alnair.console.readers import (
    LONGEST_TOKEN,
    NO_SECONDS,
    STRANGERS_A_SECOND,
    STRANGERS_AT_ONCE,
    WHAT_THEY_MAY,
    WHO_THEY_ARE,
    YES_SECONDS,
    Memory,
    Readers,
    Verdict,
    token_of,
)
from alnair.kube import Refused, Unanswered
from unit.builders import HandClock

USER = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}
KNOWN = {"authenticated": True, "user": USER}
ALLOWED = {"allowed": True}
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwcm9tZXRoZXVzIn0.c2lnbmF0dXJl"
SHOWN = [f"Bearer {TOKEN}"]


class Apiserver:
    """Says what it is told to, and notes what it was asked."""

    def __init__(self, review: Any = KNOWN, access: Any = ALLOWED) -> None:
        self.says: dict[str, Any] = {WHO_THEY_ARE: review, WHAT_THEY_MAY: access}
        self.asked: list[tuple[str, Any]] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def create(self, path: str, body: object) -> dict[str, Any]:
        self.asked.append((path, body))
        self.was_asked.set()
        await self.may_answer.wait()
        said = self.says[path]
        if isinstance(said, Exception):
            raise said
        return {"status": said}

    def times(self) -> int:
        return sum(path == WHO_THEY_ARE for path, _ in self.asked)


def readers(apiserver: Apiserver, clock: HandClock | None = None, *audiences: str) -> Readers:
    return Readers(apiserver.create, clock=clock or HandClock(), audiences=audiences)


@pytest.mark.parametrize(
    "shown",
    [
        [f"Bearer {TOKEN}"],
        [f"bearer {TOKEN}"],
        [f"BEARER   {TOKEN} "],
    ],
)
def test_a_bearer_token_is_read(shown: list[str]) -> None:
    assert token_of(shown) == TOKEN


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ([], 401),
        ([""], 401),
        (["Bearer"], 401),
        (["Bearer "], 401),
        ([TOKEN], 401),
        ([f"Basic {TOKEN}"], 401),
        ([f"Bearer {TOKEN} {TOKEN}"], 401),
        ([f"Bearer {TOKEN}, Bearer {TOKEN}"], 401),
        (["Bearer tökén"], 401),
        (["Bearer a\x00b"], 401),
        (["Bearer \udcff"], 401),
        (["Bearer ="], 401),
        ([f"Bearer {TOKEN}", f"Bearer {TOKEN}"], 400),
        ([f"Bearer {TOKEN}", ""], 400),
        (["Bearer " + "x" * (LONGEST_TOKEN + 1)], 400),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_what_is_no_token_is_refused_without_asking(shown: list[str], status: int) -> None:
    apiserver = Apiserver()
    verdict = await readers(apiserver).judge(shown)
    assert (verdict.status, verdict.lets_in, apiserver.asked) == (status, False, [])
    assert TOKEN not in verdict.why


async def test_the_longest_token_is_asked_about() -> None:
    apiserver = Apiserver()
    assert (await readers(apiserver).judge(["Bearer " + "x" * LONGEST_TOKEN])).lets_in
    assert apiserver.times() == 1


async def test_the_apiserver_is_asked_whose_the_token_is_and_what_they_may() -> None:
    apiserver = Apiserver()
    assert (await readers(apiserver).judge(SHOWN)).lets_in
    (path, review), (other, access) = apiserver.asked
    assert (path, other) == (WHO_THEY_ARE, WHAT_THEY_MAY)
    assert (review["apiVersion"], review["kind"]) == ("authentication.k8s.io/v1", "TokenReview")
    assert review["spec"] == {"token": TOKEN}
    assert (access["apiVersion"], access["kind"]) == ("authorization.k8s.io/v1", "SubjectAccessReview")
    assert access["spec"] == {
        "user": USER["username"],
        "uid": USER["uid"],
        "groups": USER["groups"],
        "extra": USER["extra"],
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    "review",
    [
        {},
        None,
        {"authenticated": False, "user": USER},
        {"authenticated": "true", "user": USER},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"error": "token has expired"},
    ],
    ids=str,
)
async def test_a_token_that_nobody_vouches_for_is_unknown(review: Any) -> None:
    apiserver = Apiserver(review=review)
    verdict = await readers(apiserver).judge(SHOWN)
    assert verdict.status == 401
    assert [path for path, _ in apiserver.asked] == [WHO_THEY_ARE], "what nobody may is not asked"


@pytest.mark.parametrize(
    "access", [{}, None, {"allowed": False}, {"allowed": 1}, {"allowed": True, "denied": True}], ids=str
)
async def test_who_may_not_is_told_what_is_missing(access: Any) -> None:
    verdict = await readers(Apiserver(access=access)).judge(SHOWN)
    assert verdict.status == 403
    assert verdict.why.startswith(
        f"{USER['username']} needs get on the nonResourceURL /metrics: bind a ClusterRole"
    )


@pytest.mark.parametrize(
    ("said", "lets_in"),
    [(["other", "metrics"], True), (["other"], False), ([], False), (None, False)],
)
async def test_a_token_must_be_for_one_of_our_audiences_and_the_apiserver_must_have_looked(
    said: list[str] | None, lets_in: bool
) -> None:
    apiserver = Apiserver(review={**KNOWN, "audiences": said})
    verdict = await readers(apiserver, None, "metrics", "more").judge(SHOWN)
    assert apiserver.asked[0][1]["spec"]["audiences"] == ["metrics", "more"]
    assert (verdict.lets_in, verdict.status) == (lets_in, 200 if lets_in else 401)
    assert lets_in or "metrics or more" in verdict.why


@pytest.mark.parametrize(
    ("review", "access", "status", "seconds"),
    [(KNOWN, ALLOWED, 200, YES_SECONDS), (KNOWN, {}, 403, NO_SECONDS), ({}, ALLOWED, 401, NO_SECONDS)],
)
async def test_a_verdict_holds_for_its_time_and_no_longer(
    review: Any, access: Any, status: int, seconds: float
) -> None:
    apiserver, clock = Apiserver(review, access), HandClock()
    judging = readers(apiserver, clock)
    assert (await judging.judge(SHOWN)).status == status
    clock.pass_(seconds - 0.5)
    assert (await judging.judge(SHOWN)).status == status
    assert apiserver.times() == 1
    clock.pass_(0.5)
    apiserver.says = {WHO_THEY_ARE: Unanswered(call="POST", why="down"), WHAT_THEY_MAY: ALLOWED}
    assert (await judging.judge(SHOWN)).status == 503, "a yes that is over is no yes"
    assert apiserver.times() == 2


@pytest.mark.parametrize("path", [WHO_THEY_ARE, WHAT_THEY_MAY])
@pytest.mark.parametrize(
    "error",
    [
        Unanswered(call="POST x", why="503"),
        Refused(call="POST x", status=403, reason="Forbidden", message="the operator may not ask"),
        Refused(call="POST x", status=401, reason="Unauthorized", message="nor is it known"),
    ],
    ids=repr,
)
async def test_no_answer_is_no_yes_and_is_not_remembered(
    path: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    apiserver = Apiserver()
    apiserver.says[path] = error
    judging = readers(apiserver)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert (await judging.judge(SHOWN)).status == 503
    assert len(caplog.records) == 1, "the same complaint is written once"
    assert TOKEN not in caplog.text
    apiserver.says[path] = KNOWN if path == WHO_THEY_ARE else ALLOWED
    assert (await judging.judge(SHOWN)).lets_in


async def test_silence_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUESTION_SECONDS", 0.01)
    apiserver = Apiserver()
    apiserver.may_answer.clear()
    assert (await readers(apiserver).judge(SHOWN)).status == 503


async def test_callers_with_one_token_share_one_question_even_if_the_first_hangs_up() -> None:
    apiserver = Apiserver()
    apiserver.may_answer.clear()
    judging = readers(apiserver)
    first, *others = [asyncio.create_task(judging.judge(SHOWN)) for _ in range(5)]
    await apiserver.was_asked.wait()
    first.cancel()
    apiserver.may_answer.set()
    assert [verdict.status for verdict in await asyncio.gather(*others)] == [200] * 4
    assert apiserver.times() == 1


async def test_a_flood_of_strangers_is_asked_about_a_few_at_a_time_and_shuts_out_no_regular() -> None:
    apiserver, clock = Apiserver(), HandClock()
    judging = readers(apiserver, clock)
    assert (await judging.judge(SHOWN)).lets_in
    apiserver.says[WHO_THEY_ARE] = {}

    async def flood(name: str) -> list[int]:
        shown = ([f"Bearer {name}{number}"] for number in range(100))
        verdicts = await asyncio.gather(*map(judging.judge, shown))
        return [sum(verdict.status == status for verdict in verdicts) for status in (401, 503)]

    assert await flood("a") == [STRANGERS_AT_ONCE - 1, 101 - STRANGERS_AT_ONCE]
    clock.pass_(YES_SECONDS)
    assert await flood("b") == [STRANGERS_AT_ONCE, 100 - STRANGERS_AT_ONCE]
    assert await flood("c") == [0, 100]
    apiserver.says[WHO_THEY_ARE] = KNOWN
    assert (await judging.judge(SHOWN)).lets_in, "its yes was over, and it is asked about all the same"
    assert (await judging.judge(["Bearer newcomer"])).status == 503
    clock.pass_(1.5 / STRANGERS_A_SECOND)
    assert (await judging.judge(["Bearer newcomer"])).lets_in


async def test_closing_ends_the_questions_that_are_open() -> None:
    apiserver = Apiserver()
    apiserver.may_answer.clear()
    judging = readers(apiserver)
    waiting = asyncio.create_task(judging.judge(SHOWN))
    await apiserver.was_asked.wait()
    await judging.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_token_itself_is_kept_nowhere() -> None:
    judging = readers(Apiserver())
    await judging.judge(SHOWN)
    assert len(judging._yes) == 1
    assert TOKEN not in repr(vars(judging)) + repr(vars(judging._yes)) + repr(vars(judging._no))


def test_memory_is_bounded_and_forgets_what_is_over_first() -> None:
    clock = HandClock()
    memory = Memory(clock, seconds=10, most=3)
    for number in range(5):
        memory.put(bytes([number]), Verdict(400 + number))
        clock.pass_(1)
    assert [memory.get(bytes([number])) for number in range(5)] == [
        *(None, None),
        *(Verdict(402), Verdict(403), Verdict(404)),
    ]
    clock.pass_(8)  # 402 and 403 are over
    memory.put(b"new", Verdict(200))
    assert len(memory) == 2
    assert (memory.get(b"\x04"), memory.get(b"new")) == (Verdict(404), Verdict(200))


def test_what_is_put_again_is_as_new() -> None:
    clock = HandClock()
    memory = Memory(clock, seconds=10, most=2)
    memory.put(b"a", Verdict(401))
    memory.put(b"b", Verdict(401))
    memory.put(b"a", Verdict(403))
    memory.put(b"c", Verdict(401))
    assert (memory.get(b"a"), memory.get(b"b")) == (Verdict(403), None)
