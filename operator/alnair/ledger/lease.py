"""Who the leader is, by one Lease object.

The client library's election is not used: under asyncio a network error leaves its leading task running, it has no
request time-out and no release. This one is small, and it is no fence by itself: a paused leader may believe in its
lease for a moment too long, and what stops it then is the compare-and-swap on every record (see ledger.writer).

Time is judged by our own clock only: a rival's lease has expired when *we* have seen it unchanged for its whole
duration. Clocks of two machines are never compared. A stand-by watches the lease, so that one that is given back is
taken at once, and one that expires at that very moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from alnair.api import names
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.clock import Clock, micro_stamp

log = logging.getLogger(__name__)

SHORTEST_LOOK, LONGEST_LOOK = (
    0.05,
    5.0,
)  # seconds until a stand-by reads the lease again, whatever a watch says
UNWATCHED_LOOK = 1.0  # where it cannot be watched
LAST_TRANSITION = 2**31 - 1  # that a Lease can tell; terms go on


class LeadershipLost(Exception):
    """Somebody else holds the lease. Every decision under way must be dropped, none may be written."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    namespace: str
    name: str
    identity: str
    duration_seconds: float = 15.0

    @property
    def collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"

    @property
    def renew_seconds(self) -> float:
        """How often the lease is renewed."""
        return self.duration_seconds / 3

    @property
    def try_seconds(self) -> float:
        """How long one try may take, so that another fits in before the lease has expired."""
        return max(self.renew_seconds, 2.0)


class Lease:
    """Acquire once, then run `keep`. `term` counts the holders; it grows with every change of holder.

    The Lease tells which schedulers its holder serves, for the next one, whose config may be another: pods of these may
    have Bindings under way that no record tells of. `serves`: those of the config as it is now.
    """

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        clock: Clock,
        *,
        serves: Callable[[], Iterable[str]] = frozenset,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._serves = serves
        self._tells: frozenset[str] = frozenset()  # what our next write says of it
        self.serving: frozenset[str] = frozenset()  # what the Lease said that we serve, when we took it
        self.served: frozenset[str] = frozenset()  # and that anybody served since this was last forgotten
        self._object: dict[str, Any] = {}
        self._seen: tuple[str, float] = ("", 0.0)  # (version of a rival's lease, when we first saw it)
        self._rivals_seconds = settings.duration_seconds
        self._complaint = ""  # said last, so that waiting for long does not fill the log
        self._unasked: asyncio.Future[None] | None = None  # a question that is wanted and not yet sent
        self._asking: asyncio.Task[None] | None = None
        self._heard = 0.0  # when we asked the question that was last answered with yes
        self.term = 0
        self.held = False
        self.lost = asyncio.Event()

    async def acquire(self) -> None:
        """Wait until the lease is ours."""
        while not await self._try():
            await self._until_it_changes()
        self.held = True
        self.served = _told(self._object)
        self.serving = frozenset(self._serves()) & self.served
        log.info("leading as %s, term %d", self._settings.identity, self.term)

    def forget_predecessors(self) -> None:
        """Nothing of theirs is under way any more: from the next write on the Lease tells of us alone."""
        self._tells = self.served = self.serving

    async def keep(self) -> None:
        """Renew until cancelled or lost. An apiserver that is away for long is waited for: while it is away nobody
        else can take the lease either, so when it is back and still names us, we have led all the time."""
        while self.held:
            await asyncio.sleep(self._settings.renew_seconds)
            while self.held:
                try:
                    self._object = await self._put(self._claim(self._object, self.term))
                    break
                except Unanswered as error:
                    log.warning("the lease could not be renewed: %s", error)
                    await asyncio.sleep(0.2)
                except Refused as error:
                    log.warning("the lease could not be renewed: %s", error)
                    await self._look()
                    await asyncio.sleep(0.2)

    async def count_from(self, least: int) -> None:
        """Terms go on from here, if they are lower: the Lease was deleted once, and counted anew."""
        self.term = max(self.term, least)  # first, so that no renewal on its way writes the old one again
        told = min(self.term, LAST_TRANSITION)
        while self.held and int((self._object.get("spec") or {}).get("leaseTransitions") or 0) < told:
            try:
                self._object = await self._put(self._claim(self._object, self.term))
            except (Refused, Unanswered) as error:
                log.warning("the term could not be raised to %d: %s", self.term, error)
                await self._look()
                await asyncio.sleep(0.2)
        if not self.held:
            raise LeadershipLost("this process no longer holds the lease")

    async def confirm(self) -> None:
        """Return once the apiserver has said, in answer to a question asked *after* this call, that we lead.

        Callers that come while a question is under way share the next one.
        """
        if self._unasked is None:
            self._unasked = asyncio.get_running_loop().create_future()
        answer = self._unasked
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="look at the lease")
        await asyncio.shield(answer)

    async def ensure(self) -> None:
        """Return at once if a lease that we were told of has not expired since, else `confirm`. For what no fence
        stops: who was stopped for long must not act on what it knew before."""
        if not self.held or self._clock.now() - self._heard > self._settings.duration_seconds:
            await self.confirm()

    async def release(self) -> None:
        """Hand over now rather than after the lease has expired."""
        if not self.held:
            return
        self.held = False
        try:
            lease = await self._client.get(self._settings.path)
            if lease["spec"].get("holderIdentity") == self._settings.identity:
                lease["spec"]["holderIdentity"] = ""
                await self._client.replace(self._settings.path, lease)
                log.info("the lease is released")
        except (Refused, Unanswered) as error:
            log.warning("the lease could not be released, it will expire: %s", error)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        try:
            try:
                lease = await self._client.get(self._settings.path)
            except Refused as refused:
                if refused.status != 404:
                    raise
                self._tells = frozenset(self._serves())
                self._object = await self._client.create(self._settings.collection, self._claim({}, 1))
                self.term = 1
                return True
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self._settings.identity:
                # An earlier try of ours whose answer got lost.
                self._object, self.term = lease, int(spec.get("leaseTransitions") or 0)
                return True
            if spec.get("holderIdentity") and not self._expired(lease):
                return False
            self._tells = _told(lease) | frozenset(self._serves())
            term = int(spec.get("leaseTransitions") or 0) + 1
            self._object = await self._put(self._claim(lease, term))
            self.term = term
            return True
        except (Refused, Unanswered) as error:
            if str(error) != self._complaint:
                log.warning("the lease is not ours yet: %s", error)
                self._complaint = str(error)
            return False

    async def _until_it_changes(self) -> None:
        """Until the apiserver tells of another version of the lease than the one we saw, or until that one expires."""
        version, since = self._seen
        left = since + self._rivals_seconds - self._clock.now()
        until_expiry = min(max(left, SHORTEST_LOOK), LONGEST_LOOK)
        params = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._settings.name}",
            "resourceVersion": version,
        }
        try:
            async with asyncio.timeout(until_expiry):
                if version:
                    watch = self._client.watch(
                        self._settings.collection, params=params, idle_seconds=LONGEST_LOOK
                    )
                    async with aclosing(watch):
                        async for _ in watch:
                            return
                await asyncio.sleep(min(UNWATCHED_LOOK, self._settings.renew_seconds / 2))
        except TimeoutError:
            pass
        except (Refused, Unanswered) as error:
            log.debug("the lease cannot be watched: %s", error)
            await asyncio.sleep(min(UNWATCHED_LOOK, self._settings.renew_seconds / 2, until_expiry))

    async def _put(self, lease: dict[str, Any]) -> dict[str, Any]:
        asked = self._clock.now()
        written = await self._client.replace(self._settings.path, lease, seconds=self._settings.try_seconds)
        self._heard = asked
        return written

    def _expired(self, lease: dict[str, Any]) -> bool:
        version = str(lease["metadata"].get("resourceVersion"))
        now = self._clock.now()
        if self._seen[0] != version:
            self._seen = (version, now)
        told = (lease.get("spec") or {}).get("leaseDurationSeconds")
        self._rivals_seconds = float(told or self._settings.duration_seconds)
        return now - self._seen[1] > self._rivals_seconds

    def _claim(self, lease: dict[str, Any], term: int) -> dict[str, Any]:
        before = lease.get("spec") or {}
        now = micro_stamp(self._clock.wall())
        ours = before.get("holderIdentity") == self._settings.identity
        metadata = lease.get("metadata") or {"name": self._settings.name}
        annotations = {**(metadata.get("annotations") or {}), names.SERVES: ",".join(sorted(self._tells))}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "annotations": annotations},
            "spec": {
                "holderIdentity": self._settings.identity,
                "leaseDurationSeconds": max(1, round(self._settings.duration_seconds)),
                "acquireTime": before.get("acquireTime", now) if ours else now,
                "renewTime": now,
                "leaseTransitions": min(term, LAST_TRANSITION),
            },
        }

    async def _ask(self) -> None:
        """Answer every question that is wanted; one that comes while we ask is asked anew."""
        while self._unasked is not None:
            answer, self._unasked = self._unasked, None
            await self._look()
            if self.held:
                answer.set_result(None)
            else:
                answer.set_exception(LeadershipLost("this process no longer holds the lease"))
                answer.exception()  # whoever asked may be gone; nobody has to fetch it

    async def _look(self) -> None:
        """Read the lease until the apiserver answers. Afterwards `held` is what it says.

        Only another holder, or no lease at all, is a loss: an apiserver that starts refuses everybody for a moment.
        """
        pause = 0.05
        while self.held:
            asked = self._clock.now()
            try:
                lease = await self._client.get(self._settings.path)
            except Refused as error:
                if error.status == 404:
                    self._lose("the lease was deleted")
                    return
                log.warning("the lease could not be read: %s", error)
            except Unanswered as error:
                log.warning("the lease could not be read: %s", error)
            except Exception:  # whoever asked holds a record's lock, and would for ever
                log.exception("the lease could not be read")
            else:
                holder = (lease.get("spec") or {}).get("holderIdentity")
                self._object = lease
                if holder == self._settings.identity:
                    self._heard = asked
                else:
                    self._lose(f"{holder!r} holds it")
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)

    def _lose(self, why: str) -> None:
        if self.held:
            log.error("leadership lost: %s", why)
        self.held = False
        self.lost.set()


def _told(lease: dict[str, Any]) -> frozenset[str]:
    """The schedulers that a Lease names."""
    text = ((lease.get("metadata") or {}).get("annotations") or {}).get(names.SERVES) or ""
    return frozenset(text.split(",")) - {""}
