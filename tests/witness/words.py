"""What is written on objects for the checker, and the change that all its parts speak of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]

PREFIX: Final = "witness.alnair.test/"
CARDS: Final = f"{PREFIX}cards"
"""On a Node or NodeResourceTopology: the cards that it tells of, as JSON (`truth.Card`), in the same write."""
ASKS: Final = f"{PREFIX}asks"
"""On a pod: what it must be given, as JSON (`requests.Ask`); `never` on one that must never be bound."""
NEVER: Final = "never"
KIND: Final = f"{PREFIX}kind"
"""On a pod: the kind of request that was drawn."""
OF: Final = f"{PREFIX}of"
"""Label of a pod: the workload that it is of."""
HOLD: Final = f"{PREFIX}hold"
"""A finalizer: the pod stays, terminating, until it is taken away."""

PODS: Final = "pods"
NODES: Final = "nodes"
RECORDS: Final = "gpuallocations"
TOPOLOGIES: Final = "noderesourcetopologies"
GROUPS: Final = "podgroups"
STATEFUL_SETS: Final = "statefulsets"
DEPLOYMENTS: Final = "deployments"
LEASES: Final = "leases"


@dataclass(frozen=True, slots=True)
class Change:
    """One object as one revision of etcd left it."""

    revision: int
    at: float
    """Seconds of the history's own clock (see `history`). It never goes back."""
    kind: str
    key: str
    """`namespace/name`, or `name` of what has no namespace."""
    object: Object | None
    """None: it was deleted."""
