"""Carrying a new size out: the record first, then the target's replicas.

    grow    places committed -> replicas raised -> pods come and take the places (the loop's business)
    shrink  size committed -> replicas lowered -> pods go -> slices released (the ledger's business)

What must never happen: replicas raised for members whose places are not committed, or a number written over one that
somebody set meanwhile. The target is read, judged and written with the version that was read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alnair.api import names
from alnair.api.config import Elastic as Settings
from alnair.api.podgroup import Elastic
from alnair.control.elastic import sizing as words
from alnair.control.elastic.scale import NoTarget, Scaler
from alnair.control.elastic.sizing import Sizing
from alnair.control.gangs import Gang
from alnair.control.metrics import Metrics
from alnair.control.reports import Reports
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.clock import Clock
from alnair.ledger import places as ledgered
from alnair.ledger.errors import CommitRefused, RecordMoved
from alnair.ledger.lease import LeadershipLost
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import Member, Place, Record

log = logging.getLogger(__name__)

TRIES, PAUSE = 5, 0.3
CHEAP = "-1000000"  # to delete


@dataclass(frozen=True, slots=True)
class Change:
    """`places` are taken for members to come, `leaving` are the members that go. `ours`: a decision of ours, which is
    not undone at once; else a hand's, or one that was forced on us."""

    size: int
    why: str
    places: Sequence[Place] = ()
    leaving: Sequence[Member] = ()
    ours: bool = True


class Carrier:
    """One change of one gang at a time: `sizing.changing` is set by whoever starts it and reset here."""

    def __init__(
        self,
        client: Client,
        *,
        ledger: Ledger,
        reports: Reports,
        metrics: Metrics,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._client = client
        self._scaler = Scaler(client)
        self._ledger = ledger
        self._reports = reports
        self._metrics = metrics
        self._clock = clock
        self.settings = settings

    async def read(self, gang: Gang, elastic: Elastic, sizing: Sizing) -> None:
        """How many replicas the target has."""
        try:
            scale = await self._scaler.read(gang.key[0], elastic.target_ref, _labelled(gang))
            sizing.replicas = scale.replicas
            if sizing.reason == words.TARGET_REFUSED:
                sizing.failures, sizing.retry_after = 0, words.LONG_AGO
        except NoTarget as error:
            sizing.failed(words.TARGET_REFUSED, str(error), clock=self._clock)
            self._reports.gang_changed(gang)
        except Unanswered as error:
            log.warning("gang %s: its target could not be read: %s", gang, error)
        finally:
            sizing.reading, sizing.read_at = False, self._clock.now()

    async def change(
        self,
        gang: Gang,
        elastic: Elastic,
        sizing: Sizing,
        record: Record,
        change: Change,
    ) -> None:
        size, before = change.size, record.size
        try:
            await ledgered.write_size(self._ledger, record, size, change.places)
            sizing.landed = False
            if change.ours and before is not None:
                sizing.changed(grown=size > before, clock=self._clock, settings=self.settings)
            await self._set_costs(gang, change.leaving)
            if await self._push(gang, elastic, sizing, size):
                self._reports.gang_resized(gang, before, size, change.why)
                if before is not None and before != size:
                    self._metrics.resizes.labels("grown" if size > before else "shrunk").inc()
        except RecordMoved:
            pass  # it ends, or starts anew
        except CommitRefused as error:
            sizing.failed(words.TARGET_REFUSED, f"the record was refused: {error}", clock=self._clock)
        except NoTarget as error:
            sizing.failed(words.TARGET_REFUSED, str(error), clock=self._clock)
            await self._take_back(record, change.places, before)
        finally:
            sizing.changing = False
            self._reports.gang_changed(gang)

    async def push(self, gang: Gang, elastic: Elastic, sizing: Sizing, replicas: int) -> None:
        """Only the replicas: the record says so already, or there is none yet."""
        try:
            await self._push(gang, elastic, sizing, replicas)
        except NoTarget as error:
            sizing.failed(words.TARGET_REFUSED, str(error), clock=self._clock)
        finally:
            sizing.changing = False
            self._reports.gang_changed(gang)

    async def give_up(
        self, gang: Gang, elastic: Elastic, sizing: Sizing, record: Record, size: int, over: list[str]
    ) -> None:
        """Pods do not come to these places: fewer replicas first, so that none can come any more, then the places."""
        why = f"{len(over)} of its pods did not come within {self.settings.place_seconds:g} s"
        sizing.failed(words.PODS_DO_NOT_COME, f"{why}; is a quota in the way?", clock=self._clock)
        await self.change(gang, elastic, sizing, record, Change(size, why, ours=False))
        await ledgered.release(self._ledger, record, over)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _push(self, gang: Gang, elastic: Elastic, sizing: Sizing, wanted: int) -> bool:
        """False: a hand was faster, and is to be judged first."""
        for _ in range(TRIES):
            if not self._ledger.lease.held:
                raise LeadershipLost("this process no longer holds the lease")
            try:
                scale = await self._scaler.read(gang.key[0], elastic.target_ref, _labelled(gang))
                expected = {sizing.replicas, wanted}
                if scale.replicas not in expected:
                    sizing.replicas, sizing.read_at = scale.replicas, self._clock.now()
                    return False
                if scale.replicas != wanted:
                    written = await self._scaler.write(elastic.target_ref, scale, wanted)
                    if written is None:
                        await asyncio.sleep(PAUSE)
                        continue
                    sizing.took_effect(clock=self._clock, settings=self.settings)
                sizing.replicas, sizing.read_at, sizing.landed = wanted, self._clock.now(), True
                return True
            except Unanswered as error:
                log.warning("gang %s: its target could not be scaled, trying again: %s", gang, error)
                await asyncio.sleep(PAUSE)
        return False

    async def _take_back(self, record: Record, places: Sequence[Place], size: int | None) -> None:
        """The target cannot be scaled: nobody comes to these places."""
        try:
            if size is not None:
                await ledgered.write_size(self._ledger, record, size)
            await ledgered.release(self._ledger, record, [place.key for place in places])
        except (CommitRefused, RecordMoved) as error:
            log.info("record %s: %s", record, error)  # its places go with it, or in their time

    async def _set_costs(self, gang: Gang, leaving: Sequence[Member]) -> None:
        """Tell a ReplicaSet who is to leave. A wish: if it goes unheard, others leave, and that is all."""
        for member in leaving:
            pod = gang.pods.get(member.uid)
            if pod is None or pod.ordinal is not None:
                continue
            body = {"metadata": {"uid": member.uid, "annotations": {names.DELETION_COST: CHEAP}}}
            try:
                await self._client.patch(f"/api/v1/namespaces/{gang.key[0]}/pods/{member.name}", body)
            except (Refused, Unanswered) as error:
                log.info("pod %s: its deletion cost was not set: %s", pod, error)


def _labelled(gang: Gang) -> list[tuple[str, Mapping[str, str]]]:
    return [(pod.name, pod.labels) for pod in gang.present()]
