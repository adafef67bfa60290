"""What people read about a gang: the PodGroup's status, the pods' PodScheduled condition, events.

Reports follow the state, not the happenings: a gang that something happened to is marked, and a moment later what is
true *then* is written, if it differs from what stands there. A gang that is placed within that moment never reads that
it was waiting, and nothing is written once nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from alnair.api import names, podgroup
from alnair.control.events import Events, Regarding
from alnair.control.gangs import MEMBER_FAILED, Gang, Group, Roster
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.client import STRATEGIC_PATCH
from alnair.kube.clock import Clock
from alnair.kube.lull import Lull
from alnair.ledger.records import Member, Record
from alnair.scheduling.words import count, memory, sentence
from alnair.state.holding import Holding
from alnair.state.inventory import Inventory
from alnair.state.inventory.changes import TROUBLES, changes
from alnair.state.pods import Pod

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.2
REWORD_SECONDS = 5.0  # a refusal that only found other words is rewritten at most this often
ASSEMBLING_SECONDS = 2.0
LONGEST_MESSAGE = 2000
PODS_TOLD = 16  # of one record, when their cards fail
ENDS = (podgroup.FINISHED, podgroup.FAILED)


class Reports:
    """Mark from anywhere; `run` writes while leading."""

    def __init__(self, client: Client, *, events: Events, roster: Roster, clock: Clock, lull: Lull) -> None:
        self._client = client
        self._events = events
        self._roster = roster
        self._clock = clock
        self._lull = lull
        self._marked: dict[object, Gang] = {}
        self._wake = asyncio.Event()
        self._told: dict[str, tuple[str, str, float]] = {}  # pod UID -> (reason, message, when)
        # Node -> what was told last -> (the node's UID, the problems).
        self._node_problems: defaultdict[str, dict[str, tuple[str, tuple[str, ...]]]] = defaultdict(dict)

    # -- happenings ----------------------------------------------------------------------------------------------

    def gang_changed(self, gang: Gang) -> None:
        self._marked[gang.key] = gang
        self._wake.set()

    def gang_scheduled(self, gang: Gang, record: Record) -> None:
        if gang.group is not None:
            nodes = len({member.holding.node for member in record.members.values()})
            bound = count(len(record.members), "member")
            note = f"{bound} bound on {count(nodes, 'node')}, recorded in {record.key[1]}"
            self._events.say(_about_group(gang.group), reason="Scheduled", note=note, action="Binding")

    def gang_timed_out(self, gang: Gang, seconds: float) -> None:
        if gang.group is not None:
            note = f"not scheduled within {seconds:g} s; still trying. {sentence(gang.refusal)}"
            self._events.say(
                _about_group(gang.group), reason="Timeout", note=note, action="Scheduling", warning=True
            )
        self.gang_changed(gang)

    def gang_rolled_back(self, gang: Gang, why: str) -> None:
        if gang.group is not None:
            self._events.say(
                _about_group(gang.group),
                reason="RolledBack",
                note=sentence(why),
                action="Binding",
                warning=True,
            )
        self.gang_changed(gang)

    def gang_resized(self, gang: Gang, before: int | None, size: int, why: str) -> None:
        if gang.group is not None and before is not None and before != size:
            reason = "Grown" if size > before else "Shrunk"
            note = f"{before} to {count(size, 'member')}: {why}"
            self._events.say(_about_group(gang.group), reason=reason, note=note, action="Sizing")
        self.gang_changed(gang)

    def gang_told(self, gang: Gang, reason: str, note: str) -> None:
        """Something that its author should know."""
        if gang.group is not None:
            self._events.say(
                _about_group(gang.group), reason=reason, note=note, action="Sizing", warning=True
            )

    def pod_scheduled(self, pod: Pod, holding: Holding) -> None:
        self._told.pop(pod.uid, None)
        self._events.say(
            about_pod(pod),
            reason="Scheduled",
            note=f"bound to {holding.node}{_cards(holding)}",
            action="Binding",
        )

    def rule_failed(self, gang: Gang, why: str) -> None:
        """A third party's rule is broken, and the profile's fallback places the gang."""
        if not gang.pods:
            return
        about = about_pod(gang.first()) if gang.group is None else _about_group(gang.group)
        note = f"{why}; placed by the fallback of profile {gang.scheduler}"
        self._events.say(about, reason="RuleFailed", note=note, action="Scheduling", warning=True)

    def pod_refused(self, pod: Pod, seconds: float) -> None:
        refused = f"the kubelet of {pod.node} refused the pod ({pod.reason})"
        note = f"{refused}; its like keep off that node for {seconds:g} s"
        self._events.say(about_pod(pod), reason="KubeletRefused", note=note, action="Binding", warning=True)

    def reading_problems(self, name: str, uid: str, problems: tuple[str, ...]) -> None:
        """What cannot be read of its profiler's readings."""
        self.node_problems(name, uid, "readings", problems, reason="InvalidReading")

    def node_problems(
        self,
        name: str,
        uid: str,
        source: str,
        problems: tuple[str, ...],
        *,
        reason: str = "InvalidTopology",
    ) -> None:
        """What cannot be read of a node: said when it changes, not every time that it is read."""
        told = self._node_problems[name]
        if told.get(source, (uid, ())) == (uid, problems):
            return
        told[source] = (uid, problems)
        for problem in problems:
            about = Regarding("v1", "Node", name, uid)
            self._events.say(about, reason=reason, note=problem, action="ReadingCards", warning=True)

    def node_cards(self, name: str, uid: str, before: Inventory, now: Inventory) -> None:
        for reason, note in changes(before, now):
            self._events.say(
                Regarding("v1", "Node", name, uid),
                reason=reason,
                note=note,
                action="ReadingCards",
                warning=reason in TROUBLES,
            )

    def cards_changed(self, record: Record, condition: dict[str, Any], concerned: list[Member]) -> None:
        """What became of cards that a record holds: on the record, and on the pods that hold them."""
        namespace, name = record.key
        pods = [Regarding("v1", "Pod", pod.name, pod.uid, namespace) for pod in concerned[:PODS_TOLD]]
        for about in (
            Regarding(names.API_ALLOCATION, names.KIND_ALLOCATION, name, record.uid, namespace),
            *pods,
        ):
            self._events.say(
                about,
                reason=condition["reason"],
                note=condition["message"],
                action="ReadingCards",
                warning=condition["status"] != "True",
            )

    # -- writing -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async def report(gang: Gang) -> None:
            async with self._lull.errand():
                try:
                    await self._report(gang)
                except Refused as refused:
                    log.info("gang %s: not reported: %s", gang, refused)
                except Unanswered as error:
                    log.warning("gang %s: not reported, trying again: %s", gang, error)
                    self._later(gang, REWORD_SECONDS)
                except Exception:
                    log.exception(
                        "gang %s: reporting failed", gang
                    )  # one gang's trouble stops nobody's report

        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            marked, self._marked = self._marked, {}
            await asyncio.gather(*(report(gang) for gang in marked.values()))

    def _later(self, gang: Gang, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.gang_changed, gang)

    async def _report(self, gang: Gang) -> None:
        if not gang.busy and gang.refusal_reason == "WaitingForMembers":
            # Members are created one after another: that most of them are not there yet is no news for a while.
            wait = gang.refused_since + ASSEMBLING_SECONDS - self._clock.now()
            if wait > 0:
                self._later(gang, wait)
                return
        if gang.group is not None:
            await self._write_status(gang, gang.group)
        if gang.refusal and not gang.busy:
            waiting = gang.waiting()
            if gang.group is not None and waiting and gang.refusal_reason != "WaitingForMembers":
                self._events.say(
                    _about_group(gang.group),
                    reason="Unschedulable",
                    note=sentence(gang.refusal),
                    action="Scheduling",
                    warning=True,
                )
            for pod in waiting:
                if not _still_waits(gang, pod):
                    break  # it found its place while we were telling the others that it has none
                try:
                    await self._tell_pod(gang, pod)
                except Refused as refused:
                    log.info("pod %s: not told: %s", pod, refused)
                    if refused.status == 409:
                        # It was changed, and its event may say nothing that is news to us.
                        self._later(gang, REWORD_SECONDS)

    async def tell(self, gang: Gang) -> None:
        """Write the group's status now, for what must not be forgotten. If that cannot be done, it is done later."""
        try:
            if gang.group is not None:
                await self._write_status(gang, gang.group)
        except (Refused, Unanswered) as error:
            log.warning("gang %s: not told at once: %s", gang, error)

    async def _write_status(self, gang: Gang, group: Group) -> None:
        wanted = status_of(gang, group, now=self._clock.stamp())
        changed = {key: value for key, value in wanted.items() if group.status.get(key) != _stored(value)}
        if not changed:
            return
        now = self._clock.now()
        if _only_words(changed, group.status):
            wait = gang.reported_at + REWORD_SECONDS - now
            if wait > 0:
                self._later(gang, wait)
                return
        gang.reported_at = now
        path = f"/apis/{names.API_PODGROUP}/namespaces/{group.namespace}/{names.PLURAL_PODGROUP}/{group.name}/status"
        written = await self._client.patch(path, {"metadata": {"uid": group.uid}, "status": changed})
        group.status = written.get("status") or {}

    async def _tell_pod(self, gang: Gang, pod: Pod) -> None:
        """The pod's own condition (the cluster autoscaler reads it) and an event."""
        reason, message = gang.refusal_reason, sentence(gang.refusal)[:LONGEST_MESSAGE]
        before, now = self._told.get(pod.uid), self._clock.now()
        if before is not None and before[:2] == (reason, message):
            return
        if before is not None and before[0] == reason and now - before[2] < REWORD_SECONDS:
            self._later(gang, REWORD_SECONDS - (now - before[2]))
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            # Autoscalers look for exactly this word.
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": self._clock.stamp(),
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        # The version too: a pod that is being bound at this moment must not be told that it waits.
        metadata = {"uid": pod.uid, "resourceVersion": pod.version}
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        written = await self._client.patch(path, body, kind=STRATEGIC_PATCH)
        pod.version = written["metadata"]["resourceVersion"]
        if self._roster.gang_of(pod.uid) is not None:  # else it left meanwhile, and nobody would forget it
            self._told[pod.uid] = (reason, message, now)
        if reason != "WaitingForMembers":
            self._events.say(
                about_pod(pod), reason="FailedScheduling", note=message, action="Scheduling", warning=True
            )

    def forget_pod(self, uid: str) -> None:
        self._told.pop(uid, None)

    def forget_node(self, name: str) -> None:
        self._node_problems.pop(name, None)


# -- what a status says ------------------------------------------------------------------------------------------


def status_of(gang: Gang, group: Group, *, now: str) -> dict[str, Any]:
    """The PodGroup's status for what is true now; times of conditions that did not change are kept."""
    pods = list(gang.pods.values())
    bound = sum(bool(pod.node) and not pod.terminal for pod in pods)
    running = sum(pod.phase == "Running" for pod in pods)
    succeeded = sum(pod.phase == "Succeeded" for pod in pods)
    failed = sum(pod.phase == "Failed" for pod in pods)
    phase = phase_of(
        gang, least=group.min_member, bound=bound, running=running, succeeded=succeeded, failed=failed
    )
    status: dict[str, Any] = {
        "phase": phase,
        "members": len(pods),
        "scheduled": bound,
        "running": running,
        "succeeded": succeeded,
        "failed": failed,
        "observedGeneration": group.generation,
        "conditions": _conditions(gang, group, placed=bound + succeeded, now=now),
    }
    if gang.restarts:
        status["restarts"], status["restartedAt"] = gang.restarts, gang.restarted_stamp
    if gang.sizing is not None and group.elastic is not None:
        if not pods:
            gang.sizing.has_no_pods()
        status["elastic"] = gang.sizing.status(group.elastic, size=bound)
    elif "elastic" in group.status and group.elastic is None:
        status["elastic"] = None  # it was once
    start = group.status.get("scheduleStartTime") or (now if gang.ready_since is not None or bound else None)
    if start:
        status["scheduleStartTime"] = start
    return status


def phase_of(gang: Gang, *, least: int, bound: int, running: int, succeeded: int, failed: int) -> str:
    if not gang.pods and gang.group is not None and gang.group.status.get("phase") in ENDS:
        return str(gang.group.status["phase"])  # its pods were cleaned up after it had ended
    if gang.failed:
        return podgroup.FAILED
    if not bound and succeeded >= least:
        return podgroup.FINISHED
    if not bound and failed and not gang.waiting():
        return podgroup.FAILED
    if running + succeeded >= least:
        return podgroup.RUNNING
    if bound + succeeded >= least:
        return podgroup.SCHEDULED
    if gang.busy or gang.short_since is not None:
        return podgroup.SCHEDULING
    if bound:
        return podgroup.UNKNOWN  # it was whole once, and part of it is gone
    return podgroup.PENDING


def _conditions(gang: Gang, group: Group, *, placed: int, now: str) -> list[dict[str, Any]]:
    refusal = "" if gang.busy else gang.refusal
    if gang.failed:
        status, reason, message = "False", MEMBER_FAILED, gang.failed
    elif not gang.pods:
        if group.status.get("phase") in ENDS:
            return list(group.status.get("conditions") or [])
        status, reason = "False", "WaitingForMembers"
        message = f"waiting for members: 0 of at least {group.min_member} pods exist"
    elif placed >= group.min_member:
        waiting = len(gang.waiting())
        rest = f"; {count(waiting, 'member')} still without a place: {refusal}" if refusal and waiting else ""
        status, reason, message = "True", "Scheduled", f"{count(placed, 'member')} bound or done{rest}"
    elif gang.busy:
        status, reason, message = "False", "Scheduling", "a place was found and is being taken"
    elif gang.short_since is not None:
        status, reason, message = (
            "False",
            "WaitingForReplacements",
            f"{placed} of {group.min_member} members are bound; the places of lost members are kept for replacements",
        )
    elif gang.timed_out:
        status, reason, message = (
            "False",
            "Timeout",
            f"not scheduled within {group.timeout_seconds} s. {sentence(refusal)}",
        )
    elif refusal:
        status, reason, message = "False", gang.refusal_reason, refusal
    else:
        status, reason, message = "Unknown", "Queued", "waiting for its turn"
    condition = {
        "type": "Scheduled",
        "status": status,
        "reason": reason,
        "message": sentence(message)[:LONGEST_MESSAGE],
        "observedGeneration": group.generation,
    }
    before = [each for each in group.status.get("conditions") or [] if isinstance(each, dict)]
    same = next(
        (each for each in before if each.get("type") == "Scheduled" and each.get("status") == status), None
    )
    condition["lastTransitionTime"] = same["lastTransitionTime"] if same else now
    return [each for each in before if each.get("type") != "Scheduled"] + [condition]


def _stored(value: object) -> object:
    """As it comes back: what is None is not there."""
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if each is not None}
    return value


WORDS = frozenset({"reason", "message"})


def _only_words(changed: dict[str, Any], before: dict[str, Any]) -> bool:
    """Nothing is told that was not so before. Why an elastic gang has no more members may change with every pod of
    others that comes or goes."""

    def numbers(elastic: object) -> dict[str, Any]:
        each = elastic if isinstance(elastic, dict) else {}
        return {key: each[key] for key in each.keys() - WORDS if each[key] is not None}

    return (
        changed.keys() <= {"conditions", "elastic"}
        and ("elastic" not in changed or numbers(changed["elastic"]) == numbers(before.get("elastic")))
        and (
            "conditions" not in changed
            or _same_but_for_words(before.get("conditions"), changed["conditions"])
        )
    )


def _same_but_for_words(before: object, after: Iterable[dict[str, Any]]) -> bool:
    def bones(conditions: object) -> list[object]:
        return [(c.get("type"), c.get("status"), c.get("reason")) for c in conditions or ()]  # type: ignore[attr-defined]

    return bones(before) == bones(after)


def _still_waits(gang: Gang, pod: Pod) -> bool:
    return pod.waiting and not gang.busy


def about_pod(pod: Pod) -> Regarding:
    return Regarding("v1", "Pod", pod.name, pod.uid, pod.namespace)


def _about_group(group: Group) -> Regarding:
    return Regarding(names.API_PODGROUP, names.KIND_PODGROUP, group.name, group.uid, group.namespace)


def _cards(holding: Holding) -> str:
    if holding.counted:
        return f" with {count(holding.counted, 'whole GPU')} of its device plugin's choice"
    parts = [f"{'all' if use.whole else memory(use.memory_mib)} of {use.card}" for use in holding.footprint()]
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f": {', '.join(parts[:4])}{more}" if parts else ""
