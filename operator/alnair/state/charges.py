"""What one pod takes of the cluster, by all that is known of it: its own word, a holding, a place kept for it.

Pure: the books (`cluster.py`) decide when to ask, and write what has changed into their rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from alnair.state.holding import CardUse, Holding, footprint, parse_annotation
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass


@dataclass(frozen=True, slots=True)
class Charge:
    """What one pod takes: `requests` from its node, `uses` from the cards of the node that gave them; and who it is
    to the rules of others (`guest`; None for a pod that the books no longer know).

    The two nodes are one, except for a pod that somebody else bound elsewhere while our record still lists its
    slices: until the ledger releases them they are taken where the record says.
    """

    node: str
    requests: tuple[tuple[str, int], ...]
    card_node: str
    uses: tuple[CardUse, ...]
    guest: PodClass | None = None


def charge_of(pod: Pod | None, holding: Holding | None, *, awaited: PodClass | None) -> Charge | None:
    """None: it takes nothing. `awaited`: the holding is a place that is kept for a pod like that one."""
    uses: tuple[CardUse, ...] = ()
    node = card_node = pod.node if pod is not None else ""
    if holding is not None:
        node, card_node = node or holding.node, holding.node
        uses = holding.footprint()
    elif pod is not None and pod.node and not pod.terminal:
        uses = foreign_uses(pod)
    if not node:
        return None
    if awaited is not None:
        return Charge(node, awaited.shape.requests, card_node, uses)
    if pod is None or pod.terminal:
        return Charge(node, (), card_node, uses) if uses else None
    return Charge(node, pod.shape.requests, card_node, uses, guest(pod))


def guest(pod: Pod) -> PodClass:
    """The pod as others' rules know it."""
    return PodClass(pod.shape, pod.namespace, pod.labels, pod.terminating)


def foreign_uses(pod: Pod) -> tuple[CardUse, ...]:
    """What a bound pod that we have no record of says it holds: another instance's, or from before our time."""
    if not pod.slices or pod.annotated_node != pod.node:
        return ()
    try:
        return footprint(parse_annotation(pod.slices))
    except ValueError:
        return ()
