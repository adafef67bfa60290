"""RBAC, exactly what is used: what the chart grants, held against what operators asked for in a whole run.

Each control plane's audit log tells what operators asked of it. Those of tests with planes of their own are noted in a
folder of the session's plane before they go; the rest is read when the last test is over (see `plugin`). Two things
are findings: a right that is granted and was never used, and a question that was not granted.

Only a run of the whole suite can say that a right is of no use. A single test of one kind proves nothing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
import yaml

from alnair.sandbox.access import Access
from alnair.sandbox.installation import RELEASE

Right = tuple[str, str, str]  # API group, resource (with its subresource), verb
Note = Callable[[Access], None]
"""Reads the audit log of a control plane that is about to go (`fixtures.noted`)."""

CHART = Path(__file__).parents[2] / "charts" / "alnair"
OPERATOR = re.compile(rf"system:serviceaccount:[^:]+:{RELEASE}")
WAYS_TO_INSTALL: tuple[tuple[str, ...], ...] = ((), ("--set", "extender.enabled=true"))
"""Values by which the chart grants different things, and which tests install."""

ASKED_BY_OTHERS: dict[Right, str] = {
    ("ai.centauruscloud.io", "elastichorovodjobs/finalizers", "update"): (
        "never asked for by the operator; the apiserver's own OwnerReferencesPermissionEnforcement asks whether it may"
    ),
}
AFTER_A_CONFLICT: dict[Right, str] = {
    (
        "topology.node.k8s.io",
        "noderesourcetopologies",
        "get",
    ): "a topology that somebody wrote at the same moment",
    ("ai.centauruscloud.io", "elastichorovodjobs", "get"): "a job that its author changed at the same moment",
}
"""Needed where two writes meet, which no test can bring about for certain: no finding either way."""


@dataclass
class Used:
    """What operators asked for, and what they were denied, each with one example of the request."""

    granted: dict[Right, str] = field(default_factory=dict)
    denied: dict[Right, str] = field(default_factory=dict)

    @classmethod
    def of(cls, access: Access) -> Self:
        """From the audit log. A watch counts when it begins: it may never end."""
        if not access.audit_log.exists():
            return cls()
        needle = f":{RELEASE}".encode()
        with access.audit_log.open("rb") as lines:
            return cls.of_entries(
                orjson.loads(line) for line in lines if needle in line and line.endswith(b"\n")
            )

    @classmethod
    def of_entries(cls, entries: Iterable[dict[str, Any]]) -> Self:
        """A right that was denied to an operator and granted to the same one is no denial: the apiserver hears of a
        role a moment after it was made, and the operator may be quicker."""
        found = cls()
        held: set[tuple[str, Right]] = set()
        denied: dict[tuple[str, Right], str] = {}
        for entry in entries:
            about, user = entry.get("objectRef"), entry["user"]["username"]
            if about is None or not OPERATOR.fullmatch(user):
                continue  # not a resource: discovery, health; or not an operator
            resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
            right = (about.get("apiGroup", ""), resource, entry["verb"])
            if (entry.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid":
                denied.setdefault((user, right), entry["requestURI"])
            else:
                held.add((user, right))
                found.granted.setdefault(right, entry["requestURI"])
        found.denied = {right: uri for (user, right), uri in denied.items() if (user, right) not in held}
        return found

    def add(self, other: Used) -> None:
        self.granted = {**other.granted, **self.granted}
        self.denied = {**other.denied, **self.denied}

    def to_json(self) -> str:
        return json.dumps(
            [[[*right, uri] for right, uri in each.items()] for each in (self.granted, self.denied)]
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        granted, denied = ({(a, b, c): uri for a, b, c, uri in each} for each in json.loads(text))
        return cls(granted, denied)


def note(access: Access, session: Access) -> None:
    """A plane of a test's own is about to go: what was asked of it counts for the session."""
    folder = session.directory / "rights"
    folder.mkdir(exist_ok=True)
    (folder / f"{secrets.token_hex(8)}.json").write_text(Used.of(access).to_json(), "utf-8")


def of_session(session: Access) -> Used:
    used = Used.of(session)
    for noted in (session.directory / "rights").glob("*.json"):
        used.add(Used.from_json(noted.read_text("utf-8")))
    return used


def granted(access: Access) -> set[Right]:
    """What the chart grants, over all the ways to install it that tests know."""
    found: set[Right] = set()
    for values in WAYS_TO_INSTALL:
        text = access.helm("template", RELEASE, str(CHART), "--kube-version", "1.36.3", *values)
        found |= of_objects([each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each])
    return found


def of_objects(objects: Iterable[dict[str, Any]]) -> set[Right]:
    """What the roles say that are bound to the operator. The chart has one for others to bind, too."""
    objects = list(objects)
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in objects
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding")
        and ("ServiceAccount", RELEASE) in {(who["kind"], who["name"]) for who in each["subjects"]}
    }
    roles = [each for each in objects if (each["kind"], each["metadata"]["name"]) in bound]
    assert len(roles) == len(bound), f"bound, and not in the chart: {bound}"
    return set().union(*(of_rules(each["rules"]) for each in roles))


def of_rules(rules: Iterable[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def findings(rights: set[Right], used: Used) -> list[str]:
    """A sentence each; none if the chart grants exactly what is used."""
    unused = rights - used.granted.keys() - ASKED_BY_OTHERS.keys() - AFTER_A_CONFLICT.keys()
    said = [
        f"granted and never used: {verb} {resource} ({group or 'core'}); remove it, or test what needs it"
        for group, resource, verb in sorted(unused)
    ]
    said += [
        f"used and not granted: {verb} {resource} ({group or 'core'}), for example {uri}"
        for (group, resource, verb), uri in sorted(used.denied.items())
    ]
    said += [
        f"needs no exception, for it is used: {verb} {resource} ({group})"
        for group, resource, verb in sorted(ASKED_BY_OTHERS.keys() & used.granted.keys())
    ]
    return said
