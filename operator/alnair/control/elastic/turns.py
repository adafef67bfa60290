"""Whose turn it is to be asked about, of those that wait for room.

One look cannot ask about all of them. So it goes on where the last one stopped, and when everybody was asked about who
waited at the beginning, a new turn begins, unless nothing has changed since then. Thus nobody is hidden by those before
it whom nothing helps, however many they are and however often the books change, nor by those who come meanwhile; and at
rest nobody is asked about at all.

Who was found to be helped, and has not been yet, is asked about in every look, lest somebody behind it gets its room
while others have their turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from alnair.control.gangs import Gang

MOST_AT_ONCE = 128  # of both kinds: even to tell who is alike takes time


class Turns:
    def __init__(self) -> None:
        self._books: object = None  # as they were when this turn began
        self._turn: set[Gang] = set()  # who waited then
        self._asked: dict[Gang, object] = {}  # in this turn; `wanted` of each, which every refusal makes anew
        self._hopeful: set[Gang] = set()

    def due(self, waiting: Sequence[Gang], books: object) -> list[Gang]:
        """Who is to be asked about now, in the order of `waiting`."""
        known = self._asked.keys() | self._hopeful  # who has hope comes into every look anyway
        over = all(gang in known for gang in waiting if gang in self._turn)
        if over and (books != self._books or self._wants_change(waiting)):
            self._asked.clear()
            self._books, self._turn = books, set(waiting)
        again = set(islice((gang for gang in waiting if gang in self._hopeful), MOST_AT_ONCE))
        others = (gang for gang in waiting if gang not in self._asked and gang not in again)
        chosen = again.union(islice(others, MOST_AT_ONCE))
        return [gang for gang in waiting if gang in chosen]

    def _wants_change(self, waiting: Sequence[Gang]) -> bool:
        return any(gang.wanted is not self._asked.get(gang, gang.wanted) for gang in waiting)

    def answered(self, answers: Mapping[Gang, object | None]) -> None:
        """None: nothing helps it."""
        for gang, answer in answers.items():
            self._asked[gang] = gang.wanted
            (self._hopeful.discard if answer is None else self._hopeful.add)(gang)

    def in_vain(self, gang: Gang) -> None:
        """It cannot be helped after all; in the next turn perhaps."""
        self._hopeful.discard(gang)

    def hopes(self, gang: Gang) -> bool:
        """It was found to be helped when it was last asked about."""
        return gang in self._hopeful

    def forget_who_left(self) -> None:
        self._asked = {gang: wanted for gang, wanted in self._asked.items() if gang.pods}
        self._turn = {gang for gang in self._turn if gang.pods}
        self._hopeful = {gang for gang in self._hopeful if any(pod.waiting for pod in gang.pods.values())}
