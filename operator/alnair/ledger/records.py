"""One gang's record: what it says, in memory and as JSON.

    opened --create--> Pending --commit--> Committed --settle--> Bound --last pod gone--> deleted
                                   |  ^                   |
                     member lost,  |  | a replacement     | new members join: Committed again
                     gang short    v  | takes its place   v
                                RollingBack --pods gone--> deleted

The write that sets Committed is the decision, or, for a gang that holds only numbers of cards, the creation with the
plan in it (see `Record.plan`): such a record is Committed, and its object's status is empty until it is settled.
A record in memory is the truth while its leader lives; what others do to the object is put right. `version` is the
resourceVersion that the next write must name.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from alnair.api import names
from alnair.api.allocation import (
    BOUND,
    COMMITTED,
    GROWTH,
    LAST_EPOCH,
    MOST_BYTES,
    PENDING,
    REPLACEMENT,
    ROLLING_BACK,
    GPUAllocationStatus,
    PodAllocation,
    cards_line,
    nodes_line,
)
from alnair.api.quantity import shown
from alnair.api.text import one_line
from alnair.ledger.errors import TooLarge
from alnair.ledger.lock import Lock
from alnair.state.holding import Holding, shares_from_json, shares_to_json
from alnair.state.shapes import PodClass

__all__ = [
    "BOUND",
    "COMMITTED",
    "PENDING",
    "ROLLING_BACK",
    "Key",
    "Member",
    "Owner",
    "Place",
    "Record",
    "Unparsable",
    "record_key",
]

Key = tuple[str, str]  # namespace, name

_serial = itertools.count(1)

LONGEST_TEXT = 317
MOST = 2**31 - 1
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
MOST_VERSIONS = 32
LONGEST_PLAN = 128 * 1024  # the apiserver takes 256 KiB of annotations

PATH = f"/apis/{names.API_ALLOCATION}"


class Unparsable(ValueError):
    """An object of kind GPUAllocation that no ledger of ours has written."""


@dataclass(frozen=True, slots=True)
class Owner:
    kind: str  # PodGroup or Pod
    namespace: str
    name: str
    uid: str


def record_key(owner: Owner) -> Key:
    return (owner.namespace, names.record_name(owner.name, owner.uid))


@dataclass(slots=True)
class Member:
    """One pod of the record. `bound` and `gone` are what we know of it, not what the record says."""

    uid: str
    name: str
    holding: Holding
    version: str = ""  # of the pod when it was planned: what the first Binding names
    bound: bool = False
    gone: bool = False
    uncertain: bool = False  # not among the pods when we took over; whether it is gone is being asked
    replaces: str = ""  # UID of a lost member, or key of a place, that this one takes
    # Once it is on its way out:
    returns: bool = False  # something makes it anew, and it has not succeeded
    failed: bool = False
    pod: PodClass | None = None


@dataclass(slots=True)
class Place:
    """Room that is committed for a member to come. Its `key` is what the books know it by, and no other place of this
    process has or had it: a record on its way out and its successor of the same name may both have a first place."""

    key: str
    id: str
    holding: Holding
    reason: str  # Growth or Replacement
    until: str  # on the wall's clock: it outlives leaders
    planned: bool = False  # taken in memory, in no write yet
    pod: PodClass | None = None  # what is to come there, once somebody knows


@dataclass(slots=True, eq=False)
class Record:
    owner: Owner
    scheduler: str
    min_member: int
    epoch: int
    instance: str = ""  # the operator's, by its Lease; two of them may serve one cluster
    phase: str = PENDING
    said: str = ""  # the phase that stands in the object, as far as we know
    standing: Counter[str] = field(default_factory=Counter)  # and what pods and places hold there
    lists: bool = False  # it may name pods: in its status, or in the plan that it was created with
    members: dict[str, Member] = field(default_factory=dict)
    planned: dict[str, Member] = field(default_factory=dict)  # taken in memory, in no write yet
    places: dict[str, Place] = field(default_factory=dict)  # for members to come, by key
    size: int | None = None  # how many members an elastic gang is to have
    size_before: int | None = None  # and was to have before
    conditions: list[dict[str, Any]] = field(default_factory=list)
    uid: str = ""
    version: str = ""
    generation: int = 1
    short_since: float | None = None  # committed, bound in part, waiting for replacements of lost members
    satisfied: bool = (
        False  # minMember was reached once since the commit: losing members is no roll-back any more
    )
    closing: bool = False  # being deleted by us
    unlooked: bool = False  # created, opened again or found changed since the last look at the lease
    landing: float = 0.0  # monotonic: until then a creation with a plan, which got no answer, may land
    # Nothing in the events of these can be news.
    own_versions: tuple[str, ...] = ()
    lock: Lock = field(default_factory=Lock)

    @property
    def key(self) -> Key:
        return record_key(self.owner)

    @property
    def collection(self) -> str:
        return f"{PATH}/namespaces/{self.owner.namespace}/{names.PLURAL_ALLOCATION}"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.key[1]}"

    @property
    def exists(self) -> bool:
        return bool(self.version)

    def bound(self) -> list[Member]:
        return [member for member in self.members.values() if member.bound]

    def live(self) -> int:
        """Members that have their place, and are not gone from it."""
        return sum(not member.gone for member in self.members.values())

    def new_place(self, holding: Holding, *, reason: str, until: str, pod: PodClass | None) -> Place:
        """Not in the record yet."""
        numbers = [int(place.id[1:]) for place in self.places.values() if place.id[1:].isdecimal()]
        name = f"p{max(numbers, default=0) + 1}"
        return Place(self._place_key(name), name, holding, reason, until, pod=pod)

    def decide_places(self) -> None:
        """The next write tells of those, too, that were only taken in memory."""
        for place in self.places.values():
            place.planned = False

    def _place_key(self, name: str) -> str:
        return f"{self}#{name}#{next(_serial)}"  # no UID has such characters

    def condition(self, kind: str) -> dict[str, Any] | None:
        return next((each for each in self.conditions if each.get("type") == kind), None)

    def set_condition(self, condition: dict[str, Any], *, now: str) -> None:
        """In a new list; the time stays where the status does, and conditions of other types stay."""
        before = self.condition(condition["type"])
        same = before is not None and before.get("status") == condition["status"]
        time = (before.get("lastTransitionTime") if before is not None and same else None) or now
        others = [each for each in self.conditions if each.get("type") != condition["type"]]
        whole = {**condition, "observedGeneration": self.generation, "lastTransitionTime": time}
        self.conditions = [*others, whole]

    def seen(self, written: dict[str, Any]) -> None:
        """The apiserver's answer to a write of ours, or an object that was looked at and is as it should be: the event
        of that version is no news."""
        self.found(written)
        self.own_versions = (*self.own_versions, self.version)[-MOST_VERSIONS:]

    def found(self, there: dict[str, Any]) -> None:
        """What stands there, read after a conflict: the next write names its version. Whose hand it was, and what else
        it did, is still to be looked at when its event comes."""
        meta = there["metadata"]
        self.uid, self.version, self.generation = (
            meta["uid"],
            meta["resourceVersion"],
            meta.get("generation", 1),
        )
        status = there.get("status") or {}
        self.said, self.standing = str(status.get("phase") or ""), _held(status)
        self.lists = bool(self.said or (meta.get("annotations") or {}).get(names.PLAN))

    def takes_more(self) -> bool:
        """Whether the next write gives anything to anybody that is not given in the object already."""
        return not _held(self.status()) <= self.standing

    def is_marked(self, meta: dict[str, Any]) -> bool:
        """The object has its finalizer and its labels: what writes of the status leave as they are."""
        labels = meta.get("labels") or {}
        return names.FINALIZER in (meta.get("finalizers") or []) and all(
            labels.get(key) == value for key, value in self.labels().items()
        )

    def __str__(self) -> str:
        return "/".join(self.key)

    # -- JSON ----------------------------------------------------------------------------------------------------

    def manifest(self, *, plan: str = "") -> dict[str, Any]:
        """The object as it is created: for whom; and with a `plan`, what was decided."""
        return {
            "apiVersion": names.API_ALLOCATION,
            "kind": names.KIND_ALLOCATION,
            "metadata": {
                "name": self.key[1],
                "namespace": self.owner.namespace,
                "labels": self.labels(),
                "finalizers": [names.FINALIZER],
                **({"annotations": {names.PLAN: plan}} if plan else {}),
            },
            "spec": self.spec(),
        }

    def plan(self) -> str:
        """The status as one text, for a creation that decides; empty if this record's must not.

        A creation cannot be fenced: it may land when a successor has listed the records and given the places away.
        Cards would then stand in two records. Numbers of cards cannot: only a gang that holds those is decided so.
        """
        counted = any(member.holding.counted for member in self.members.values())
        if (
            self.places
            or not counted
            or any(any(member.holding.slices()) for member in self.members.values())
        ):
            return ""
        text = orjson.dumps(self._written_status()).decode()
        return text if len(text) <= LONGEST_PLAN else ""

    def labels(self) -> dict[str, str]:
        return {
            names.OWNER_KIND: self.owner.kind,
            names.OWNER_NAME: names.label_value(self.owner.name),
            names.OWNER_UID: self.owner.uid,
            **({names.INSTANCE: self.instance} if self.instance else {}),
        }

    def spec(self) -> dict[str, Any]:
        return {
            "owner": {"kind": self.owner.kind, "name": self.owner.name, "uid": self.owner.uid},
            "schedulerName": self.scheduler,
        }

    def differs_from(self, there: dict[str, Any]) -> str:
        """The first field in which an object of our name is for somebody else; empty if it is this record's."""
        spec = there.get("spec") or {}
        owner = spec.get("owner") or {}
        fields = [(f"owner.{key}", owner.get(key), value) for key, value in self.spec()["owner"].items()]
        fields.append(("schedulerName", spec.get("schedulerName"), self.scheduler))
        differences = (
            f"spec.{field} is {shown(found)}, not {shown(wanted)}"
            for field, found, wanted in fields
            if found != wanted
        )
        return next(differences, "")

    def must_fit(self) -> None:
        """Into one object of etcd. Raises TooLarge."""
        size = len(orjson.dumps(self.status()))
        if size > MOST_BYTES:
            raise TooLarge(
                f"the gang of {len(self.members)} pods needs a record of {size} bytes, {MOST_BYTES} are the most; "
                "split it into smaller groups"
            )

    def with_status(self) -> dict[str, Any]:
        """The object as its status is written, whole: the rest of it stays as it is whatever stands here."""
        return {
            "apiVersion": names.API_ALLOCATION,
            "kind": names.KIND_ALLOCATION,
            "metadata": {"name": self.key[1], "resourceVersion": self.version, "uid": self.uid},
            "status": self._written_status(),
        }

    def _written_status(self) -> dict[str, Any]:
        return {key: value for key, value in self.status().items() if value is not None}

    def status(self) -> dict[str, Any]:
        """Every field that is ours; None = it is not there."""
        members = sorted(self.members.values(), key=lambda member: member.name)
        places = [place for place in self.places.values() if not place.planned]
        return {
            "phase": self.phase,
            "epoch": self.epoch,
            "scheduled": len(members),
            "minMember": self.min_member,
            "complete": self.satisfied,
            **_totals([*members, *places]),
            "conditions": self.conditions or None,
            "pods": [
                {
                    "name": member.name,
                    "uid": member.uid,
                    "node": member.holding.node,
                    **shares_to_json(member.holding.containers),
                }
                for member in members
            ],
            "size": self.size,
            "sizeBefore": self.size_before,
            "reserved": [
                {
                    "id": place.id,
                    "node": place.holding.node,
                    **shares_to_json(place.holding.containers),
                    "reason": place.reason,
                    "until": place.until,
                }
                for place in places
            ]
            or None,
        }


def _totals(members: Iterable[Member | Place]) -> dict[str, Any]:
    """What `kubectl get` shows at a glance."""
    members = list(members)
    counted = sum(member.holding.counted for member in members)
    cards = list(dict.fromkeys(card for member in members for card in member.holding.cards))
    return {
        "gpus": len(cards) + counted,
        "memoryMiB": sum(use.memory_mib for member in members for use in member.holding.footprint()),
        "nodes": nodes_line(member.holding.node for member in members),
        "cards": cards_line(cards) or None,
    }


def _held(status: dict[str, Any]) -> Counter[str]:
    """What pods and places hold by a status, whoever they are: a member's place that is kept is nothing new.

    As text: bytes as orjson gives them take 4 KiB each, however few they are, and these are kept for every pod.
    """
    entries = [*(status.get("pods") or ()), *(status.get("reserved") or ())]
    holdings = ({key: each.get(key) for key in ("node", "containers", "gpuCounts")} for each in entries)
    return Counter(orjson.dumps(each, option=orjson.OPT_SORT_KEYS).decode() for each in holdings)


def decided(manifest: dict[str, Any]) -> dict[str, Any]:
    """What an object says was decided: its status, or before that was ever written, the plan that it was created with.
    Raises ValueError if that cannot be read, or is more than a creation can decide."""
    meta, status = manifest["metadata"], manifest.get("status") or {}
    text = (meta.get("annotations") or {}).get(names.PLAN) or ""
    written = any(each.get("subresource") == "status" for each in meta.get("managedFields") or [])
    if written or status.get("phase") or not text:
        return status
    if len(text) > LONGEST_PLAN:
        raise ValueError(f"annotation {names.PLAN} is longer than {LONGEST_PLAN} characters")
    plan = orjson.loads(text)
    # Nobody has checked it: the schema does not reach into annotations.
    checked = GPUAllocationStatus.model_validate(plan)
    named = checked.reserved or any(_names_cards(pod) for pod in checked.pods or [])
    if checked.phase != COMMITTED or named:
        raise ValueError(f"annotation {names.PLAN} is no plan of numbers of cards")
    return plan  # type: ignore[no-any-return]  # the model took it, so it is an object


def _names_cards(pod: PodAllocation) -> bool:
    return any(container.slices for container in pod.containers or [])


def parse(manifest: dict[str, Any]) -> Record:
    """The reverse of `manifest` and `status`, for an object that anybody may have written."""
    try:
        meta, spec = manifest["metadata"], manifest["spec"]
        status = decided(manifest)
        owner = Owner(
            _text(spec["owner"], "kind"),
            _text(meta, "namespace"),
            _text(spec["owner"], "name"),
            _text(spec["owner"], "uid"),
        )
        record = Record(
            owner=owner,
            scheduler=_text(spec, "schedulerName"),
            min_member=_number(status, "minMember", MOST) or 1,
            epoch=_number(status, "epoch", LAST_EPOCH) or 0,
            instance=str((meta.get("labels") or {}).get(names.INSTANCE) or ""),
            phase=_phase(status),
            conditions=[each for each in status.get("conditions") or [] if _is_condition(each)],
        )
        for pod in status.get("pods") or []:
            if not NAME.fullmatch(pod["name"]):
                raise ValueError(f"{shown(pod['name'])} is no pod's name")  # it becomes a part of paths
            holding = Holding(_text(pod, "node"), shares_from_json(pod))
            record.members[pod["uid"]] = Member(_text(pod, "uid"), pod["name"], holding)
        for each in status.get("reserved") or []:
            place = _read_place(each, key=record._place_key(_text(each, "id")))
            record.places[place.key] = place
        record.size, record.size_before = (_number(status, key, MOST) for key in ("size", "sizeBefore"))
        record.satisfied = status.get("complete") is True
        _text(meta, "uid"), _text(meta, "resourceVersion"), _number(meta, "generation", LAST_EPOCH)
        record.seen(manifest)
        own_name = record.key[1] == meta["name"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unparsable(one_line(f"{type(error).__name__}: {error}", most=300)) from error
    if not own_name:
        raise Unparsable(
            f"the name does not belong to owner {one_line(f'{owner.kind}/{owner.name}', most=300)}"
        )
    return record


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry[key]
    if not isinstance(value, str) or not value or len(value) > LONGEST_TEXT or not value.isprintable():
        raise ValueError(f"{key} is {shown(value)}, no name")
    return value


def _number(entry: dict[str, Any], key: str, most: int) -> int | None:
    value = entry.get(key)
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise ValueError(f"{key} is {shown(value)}, not a number from 0 to {most}")
    return value


def _phase(status: dict[str, Any]) -> str:
    phase = status.get("phase") or PENDING
    if phase not in (PENDING, COMMITTED, BOUND, ROLLING_BACK):
        raise ValueError(f"phase is {shown(phase)}")
    return str(phase)


def _is_condition(entry: object) -> bool:
    """Nothing hangs on a condition: one that makes no sense is left out, and the record counts."""
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("type", "status"))


def _read_place(entry: dict[str, Any], *, key: str) -> Place:
    if (reason := entry["reason"]) not in (GROWTH, REPLACEMENT):
        raise ValueError(f"{shown(reason)} is no reason to keep a place")
    holding = Holding(_text(entry, "node"), shares_from_json(entry))
    return Place(key, entry["id"], holding, reason, _text(entry, "until"))
