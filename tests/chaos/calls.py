"""One call of an operator's, as the proxy names it, and which of them are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chaos.wire import Request

MUTATING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
BINDING: Final = "pods/binding"
RECORD_STATUS: Final = "gpuallocations/status"
UNCOUNTED: Final = frozenset({"leases", "events"})
"""Writes that are no crash points: renewals of the Lease come by the clock and events are news, so that neither has a
number that means the same in the next run. Faults still meet what an operator does between two of them."""


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    resource: str
    """`pods/binding`."""
    namespace: str
    name: str

    @property
    def owner(self) -> str:
        """Of a record, by its name; empty for everything else."""
        return self.name.rpartition("-")[0] if self.resource.startswith("gpuallocations") else ""

    @property
    def mutating(self) -> bool:
        return self.method in MUTATING

    @property
    def counted(self) -> bool:
        return self.mutating and self.resource.split("/")[0] not in UNCOUNTED

    @property
    def places(self) -> bool:
        """It binds a pod, or is a word of the ledger's other than a new leader's stamp (a PATCH)."""
        return (self.method == "POST" and self.resource == BINDING) or (
            self.method in ("PUT", "DELETE") and self.resource.startswith("gpuallocations")
        )

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.method} {self.resource} {place}"


def named(request: Request) -> Call:
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    resource = "/".join(rest[:1] + rest[2:3])
    return Call(request.method, resource, namespace, rest[1] if len(rest) > 1 else "")
