"""Delivery through the environment: the Binding fills the annotations that the containers' variables read.

All annotations of a container with cards are written, whatever its environment reads of them: one that is missing
would resolve to an empty string. The pod was only planned because it reads no others (see state/environment).
"""

from __future__ import annotations

from collections.abc import Mapping

from alnair.api import names
from alnair.ledger.records import Member
from alnair.state.holding import ContainerShare


class Environment:
    async def prepare(self, namespace: str, member: Member) -> None:
        """The variables stand in the pod since its creation."""

    def annotations(self, member: Member) -> Mapping[str, str]:
        return {
            names.env_key(share.name, value): text
            for share in member.holding.containers
            if share.slices
            for value, text in values(share, member.holding.node).items()
        }

    async def confirm(self, namespace: str, member: Member) -> None:
        """The kubelet reads what the Binding wrote."""

    async def undo(self, namespace: str, member: Member) -> None:
        """Nothing was written but the Binding."""


def values(share: ContainerShare, node: str) -> dict[str, str]:
    """What the container is told of its cards."""
    return {
        names.VISIBLE_DEVICES: ",".join(_as_the_runtime_knows(piece.card, node) for piece in share.slices),
        names.GPU_IDS: ",".join(piece.card for piece in share.slices),
        names.MEMORY_MIB: ",".join(str(piece.memory_mib) for piece in share.slices),
        # One number for all cards of a container: each has the same part of its cards.
        names.SM_LIMIT: str(share.slices[0].compute_percent),
        **{
            f"{names.MEMORY_LIMIT}{index}": f"{piece.memory_mib}m" for index, piece in enumerate(share.slices)
        },
    }


def _as_the_runtime_knows(card: str, node: str) -> str:
    """Its UUID; of a card without one, which is called NODE/INDEX, its index on the node."""
    return card.removeprefix(f"{node}/")
