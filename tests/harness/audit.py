"""Reading the apiserver's audit log: what was really asked of it, by whom, and what it answered."""

from __future__ import annotations

from typing import Any

import orjson

from alnair.sandbox.access import Access

MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def entries(access: Access, *, containing: str = "") -> list[dict[str, Any]]:
    """Finished requests, in order; `containing` is looked for in the raw line, which is quick."""
    needle = containing.encode()
    found = []
    with access.audit_log.open("rb") as lines:
        for line in lines:
            if needle in line and line.endswith(b"\n"):
                entry = orjson.loads(line)
                if entry["stage"] == "ResponseComplete":
                    found.append(entry)
    return found


def writes(access: Access, user: str, *, resource: str = "") -> list[dict[str, Any]]:
    """What this user changed, its Lease aside."""
    return [
        entry
        for entry in entries(access, containing=user)
        if entry["user"]["username"] == user
        and entry["verb"] in MUTATING
        and entry["objectRef"]["resource"] != "leases"
        and resource in ("", entry["objectRef"]["resource"])
    ]


def own_writes(access: Access, namespace: str) -> list[dict[str, Any]]:
    """What the operator of this namespace changed in it, or on nodes of its test. Every operator publishes the cards of
    its neighbours' nodes, and takes deleted jobs apart, whoever's they were."""
    return [
        entry
        for entry in writes(access, f"system:serviceaccount:{namespace}:alnair")
        if entry["objectRef"].get("namespace") == namespace
        or entry["objectRef"].get("name", "").endswith(f".{namespace}")
    ]


def bindings(access: Access, namespace: str) -> list[str]:
    """The names of the namespace's pods, once for every Binding that was accepted."""
    return [
        entry["objectRef"]["name"]
        for entry in entries(access, containing='"subresource":"binding"')
        if entry["objectRef"].get("namespace") == namespace and entry["responseStatus"]["code"] == 201
    ]
