"""How a container comes by the cards that its record names: one small interface, one way of doing it a class.

The steps stand around the Binding, in this order; `ledger/binding.py` is the only caller:

    prepare       before it: what must stand elsewhere first (a lock on the node, a claim's allocation)
    annotations   in it: written in the same write as nodeName
    confirm       after it: the pod is bound here
    undo          after it, if it is not: take back what `prepare` did

Each may be asked again after a crash, for the same member and with the same record, and must come to the same end. What
is written follows from the record alone: a successor that rolls a gang forward knows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from alnair.ledger.environment import Environment
from alnair.ledger.records import Member


class Undeliverable(Exception):
    """The cards cannot be handed over there; the message says why. The member is planned anew, as after a Binding that
    was refused."""


class Delivery(Protocol):
    async def prepare(self, namespace: str, member: Member) -> None:
        """Raises Undeliverable, with nothing left behind."""

    def annotations(self, member: Member) -> Mapping[str, str]: ...

    async def confirm(self, namespace: str, member: Member) -> None: ...

    async def undo(self, namespace: str, member: Member) -> None: ...


class NoDelivery:
    """No cards, or cards that a device plugin picks and hands over by itself."""

    async def prepare(self, namespace: str, member: Member) -> None:
        pass

    def annotations(self, member: Member) -> Mapping[str, str]:
        return {}

    async def confirm(self, namespace: str, member: Member) -> None:
        pass

    async def undo(self, namespace: str, member: Member) -> None:
        pass


NOTHING: Delivery = NoDelivery()
BY_ENVIRONMENT: Delivery = Environment()


def delivery_of(member: Member) -> Delivery:
    """By what the member holds: cards by name are told through the environment."""
    return BY_ENVIRONMENT if any(share.slices for share in member.holding.containers) else NOTHING
