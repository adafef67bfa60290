"""Which pods belong together.

A gang is a PodGroup with its pods, or a pod without a group. Pods join by label, in their own namespace, and only
pods of our scheduler names count: a group whose pods are another scheduler's is none of our business and is never
written to.

    waiting for members --enough pods--> in the queue --plan--> busy (committing, binding) --> placed
                                            ^   |                       |
                     something was freed    |   v                       | rolled back
                                            refused <-------------------+
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from alnair.api import names, podgroup
from alnair.api.nearness import Wish, wish_in
from alnair.api.peaks import Peak, peak_in
from alnair.api.quantity import shown
from alnair.control.elastic.sizing import Sizing
from alnair.ledger.records import Owner
from alnair.state.charges import guest
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass, with_peak

MOST_DROPPED = 4096

Key = tuple[str, str, str]  # namespace, kind, name of the group or UID of the pod


@dataclass(slots=True, eq=False)
class Group:
    """A PodGroup as its author wrote it. `problem` says what cannot be read."""

    namespace: str
    name: str
    uid: str
    generation: int
    created: str
    min_member: int = 1
    timeout_seconds: int = 0  # 0 = no limit
    wish: Wish | None = None  # where it is to be together
    peak: Peak | None = None  # what members used at most before
    elastic: podgroup.Elastic | None = None  # the number of its members is ours to decide
    on_member_failure: str = podgroup.REPLACE
    keep_place_seconds: int = podgroup.KEEP_PLACE_SECONDS
    restart_limit: int = podgroup.RESTART_LIMIT
    problem: str = ""
    failed: str = ""  # why it has failed for good, as its status says of this very spec
    status: dict[str, Any] = field(default_factory=dict)  # as it stands in the apiserver


def read_group(manifest: dict[str, Any]) -> Group:
    """Never raises: a group that cannot be read is a group with a problem."""
    meta = manifest["metadata"]
    group = Group(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        generation=int(meta.get("generation") or 0),
        created=meta.get("creationTimestamp") or "",
        status=manifest.get("status") or {},
        wish=annotated_wish(meta),
        peak=annotated_peak(meta),
    )
    try:
        spec = podgroup.PodGroupSpec.model_validate(manifest.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        group.problem = f"spec.{where}: {shown(first['input'])} is not valid: {first['msg']}"
        return group
    group.min_member = spec.least
    group.timeout_seconds = spec.schedule_timeout_seconds or 0
    group.on_member_failure = spec.on_member_failure or podgroup.REPLACE
    if spec.keep_place_seconds is not None:
        group.keep_place_seconds = spec.keep_place_seconds
    if spec.restart_limit is not None:
        group.restart_limit = spec.restart_limit
    group.failed = _failed_before(group)
    if (elastic := spec.elastic) is not None:
        group.elastic = elastic
        if elastic.min > elastic.max:
            group.problem = f"spec.elastic: min {elastic.min} exceeds max {elastic.max}"
        elif group.min_member > elastic.max:
            group.problem = f"spec.minMember: {group.min_member} exceeds elastic.max {elastic.max}"
        else:
            group.elastic = elastic.model_copy(update={"min": group.min_member})  # with fewer it never starts
    if (asked := spec.topology) is not None:
        if (asked.required is None) is (asked.preferred is None):
            group.problem = "spec.topology: exactly one of required and preferred must be given"
        elif asked.required is not None:
            group.wish = Wish(asked.required, required=True, field="spec.topology.required")
        elif asked.preferred is not None:
            group.wish = Wish(asked.preferred, required=False, field="spec.topology.preferred")
    return group


MEMBER_FAILED = "MemberFailed"  # the reason of the condition Scheduled, once the group has failed for good


def _failed_before(group: Group) -> str:
    """What a leader has written when it gave the group up; until the spec is another."""
    conditions = group.status.get("conditions")
    for each in conditions if isinstance(conditions, list) else []:
        if isinstance(each, dict) and each.get("type") == "Scheduled" and each.get("reason") == MEMBER_FAILED:
            same = each.get("observedGeneration") == group.generation
            return str(each.get("message") or "a member failed") if same else ""
    return ""


def annotated_wish(meta: dict[str, Any]) -> Wish | None:
    annotations = meta.get("annotations")
    return wish_in(annotations) if isinstance(annotations, dict) else None


def annotated_peak(meta: dict[str, Any]) -> Peak | None:
    annotations = meta.get("annotations")
    return peak_in(annotations) if isinstance(annotations, dict) else None


@dataclass(slots=True, eq=False)
class Gang:
    """Pods that start together. What is remembered here is lost at a restart and found again."""

    key: Key
    group: Group | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    busy: bool = False  # a plan of it is being carried out
    pondering: bool = False  # the exact search is at work on it
    pondered: int = 0  # times in a row that its answer came too late
    refused_at: int = 0  # the books' version when it was last found not to fit
    wanted: tuple[PodClass, ...] = ()  # one pod of each shape that was to be placed then
    minds_company: bool = False  # some rule about other pods had a say in it
    refusal: str = ""
    refusal_reason: str = ""
    refused_since: float = 0.0  # for this reason
    reported_at: float = -math.inf  # its group's status was written last
    others_word: dict[str, Any] | None = None  # a status of its group that was not ours, and was written over
    changes: int = 0  # of a lone pod between plan and bind
    refusals: int = 0  # times in a row that the apiserver refused its record or a Binding
    retry_after: float = 0.0  # not before this moment, for the same reason
    ready_since: float | None = None
    short_since: float | None = None
    timed_out: bool = False
    sizing: Sizing | None = None  # of an elastic gang
    lost: int = 0  # members that went from the whole gang, and may come back
    lost_at: float = 0.0  # the last of them
    restarts: int = 0  # because a member failed
    restarted_stamp: str = ""
    stopping: bool = False  # for one of these reasons, and it is not in the record yet
    given_up: str = ""  # why it is not placed any more

    @property
    def is_group(self) -> bool:
        return self.key[1] == names.KIND_PODGROUP

    @property
    def min_member(self) -> int:
        return self.group.min_member if self.group is not None else 1

    def waiting(self) -> list[Pod]:
        """To be placed, in order of creation; of a StatefulSet that may shrink, in the order in which they stay."""
        return sorted((pod for pod in self.pods.values() if pod.waiting), key=self._turn)

    def _turn(self, pod: Pod) -> tuple[int, str, str]:
        ordinal = pod.ordinal if self.elastic is not None else None
        return (ordinal, "", "") if ordinal is not None else (0, pod.created, pod.name)

    @property
    def elastic(self) -> podgroup.Elastic | None:
        return self.group.elastic if self.group is not None and not self.group.problem else None

    def present(self) -> list[Pod]:
        """Members that are there to stay: neither done nor going."""
        return [pod for pod in self.pods.values() if not (pod.terminal or pod.terminating)]

    def kind(self, pod: Pod) -> PodClass:
        """The pod as rules see it. What its like used: by its own word, else its group's, else its controller's."""
        seen = guest(pod)
        peak = (self.group.peak if self.group is not None else None) or pod.peak
        if peak is None or pod.shape.peak is not None:
            return seen
        return replace(seen, shape=with_peak(pod.shape, peak))

    def first(self) -> Pod:
        return min(self.pods.values(), key=lambda pod: (pod.created, pod.name))

    @property
    def scheduler(self) -> str:
        return self.first().scheduler

    @property
    def priority(self) -> int:
        return max((pod.priority for pod in self.pods.values()), default=0)

    @property
    def created(self) -> str:
        return self.group.created if self.group is not None else self.first().created

    @property
    def owner(self) -> Owner:
        if self.group is not None:
            return Owner(names.KIND_PODGROUP, self.group.namespace, self.group.name, self.group.uid)
        pod = self.first()
        return Owner("Pod", pod.namespace, pod.name, pod.uid)

    @property
    def needs_record(self) -> bool:
        """A lone pod without GPUs is bound atomically by itself; everything else is recorded."""
        return self.is_group or any(pod.shape.gpu.demands for pod in self.pods.values())

    @property
    def wish(self) -> Wish | None:
        """Where it is to be together: by its group, or else by whichever of its pods say so."""
        if self.group is not None and self.group.wish is not None:
            return self.group.wish
        return next((pod.wish for pod in self.pods.values() if pod.wish is not None), None)

    @property
    def failed(self) -> str:
        """Why it is not placed any more, whatever happens; empty if it is."""
        return self.given_up or (self.group.failed if self.group is not None else "")

    def problem(self) -> str:
        """Why this gang cannot even be tried; empty if it can."""
        if self.is_group and self.group is None:
            return (
                f"PodGroup {self.key[0]}/{self.key[2]} does not exist; create it, or remove the pods' label"
            )
        if self.group is not None and self.group.problem:
            return self.group.problem
        for pod in sorted(self.pods.values(), key=lambda pod: pod.name):
            if pod.waiting and (problem := pod.problem or pod.excess):
                return f"pod {pod.name}: {problem}"
        return self._discord() if self.group is None or self.group.wish is None else ""

    def _discord(self) -> str:
        """Pods that want to be together in different ways."""
        wishing = [pod for pod in self.pods.values() if pod.wish is not None and pod.waiting]
        other = next((pod for pod in wishing if pod.wish != wishing[0].wish), None)
        if other is None or other.wish is None or (first := wishing[0]).wish is None:
            return ""
        return (
            f"pod {other.name}: {other.wish.field}: {shown(other.wish.level)} is not what pod {first.name} asks for "
            f"({first.wish.field}: {shown(first.wish.level)}); a gang is in one place, so say the same on all its pods"
        )

    def observe_bind_time(self, now: float, observe: Callable[[float], None]) -> None:
        """All of it is bound: how long did that take?"""
        if self.ready_since is not None:
            observe(now - self.ready_since)
        self.ready_since, self.refusals = None, 0

    def owes_nothing(self) -> None:
        """Its group is gone: what befell that one is not charged to the next of its name."""
        self.lost, self.restarts, self.restarted_stamp = 0, 0, ""
        self.given_up, self.short_since, self.ready_since, self.retry_after = "", None, None, 0.0

    def __str__(self) -> str:
        name = self.key[2] if self.is_group else (self.first().name if self.pods else self.key[2])
        return f"{self.key[0]}/{name}"


def _asked(group: Group) -> tuple[str, int, Wish | None]:
    return group.uid, group.generation, group.wish


def _older(listed: Group, known: Group | None) -> bool:
    return known is not None and known.uid == listed.uid and listed.generation < known.generation


class Roster:
    """All gangs. `on_change` is called with every gang that something happened to, `on_status` where only the status of
    its group is another than we knew: a predecessor's that came late, or a hand's."""

    def __init__(
        self,
        schedulers: frozenset[str],
        *,
        on_change: Callable[[Gang], None],
        on_status: Callable[[Gang], None] = lambda gang: None,
    ) -> None:
        self.gangs: dict[Key, Gang] = {}
        self._groups: dict[tuple[str, str], Group] = {}
        self.schedulers = schedulers
        self._gang_of: dict[str, Gang] = {}
        self._dropped: OrderedDict[str, None] = OrderedDict()  # UIDs of groups deleted a while ago
        # Group UID -> its gang that has no pods now, and was stopped because a member failed.
        self._stopped: OrderedDict[str, Gang] = OrderedDict()
        self._on_change = on_change
        self._on_status = on_status

    def put_pod(self, pod: Pod) -> None:
        if pod.scheduler not in self.schedulers:
            self.drop_pod(pod.uid)  # its profile may have been taken out of the config
            return
        kind, name = (names.KIND_PODGROUP, pod.group) if pod.group else ("Pod", pod.uid)
        key = (pod.namespace, kind, name)
        gang = self.gangs.get(key)
        if gang is None:
            gang = self.gangs[key] = self._new(key, self._groups.get((pod.namespace, pod.group)))
        earlier = self._gang_of.get(pod.uid)
        if earlier is not None and earlier is not gang:
            self._leave(earlier, pod.uid)
        before = gang.pods.get(pod.uid)
        gang.pods[pod.uid] = pod
        self._gang_of[pod.uid] = gang
        if before is None or not before.says_the_same(pod):
            self._touch(gang)

    def _new(self, key: Key, group: Group | None) -> Gang:
        """All pods of a gang that starts anew may be gone for a moment: it is the same gang afterwards."""
        gang = Gang(key, group=group)
        before = self._stopped.pop(group.uid, None) if group is not None else None
        if group is not None and before is not None and before.group is not None:
            gang.restarts, gang.restarted_stamp = before.restarts, before.restarted_stamp
            gang.retry_after = before.retry_after
            gang.given_up = before.given_up if _asked(before.group) == _asked(group) else ""
        return gang

    def drop_pod(self, uid: str) -> None:
        gang = self._gang_of.pop(uid, None)
        if gang is not None:
            self._leave(gang, uid)

    def put_group(self, group: Group, *, listed: bool = False) -> None:
        """`listed`: from a list, which may be older than an event that was seen already."""
        before = self._groups.get((group.namespace, group.name))
        if listed and (group.uid in self._dropped or _older(group, before)):
            return
        self._groups[group.namespace, group.name] = group
        gang = self.gangs.get((group.namespace, names.KIND_PODGROUP, group.name))
        if gang is None:
            return
        if gang.group is not None and gang.group.uid != group.uid:
            gang.owes_nothing()
        gang.group = group
        # A status that we wrote ourselves is no reason to try again; annotations change without a new generation.
        if before is None or _asked(before) != _asked(group):
            gang.timed_out, gang.given_up = False, ""
            self._touch(gang)
        elif group.status not in (before.status, gang.others_word):
            gang.others_word = group.status  # who insists on it has the last word
            self._on_status(gang)

    def drop_group(self, namespace: str, name: str, uid: str) -> None:
        there = self._groups.get((namespace, name))
        if there is None or there.uid != uid:
            return
        del self._groups[namespace, name]
        self._dropped[uid] = None
        self._stopped.pop(uid, None)
        while len(self._dropped) > MOST_DROPPED:
            self._dropped.popitem(last=False)
        gang = self.gangs.get((namespace, names.KIND_PODGROUP, name))
        if gang is not None:
            gang.group = None
            gang.owes_nothing()
            self._touch(gang)

    def keep_groups(self, present: Iterable[tuple[str, str]], known: Iterable[Group]) -> None:
        """A fresh list has only these: of those known before it was made, the others were deleted unseen."""
        present = set(present)
        for group in known:
            if (group.namespace, group.name) not in present:
                self.drop_group(group.namespace, group.name, group.uid)

    def group(self, namespace: str, name: str) -> Group | None:
        """Of that name, whoever places its pods."""
        return self._groups.get((namespace, name))

    def of_group(self, group: Group) -> Gang | None:
        """The group with its pods, if it has any of ours."""
        return self.gangs.get((group.namespace, names.KIND_PODGROUP, group.name))

    def gang_of(self, uid: str) -> Gang | None:
        """That this pod belongs to."""
        return self._gang_of.get(uid)

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def _leave(self, gang: Gang, uid: str) -> None:
        gang.pods.pop(uid, None)
        self._touch(gang)
        if not (gang.pods or gang.busy or gang.pondering):
            self.forget(gang)

    def forget(self, gang: Gang) -> None:
        """Nothing of it is left."""
        if self.gangs.get(gang.key) is not gang:
            return
        del self.gangs[gang.key]
        if gang.group is not None and (gang.restarts or gang.given_up):
            gang.wanted, gang.others_word = (), None  # of it only how often it started is of use
            self._stopped[gang.group.uid] = gang
            while len(self._stopped) > MOST_DROPPED:
                self._stopped.popitem(last=False)

    def _touch(self, gang: Gang) -> None:
        self._on_change(gang)
