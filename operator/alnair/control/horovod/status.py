"""A job's status, out of what is there: how many workers it has, wants and may have, why not more, how the launcher is.

That a launcher has ended is recorded here and nowhere else: from then on the job never starts again, whatever becomes
of the launcher's Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alnair.api.horovod import COMPLETE, FAILED, INVALID, READY
from alnair.control.horovod.discovery import live_workers
from alnair.control.horovod.job import Job, Manifest, finished
from alnair.control.horovod.plan import GROUP, LAUNCHER, Seen
from alnair.scheduling.words import sentence

WAITING, STARTING, RUNNING, SUCCEEDED = "Waiting", "Starting", "Running", "Succeeded"
LONGEST_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the job is not as it should be: a reason in one word, and in sentences."""

    reason: str
    message: str


def ending(seen: Seen) -> Trouble | None:
    """How the launcher ended, with Kubernetes' reason; None while it may still do something."""
    for condition in _launcher_status(seen).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in (COMPLETE, FAILED):
            said = condition.get("message") or ""
            reason = COMPLETE if condition["type"] == COMPLETE else condition.get("reason") or FAILED
            return Trouble(reason, said if condition["type"] == FAILED else "the launcher has ended well")
    return None


def status_of(job: Job, seen: Seen, trouble: Trouble | None, *, now: str) -> Manifest:
    """What the status is to say."""
    before, meta = job.manifest.get("status") or {}, job.manifest["metadata"]
    bounds, elastic = job.spec.workers_spec, seen.elastic()
    live, ended, over = len(live_workers(job, seen.pods)), ending(seen), finished(job.manifest)
    launcher = _launcher(seen, over)
    why_not_more = None if over or ended else elastic.get("message") or _refusal(seen)
    status: Manifest = {
        "availableReplicas": live,
        "wantedReplicas": 0 if over or ended else elastic.get("wants"),
        "workers": f"{live}/{bounds.min_replicas}-{bounds.max_replicas}",
        "launcher": launcher,
        "whyNotMore": why_not_more[:LONGEST_MESSAGE] if why_not_more else None,
        "completionTime": before.get("completionTime") or (now if ended else None),
        "observedGeneration": meta.get("generation"),
    }
    told = [_ready(job, live, launcher, trouble, why_not_more or "")]
    if ended and not over:
        how = COMPLETE if ended.reason == COMPLETE else FAILED
        told.append((how, "True", ended.reason, ended.message))
    status["conditions"] = _conditions(job.manifest, told, now=now)
    return {key: value for key, value in status.items() if value is not None}


def status_of_invalid(manifest: Manifest, problem: str, *, now: str) -> Manifest:
    """Of a job that cannot be read. What it says of its workers stays: they are left as they are."""
    told = [(READY, "False", INVALID, problem), (INVALID, "True", INVALID, problem)]
    return {
        **(manifest.get("status") or {}),
        "observedGeneration": manifest["metadata"].get("generation"),
        "conditions": _conditions(manifest, told, now=now),
    }


Told = tuple[str, str, str, str]  # type, status, reason, message


def _ready(job: Job, live: int, launcher: str, trouble: Trouble | None, why_not_more: str) -> Told:
    least, over = job.spec.workers_spec.min_replicas, finished(job.manifest)
    if launcher in (SUCCEEDED, FAILED):
        how = over or (COMPLETE if launcher == SUCCEEDED else FAILED)
        return READY, "False", how, "The launcher has ended."
    if trouble is not None:
        return READY, "False", trouble.reason, trouble.message
    if live < least:
        return READY, "False", "WaitingForWorkers", f"{live} of at least {least} workers run. {why_not_more}"
    if launcher != RUNNING:
        return READY, "False", "Starting", "The workers run, and the launcher is starting."
    return READY, "True", "Running", "The launcher and its workers run."


def _launcher(seen: Seen, over: str) -> str:
    ended = ending(seen)
    if over or ended is not None:
        how = over or (COMPLETE if ended is not None and ended.reason == COMPLETE else FAILED)
        return SUCCEEDED if how == COMPLETE else FAILED
    if LAUNCHER.name not in seen.children:
        return WAITING
    return RUNNING if _launcher_status(seen).get("ready") else STARTING


def _launcher_status(seen: Seen) -> Manifest:
    return (seen.children.get(LAUNCHER.name) or {}).get("status") or {}


def _refusal(seen: Seen) -> str:
    """Why the group has no place."""
    for condition in (seen.children.get(GROUP.name, {}).get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Scheduled" and condition.get("status") == "False":
            return str(condition.get("message") or "")
    return ""


def _conditions(manifest: Manifest, told: list[Told], *, now: str) -> list[dict[str, Any]]:
    """Those that are told, in the place of what they said before; Invalid is taken back when it is not told."""
    before = [
        each for each in (manifest.get("status") or {}).get("conditions") or () if isinstance(each, dict)
    ]
    known = {each.get("type"): each for each in before}
    if INVALID in known and all(kind != INVALID for kind, *_ in told):
        told = [*told, (INVALID, "False", "Valid", "The spec can be read.")]
    for kind, status, reason, message in told:
        same = known.get(kind, {}).get("status") == status
        known[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": sentence(message)[:LONGEST_MESSAGE],
            "observedGeneration": manifest["metadata"].get("generation", 0),
            "lastTransitionTime": known[kind]["lastTransitionTime"] if same else now,
        }
    return list(known.values())
