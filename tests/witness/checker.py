"""The judge of a history: rebuilds who holds what, revision by revision, and says where a promise is broken.

Pure: it is told changes in the order of their revisions (`see`), and has no clock, no wire and no reading or arithmetic
of the product's. What it checks, always about the state that one revision left behind:

over_allocations, whenever a record gives a pod, or keeps for a member to come, more of a card than it did
(`_judge_cards`):
    all records together take no more of the card than its memory, 100 per cent and its slots; a whole card has one
    holder; the card was there, on that node, and healthy. The card is taken as the best that it was within the last
    GRACE seconds, for that long the operator may not have heard of a change. What a card loses later is no violation.
    Whenever a pod is bound to a node that advertises nvidia.com/gpu, or a record promises cards of it: what its bound
    pods ask for and what is promised to others is no more. A record that was created with a plan when somebody else
    led already promises nothing, and nobody may be bound by it (decision 9).
mismatches
    a pod is bound only if one record, committed at an earlier revision, lists it with the same UID, node and cards
    as its annotations (`_judge_bind`); a member of a gang that needs several, only by its gang's record; the exceptions
    are a lone pod without GPUs, and a lone pod of a device plugin's cards, whose record may follow within LATE
    seconds (decision 6);
    it was given what it asked for, and a pod that can never be served is never bound;
    its containers' environment, resolved as a kubelet does it, names exactly its cards (with `delivering`);
    while it lives, bound, the record goes on saying so (`_judge_entry`), and so do the annotations; one that was
    deleted by force where the kubelet is out of reach counts as living until the node is ready or gone (`reach`), and
    one that terminates lives;
    it is bound once, and never anywhere else; no pod is in two records; an epoch never goes back.
half_gangs
    a gang's first commit has at least minMember pods (an elastic one's its least), places for members to come included;
    at rest, a gang of which anybody is bound has had that many bound since its record came to be.
leaks
    a record does not hold a place for a pod that is gone, or was never there, for longer than RELEASE seconds, and does
    not stay for so long when nobody is left whom it could be for (`kin`); at rest, not at all.
noises
    where all is at rest, nothing is written. Of that, and of gangs at rest, it knows by whoever tells it (`rests`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import replace
from typing import Final

from witness import delivered, requests, uses
from witness.counted import Counted
from witness.findings import HALF_GANG, LEAK, MISMATCH, NOISE, OVER_ALLOCATION, Finding
from witness.kin import Kin
from witness.reach import Reach
from witness.seen import PLACE, Pod, Record, read_least, read_node, read_pod, read_record
from witness.truth import Cards
from witness.uses import Given, Use
from witness.words import GROUPS, LEASES, NEVER, PODS, RECORDS, Change

GRACE: Final = 5.0
LATE: Final = 120.0
RELEASE: Final = 300.0


class Checker:
    """Tell it every change; `findings` is what is wrong so far."""

    def __init__(self, schedulers: frozenset[str], *, delivering: bool = False) -> None:
        self.findings: list[Finding] = []
        self.bound_kinds: Counter[str] = Counter()
        self.drawn_kinds: Counter[str] = Counter()
        self.servable_kinds: Counter[str] = Counter()
        """Of those drawn, the pods that something can be given to."""
        self.longest_release = 0.0
        self.latest_use = 0.0
        """The longest that a card was out of use when something was still given of it, and forgiven."""
        self.forgiven = 0
        self._schedulers = schedulers
        self._delivering = delivering
        self._cards = Cards()
        self._terms: dict[str, int] = {}  # Lease, as records name it -> the term that it tells
        self._void: set[str] = set()  # UIDs of records that were created with a plan in another's term
        self._groups: dict[str, list[tuple[float, int]]] = {}  # UID -> since when it needs how many
        self._named: dict[str, str] = {}  # group that is there -> its UID
        self._pods: dict[str, Pod] = {}  # by key
        self._living: dict[str, Pod] = {}  # by UID
        self._counted = Counted()
        self._records: dict[str, Record] = {}
        self._entries: dict[str, dict[str, Given]] = {}  # UID -> record -> what it says
        self._entered: dict[str, int] = {}  # UID -> revision at which a record began to say that
        self._begun: dict[str, float] = {}  # UID of a record -> when it first listed a pod
        self._takers: dict[str, dict[str, Use]] = {}  # physical card -> UID -> what it takes of it
        self._taken: dict[str, set[str]] = {}  # UID -> physical cards
        self._gone: dict[str, float] = {}  # UID in a record whose pod is gone -> since
        self._late: dict[str, float] = {}  # UID of a bound pod whose record is due -> since
        self._left: dict[str, dict[str, float]] = {}  # group -> UID of a member that counted -> when it went
        self._reach = Reach()
        self._kin = Kin()
        self._once_bound: dict[
            str, set[str]
        ] = {}  # UID of a record -> UIDs that were bound while it listed them
        self._resting: set[str] = set()  # namespaces
        self._last = Change(0, 0.0, LEASES, "", None)
        self._known: set[str] = set()
        self._unanswered: set[str] = set()

    @property
    def pods_seen(self) -> int:
        return len(self._known)

    @property
    def unanswered(self) -> int:
        """Living pods of ours that are neither bound nor told why not."""
        return len(self._unanswered)

    def see(self, change: Change) -> None:
        self._last = change
        if change.kind in (PODS, RECORDS, GROUPS) and change.key.partition("/")[0] in self._resting:
            what = f"{change.kind} {change.key} is written, where nothing was left to do"
            self._say(NOISE, change, what, change.key)
        match change.kind:
            case "pods":
                self._see_pod(change)
            case "gpuallocations":
                self._see_record(change)
            case "nodes":
                self._cards.node(change.key, change.object, change.at)
                node = read_node(change.object)
                self._counted.node(change.key, node, change.at)
                for uid in self._reach.node(change.key, node, change.at):
                    self._counted.freed(uid)
                    if uid in self._entries:
                        self._gone.setdefault(uid, change.at)
            case "leases":
                told = ((change.object or {}).get("spec") or {}).get("leaseTransitions") or 0
                self._terms[change.key.replace("/", ".")] = told
            case "noderesourcetopologies":
                self._cards.topology(change.key, change.object, change.at)
            case "podgroups" if change.object is None:
                self._named.pop(change.key, None)
            case "podgroups" if change.object is not None:
                uid = self._named[change.key] = change.object["metadata"]["uid"]
                self._groups.setdefault(uid, []).append((change.at, read_least(change.object["spec"])))
        self._look_at_the_clock(change)

    # -- rest ----------------------------------------------------------------------------------------------------

    def rests(self, namespace: str) -> None:
        """All that was begun there has come to its end: nothing may be half done, and nothing may be written."""
        self._resting.add(namespace)
        for key, record in self._records.items():
            if not key.startswith(f"{namespace}/"):
                continue
            bound = {uid for uid in record.entries if (pod := self._living.get(uid)) is not None and pod.node}
            once = self._once_bound.get(record.uid, set())
            needed = self._needed_at_rest(record, once)
            if record.group and bound and len(once) < needed:
                what = f"{len(once)} of the {needed} that {key} needs were ever bound, at rest"
                self._say(HALF_GANG, self._last, what, key)
            for uid in sorted(record.entries.keys() - self._living.keys()):
                if not self._reach.held(uid):
                    self._say(LEAK, self._last, f"{key} still lists pod {uid}, which is gone, at rest", key)
        for key in self._kin.deserted():
            if key.startswith(f"{namespace}/"):
                self._say(LEAK, self._last, f"{key} is there at rest, and nobody whom it is for", key)

    def stirs(self, namespace: str) -> None:
        """Something new is about to happen there."""
        self._resting.discard(namespace)

    # -- pods ----------------------------------------------------------------------------------------------------

    def _see_pod(self, change: Change) -> None:
        before = self._pods.pop(change.key, None)
        after = read_pod(change.object, self._schedulers)
        if before is not None and _counts(before) and (after is None or not _counts(after)):
            self._left.setdefault(before.group, {})[before.uid] = change.at
        if before is not None and (after is None or after.uid != before.uid or not after.living):
            vanished = before.living and (after is None or after.uid != before.uid)
            self._ended(before, change.at, vanished=vanished)
        if after is None:
            return
        self._pods[change.key] = after
        if after.uid not in self._known:
            self._known.add(after.uid)
            self.drawn_kinds[after.kind] += 1
            self.servable_kinds[after.kind] += after.asks != NEVER
        was = before if before is not None and before.uid == after.uid else None
        if was is not None and was.node and after.node != was.node:
            what = f"{after} was bound to {was.node}, and is now bound to {after.node or 'nothing'}"
            self._say(MISMATCH, change, what, str(after))
        if not after.living:
            return
        self._living[after.uid] = after
        self._gone.pop(after.uid, None)
        if was is not None and was.group != after.group:
            self._kin.went(was.uid, was.group, change.at)
        self._kin.came(after.uid, after.group)
        if after.answered or not after.ours:
            self._unanswered.discard(after.uid)
        else:
            self._unanswered.add(after.uid)
        if after.node and (was is None or not was.node):
            self._judge_bind(after, change)
        elif was is not None and was.node == after.node != "" and _says(was) != _says(after):
            self._say(MISMATCH, change, f"the annotations of bound pod {after} changed", str(after))

    def _ended(self, pod: Pod, at: float, *, vanished: bool) -> None:
        """`vanished`: it was deleted, and never said to have ended."""
        self._living.pop(pod.uid, None)
        self._unanswered.discard(pod.uid)
        self._late.pop(pod.uid, None)
        self._kin.went(pod.uid, pod.group, at)
        if pod.uid in self._entries:
            if vanished and pod.node and self._reach.lost(pod.uid, pod.node, since=at - GRACE):
                return
            self._gone.setdefault(pod.uid, at)
        self._counted.ended(pod)

    def _judge_bind(self, pod: Pod, change: Change) -> None:
        self._counted.bound(pod, change.at)
        if not pod.ours:
            return
        self.bound_kinds[pod.kind] += 1
        if pod.given is None or pod.given.node != pod.node or pod.card_list != ",".join(pod.given.cards):
            self._say(
                MISMATCH, change, f"{pod} is bound to {pod.node}, its annotations say otherwise", str(pod)
            )
            return
        entries = self._entries.get(pod.uid, {})
        for record in entries:
            self._once_bound.setdefault(self._records[record].uid, set()).add(pod.uid)
        if entries:
            self._compare(pod, entries, change)
        elif not pod.group and not pod.given.parts:
            if pod.given.counts:
                self._late[pod.uid] = change.at
        else:
            self._say(MISMATCH, change, f"{pod} is bound and stands in no record", str(pod))
        self._judge_request(pod, pod.given, change)
        if self._delivering and (wrong := delivered.differs(pod.told, pod.given)):
            self._say(MISMATCH, change, f"{pod} is not told its cards: {wrong}", str(pod))
        if pod.whole_cards:
            self._judge_counts(pod.node, change, str(pod))

    def _compare(self, pod: Pod, entries: dict[str, Given], change: Change) -> None:
        if len(entries) > 1:
            self._say(MISMATCH, change, f"{pod} stands in {len(entries)} records", str(pod), *entries)
        for record, entry in entries.items():
            if entry != pod.given:
                what = f"{pod} has {pod.given} in its annotations, the record says {entry}"
                self._say(MISMATCH, change, what, str(pod), record)
            if not self._records[record].committed or self._entered[pod.uid] >= change.revision:
                what = f"{pod} is bound, and {record} was not committed before"
                self._say(MISMATCH, change, what, str(pod), record)
            group = self._records[record].group
            if group != pod.group and any(self._needs_several(each, change) for each in (group, pod.group)):
                what = f"{pod} of {pod.group or 'no group'} is bound by {record}, a record of {group or 'its own'}"
                self._say(MISMATCH, change, what, str(pod), record)

    def _needs_several(self, group: str, change: Change) -> bool:
        needs = self._groups.get(self._named.get(group, ""), [])
        return _fewest(needs, since=change.at - GRACE, otherwise=1) > 1

    def _judge_request(self, pod: Pod, held: Given, change: Change) -> None:
        if pod.asks == NEVER:
            self._say(MISMATCH, change, f"{pod} can never be served, and is bound", str(pod))
        elif pod.asks:
            since = change.at - GRACE
            wrong = requests.differs(
                requests.asked(pod.asks),
                held,
                lambda card: self._cards.lately(held.node, card, since=since),
            )
            if wrong:
                self._say(MISMATCH, change, f"{pod} was not given what it asked for: {wrong}", str(pod))

    def _judge_counts(self, node: str, change: Change, of: str) -> None:
        if wrong := self._counted.too_many(node, self._living, since=change.at - GRACE):
            self._say(OVER_ALLOCATION, change, wrong, of, node)

    # -- records -------------------------------------------------------------------------------------------------

    def _see_record(self, change: Change) -> None:
        before = self._records.pop(change.key, None) or Record()
        after = self._in_force(read_record(change.object), before)
        if change.object is not None:
            self._records[change.key] = after
        if before.uid == after.uid and after.epoch < before.epoch:
            what = f"the epoch of {change.key} goes back from {before.epoch} to {after.epoch}"
            self._say(MISMATCH, change, what, change.key)
        if after.entries and (not before.held or after.uid not in self._begun):
            self._judge_gang(after, change)
            self._begun.setdefault(after.uid, change.at)
        if change.object is None or after.held:
            self._kin.filled(change.key)
        else:
            self._kin.emptied(change.key, after.of, change.at)
        more: dict[str, set[str]] = {}  # physical card -> UIDs that are given more of it
        then, now = before.held, after.held
        for uid in then.keys() | now.keys():
            if then.get(uid) != now.get(uid):
                self._change_entry(uid, now.get(uid), change, more)
        for card in sorted(more):
            if not self._only_kept(card, more[card], then, now):
                self._judge_cards(card, more[card], change)
        for node in sorted({each.node for uid, each in now.items() if each.counts and then.get(uid) != each}):
            self._judge_counts(node, change, change.key)

    def _in_force(self, record: Record, before: Record) -> Record:
        """Without the plan that it was created with, if that came too late."""
        if (
            record.by_creation
            and record.uid != before.uid
            and record.epoch < self._terms.get(record.instance, 0)
        ):
            self._void.add(record.uid)
        if record.by_creation and record.uid in self._void:
            return replace(record, committed=False, entries={}, places={})
        return record

    def _change_entry(self, uid: str, entry: Given | None, change: Change, more: dict[str, set[str]]) -> None:
        entries = self._entries.setdefault(uid, {})
        entries.pop(change.key, None)
        if entry is not None:
            entries[change.key] = entry
            self._entered[uid] = change.revision
            if uid not in self._living and not uid.startswith(PLACE) and not self._reach.held(uid):
                self._gone.setdefault(uid, change.at)
        if not entries:
            del self._entries[uid]
            self._entered.pop(uid, None)
            if (node := self._reach.let_go(uid)) is not None:
                what = f"pod {uid} is released; it was deleted by force on {node}, which is not ready"
                self._say(MISMATCH, change, what, change.key, uid)
                self._counted.freed(uid)
            since = self._gone.pop(uid, change.at)
            self.longest_release = max(self.longest_release, change.at - since)
        for card in self._take(uid, entries):
            more.setdefault(card, set()).add(uid)
        self._counted.promise(uid, entries.values())
        if entry is not None:
            for card in uses.conflicts(uses.renamed(entry, self._cards.physical)):
                what = f"card {card} is given out twice within pod {uid}"
                self._say(OVER_ALLOCATION, change, what, change.key, uid)
            if len(entries) > 1:
                self._say(MISMATCH, change, f"pod {uid} stands in {len(entries)} records", *entries)
        self._judge_entry(uid, entry, change)

    def _take(self, uid: str, entries: dict[str, Given]) -> set[str]:
        """Write down what the pod takes of each card; returns the cards of which it takes more than before."""
        takes: dict[str, Use] = {}
        for entry in entries.values():
            for card, use in uses.uses(uses.renamed(entry, self._cards.physical)).items():
                takes[card] = uses.together(takes.get(card, uses.NOTHING), use)
        more = set()
        for card in self._taken.pop(uid, set()) - takes.keys():
            del self._takers[card][uid]
        if takes:
            self._taken[uid] = set(takes)
        for card, use in takes.items():
            takers = self._takers.setdefault(card, {})
            was = takers.get(uid, uses.NOTHING)
            if any(now > then for now, then in zip(use, was, strict=True)):
                more.add(card)
            takers[uid] = use
        return more

    def _judge_entry(self, uid: str, entry: Given | None, change: Change) -> None:
        """A record changed what it says of this pod."""
        pod = self._living.get(uid)
        if entry is not None and self._reach.held(uid):
            what = f"the record changes what it says of pod {uid}, which may still run out of reach"
            self._say(MISMATCH, change, what, change.key, uid)
        if pod is None or not pod.node or not pod.ours:
            return
        if entry is not None:
            self._late.pop(uid, None)
            self._once_bound.setdefault(self._records[change.key].uid, set()).add(uid)
            if entry != pod.given:
                what = f"the record says {entry} of bound {pod}, its annotations {pod.given}"
                self._say(MISMATCH, change, what, change.key, str(pod))
        elif uid not in self._entries:
            what = f"the record lets go of {pod}, which is bound to {pod.node} and lives"
            self._say(MISMATCH, change, what, change.key, str(pod))

    def _judge_gang(self, record: Record, change: Change) -> None:
        """Its first pods are enough of them; those that are done, or in an earlier group's record, count too, and so
        does one that went within the last GRACE seconds, of which the operator may not have heard."""
        needed = self._needed(record, since=change.at - GRACE)
        if record.min_member < needed:
            needed -= self._count_outside(record, record.entries.keys(), since=change.at - GRACE)
        if record.min_member < needed or len(record.held) < record.min_member:
            what = f"{change.key} commits {len(record.held)} pods of a gang that needs {needed}"
            self._say(HALF_GANG, change, f"{what} and says {record.min_member}", change.key)

    def _needed(self, record: Record, *, since: float) -> int:
        """The fewest that its group needed at some time since then."""
        return _fewest(self._groups.get(record.owner, []), since=since, otherwise=record.min_member)

    def _needed_at_rest(self, record: Record, once: set[str]) -> int:
        """What the group needs by now, or what the record says if that is fewer. But it may not say fewer than its
        group ever needed since the commit, unless for those of the gang that are outside it."""
        needed = self._needed(record, since=self._last.at)
        if record.min_member >= needed:
            return needed
        since = self._begun.get(record.uid, self._last.at) - GRACE
        outside = self._count_outside(record, record.entries.keys() | once, since=since)
        return max(record.min_member, self._needed(record, since=since) - outside)

    def _count_outside(self, record: Record, inside: Set[str], *, since: float) -> int:
        """Of its gang, those who are done or have their place elsewhere, or went since then."""
        there = sum(
            pod.group == record.group
            and pod.uid not in inside
            and (_counts(pod) or (pod.uid in self._entries and not pod.terminating))
            for pod in self._pods.values()
        )
        left = self._left.get(record.group, {})
        return there + sum(uid not in inside and at > since for uid, at in left.items())

    def _only_kept(self, card: str, gained: set[str], then: dict[str, Given], now: dict[str, Given]) -> bool:
        """What its pods had of the card is kept for others to come, and no more: nothing is given by that."""
        if not all(uid.startswith(PLACE) for uid in gained):
            return False
        before, after = (
            [
                use
                for held in each.values()
                for name, use in uses.uses(uses.renamed(held, self._cards.physical)).items()
                if name == card
            ]
            for each in (then, now)
        )
        return all(
            sum(use[at] for use in after) <= sum(use[at] for use in before) for at in range(len(uses.NOTHING))
        )

    def _judge_cards(self, card: str, gained: set[str], change: Change) -> None:
        """A record gives more of this card than before: is there so much?"""
        takers = self._takers[card]
        for uid in sorted(gained):
            names_of_it = {
                (entry.node, name)
                for entry in self._entries[uid].values()
                for name in entry.cards
                if self._cards.physical(name) == card
            }
            for node, name in sorted(names_of_it):
                self._judge_card(node, name, takers, change)

    def _judge_card(self, node: str, name: str, takers: dict[str, Use], change: Change) -> None:
        there = self._cards.lately(node, name, since=change.at - GRACE)
        if (since := self._cards.out_of_use_since(node, name)) is not None and there.usable:
            self.latest_use = max(self.latest_use, change.at - since)
            self.forgiven += 1
        total = Use(
            sum(use.memory_mib for use in takers.values()),
            sum(use.compute_percent for use in takers.values()),
            sum(use.slots for use in takers.values()),
            any(use.whole for use in takers.values()),
        )
        wrong = []
        if not there.usable:
            wrong.append("it is unknown there, or not healthy")
        elif total.memory_mib > there.memory_mib:
            wrong.append(f"{total.memory_mib} MiB are given, it has {there.memory_mib}")
        if total.compute_percent > 100:
            wrong.append(f"{total.compute_percent} per cent of its compute are given")
        if there.usable and total.slots > there.slots:
            wrong.append(f"{total.slots} sharers, it has {there.slots} slots")
        if total.whole and len(takers) > 1:
            wrong.append(f"it is somebody's whole card, and {len(takers)} pods have it")
        for what in wrong:
            holders = sorted(record for uid in takers for record in self._entries.get(uid, {}))
            self._say(OVER_ALLOCATION, change, f"card {name} of {node}: {what}", change.key, *holders[:8])

    # -- time ----------------------------------------------------------------------------------------------------

    def _look_at_the_clock(self, change: Change) -> None:
        while self._late and change.at - (since := next(iter(self._late.values()))) > LATE:
            uid = next(iter(self._late))
            del self._late[uid]
            what = f"pod {uid} is bound for {change.at - since:.0f} s and stands in no record"
            self._say(MISMATCH, change, what, uid)
        while self._gone and change.at - (since := next(iter(self._gone.values()))) > RELEASE:
            uid = next(iter(self._gone))
            del self._gone[uid]
            what = f"the pod is gone for {change.at - since:.0f} s and still recorded"
            self._say(LEAK, change, what, uid, *self._entries.get(uid, {}))
        for record, since in self._kin.deserted(before=change.at - RELEASE).items():
            self._kin.filled(record)
            what = f"{record} is there, and for {change.at - since:.0f} s nobody whom it is for"
            self._say(LEAK, change, what, record)

    def _say(self, kind: str, change: Change, what: str, *objects: str) -> None:
        self.findings.append(Finding(kind, change.revision, tuple(dict.fromkeys(objects)), what))


def _says(pod: Pod) -> tuple[object, ...]:
    """What is written on it of its place, for whoever reads it."""
    return pod.given, pod.card_list, pod.told


def _fewest(needs: list[tuple[float, int]], *, since: float, otherwise: int) -> int:
    """The fewest that were needed at some time since then."""
    fewest: list[int] = []
    for at, least in reversed(needs):
        fewest.append(least)
        if at <= since:
            break
    return min(fewest, default=otherwise)


def _counts(pod: Pod) -> bool:
    """For its gang, whichever record it is in: it is done, or has its place, and is not on its way out."""
    has_place = pod.living and bool(pod.node) and not pod.terminating
    return bool(pod.group) and (pod.succeeded or has_place)
