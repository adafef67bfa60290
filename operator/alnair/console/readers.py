"""Who may read the metrics where not only this host can ask for them: whom the apiserver says may.

The caller shows a bearer token. A TokenReview tells whose it is, and a SubjectAccessReview whether they may `get` the
nonResourceURL /metrics, as the control plane's own components ask before they show theirs. Verdicts are remembered for
a while, by a keyed hash of the token; callers who come meanwhile with the same token share one question.

What must never happen: that somebody is let in without a yes of the apiserver's (silence, an error, anything else than
a yes is none); that a token is kept, or written anywhere; that strangers hold up something else than each other, which
is why questions go by a client of their own, and few are asked about tokens that were never let in.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from alnair.api.text import one_line
from alnair.kube import Refused, Unanswered
from alnair.kube.clock import Clock

log = logging.getLogger(__name__)

WHO_THEY_ARE = "/apis/authentication.k8s.io/v1/tokenreviews"
WHAT_THEY_MAY = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PATH, VERB = "/metrics", "get"

LONGEST_TOKEN = 8 << 10
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
# As long as controllers commonly believe a yes and a no: a right that is taken away still counts for so long.
YES_SECONDS, NO_SECONDS = 60.0, 10.0
MOST_REMEMBERED = 256  # of each
REGULAR_SECONDS = 3600.0  # since the last yes, within which a reader does not stand in line with strangers
STRANGERS_AT_ONCE, STRANGERS_A_SECOND = (
    20,
    10.0,
)  # a Prometheus is one when it comes, and when its token is renewed
QUESTION_SECONDS = 8.0  # for both reviews, and less than Prometheus waits (10)

# How the apiserver is asked: `Client.create`.
Create = Callable[[str, object], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """As an HTTP status, and a sentence for whoever is not let in."""

    status: int
    why: str = ""

    @property
    def lets_in(self) -> bool:
        return self == LET_IN


LET_IN = Verdict(200)
NO_TOKEN = Verdict(401, "show a token of the cluster's: Authorization: Bearer TOKEN")
SEVERAL = Verdict(400, "there is more than one Authorization header")
TOO_LONG = Verdict(400, f"the token is longer than {LONGEST_TOKEN} bytes")
TOO_MANY = Verdict(503, "too many tokens are shown that nobody knows; try again")
NOBODY_SAYS = Verdict(
    503, "the apiserver does not say who you are, or what you may; the operator's log has why"
)


def token_of(authorizations: Sequence[str]) -> str | Verdict:
    """The token, or why there is nothing to ask about. The values of all Authorization headers are given."""
    if not authorizations:
        return NO_TOKEN
    if len(authorizations) > 1:
        return SEVERAL
    scheme, _, token = authorizations[0].partition(" ")
    token = token.strip(" ")
    if len(token) > LONGEST_TOKEN:
        return TOO_LONG
    if scheme.lower() != "bearer" or not TOKEN.fullmatch(token):
        return NO_TOKEN
    return token


class Memory:
    """Verdicts, each for the same time, so that the first one in is the first to go."""

    def __init__(self, clock: Clock, *, seconds: float, most: int = MOST_REMEMBERED) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._kept: dict[bytes, tuple[float, Verdict]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> Verdict | None:
        until, verdict = self._kept.get(key, (0.0, None))
        return verdict if self._clock.now() < until else None

    def put(self, key: bytes, verdict: Verdict) -> None:
        now = self._clock.now()
        self._kept.pop(key, None)
        self._kept[key] = (now + self._seconds, verdict)
        while len(self._kept) > self._most or next(iter(self._kept.values()))[0] <= now:
            del self._kept[next(iter(self._kept))]


class Allowance:
    """So many at once, and so many a second after that."""

    def __init__(self, clock: Clock, *, at_once: int, a_second: float) -> None:
        self._clock = clock
        self._most = float(at_once)
        self._a_second = a_second
        self._left = self._most
        self._counted = clock.now()

    def take(self) -> bool:
        now = self._clock.now()
        self._left = min(self._most, self._left + (now - self._counted) * self._a_second)
        self._counted = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Readers:
    """Judges by the apiserver's word. `close` ends the questions that are open."""

    def __init__(self, create: Create, *, clock: Clock, audiences: Sequence[str] = ()) -> None:
        """A token must be made for one of these audiences; for the apiserver's own, if none is given."""
        self._create = create
        self._audiences = list(audiences)
        self._salt = secrets.token_bytes(32)
        # Apart, so that a flood of nonsense does not make us forget who may come in.
        self._yes = Memory(clock, seconds=YES_SECONDS)
        self._no = Memory(clock, seconds=NO_SECONDS)
        self._regulars = Memory(clock, seconds=REGULAR_SECONDS)
        self._strangers = Allowance(clock, at_once=STRANGERS_AT_ONCE, a_second=STRANGERS_A_SECOND)
        self._open: dict[bytes, asyncio.Task[Verdict]] = {}
        self._complaint = ""

    async def judge(self, authorizations: Sequence[str]) -> Verdict:
        token = token_of(authorizations)
        if isinstance(token, Verdict):
            return token
        key = hashlib.blake2b(token.encode(), key=self._salt).digest()
        if known := self._yes.get(key) or self._no.get(key):
            return known
        question = self._open.get(key)
        if question is None:
            if not self._regulars.get(key) and not self._strangers.take():
                return TOO_MANY
            question = asyncio.create_task(self._ask(key, token), name="may they read the metrics")
            self._open[key] = question
            question.add_done_callback(lambda _: self._open.pop(key, None))
        # Whoever asked first may hang up; the others still want to know.
        return await asyncio.shield(question)

    async def close(self) -> None:
        questions = list(self._open.values())
        for each in questions:
            each.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    async def _ask(self, key: bytes, token: str) -> Verdict:
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                verdict = await self._review(token)
        except (Refused, Unanswered, TimeoutError) as error:
            if (said := str(error) or "no answer in time") != self._complaint:
                self._complaint = said
                log.warning("nobody can be let in to read the metrics: %s", said)
            return NOBODY_SAYS
        self._complaint = ""
        (self._yes if verdict.lets_in else self._no).put(key, verdict)
        if verdict.lets_in:
            self._regulars.put(key, verdict)
        return verdict

    async def _review(self, token: str) -> Verdict:
        wanted = {"audiences": self._audiences} if self._audiences else {}
        known = await self._status(WHO_THEY_ARE, "TokenReview", {"token": token, **wanted})
        user = known.get("user") or {}
        # An authenticator that knows no audiences says none, and has not looked at them.
        for_us = not self._audiences or bool(set(self._audiences) & set(known.get("audiences") or ()))
        if known.get("authenticated") is not True or not user.get("username") or not for_us:
            which = (
                f"for the audience {' or '.join(self._audiences)}"
                if self._audiences
                else "of the apiserver's"
            )
            return Verdict(
                401, f"the apiserver does not know this token, or it has expired, or it is none {which}"
            )
        asked = {
            "user": user["username"],
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": PATH, "verb": VERB},
        }
        right = await self._status(WHAT_THEY_MAY, "SubjectAccessReview", asked)
        if right.get("allowed") is not True or right.get("denied"):
            return Verdict(
                403,
                f"{one_line(user['username'], most=256)} needs {VERB} on the nonResourceURL {PATH}: bind a ClusterRole "
                "that has it, such as the chart's, whose name ends in :metrics-reader",
            )
        return LET_IN

    async def _status(self, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        version = path.removeprefix("/apis/").rpartition("/")[0]
        answer = await self._create(path, {"apiVersion": version, "kind": kind, "spec": spec})
        status = answer.get("status")
        return status if isinstance(status, dict) else {}
