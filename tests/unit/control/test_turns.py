"""Whose turn it is to be asked about: nobody is hidden for long, by whomever."""

from __future__ import annotations

from itertools import count

from alnair.control.elastic.hope import MOST_AGAIN, MOST_ASKED
from alnair.control.elastic.turns import MOST_AT_ONCE, Turns
from alnair.control.gangs import Gang
from harness.builders import pod
from unit.builders import as_pod

LOOKS = 120


def gang(name: str) -> Gang:
    one = as_pod(pod(name).by("alnair"))
    return Gang(("ns", "Pod", name), group=None, pods={one.uid: one})


def look(turns: Turns, waiting: list[Gang], books: object, *, most: int = MOST_AT_ONCE) -> list[Gang]:
    """Nothing helps anybody."""
    asked = turns.due(waiting, books)[:most]
    turns.answered(dict.fromkeys(asked))
    return asked


def test_who_was_asked_is_asked_again_when_the_books_change_though_somebody_new_comes_before_every_look() -> (
    None
):
    turns, old = Turns(), gang("old")
    waiting = [old, gang("first")]
    asked_at = []
    for at in range(LOOKS):
        if old in look(turns, waiting, at):
            asked_at.append(at)
        waiting = [old, *waiting[1:][-40:], gang(f"new-{at}")]
    assert len(asked_at) > LOOKS // 4


def test_who_is_behind_more_than_one_look_can_ask_about_has_its_turn_though_as_many_come() -> None:
    turns, numbers = Turns(), count()
    last = gang("last")
    waiting = [*(gang(f"old-{each}") for each in range(40)), last]
    asked_at = []
    for at in range(LOOKS):
        if last in look(turns, waiting, at, most=16):
            asked_at.append(at)
        waiting += [gang(f"new-{next(numbers)}") for _ in range(4)]
    assert len(asked_at) >= 3


def test_at_rest_everybody_is_asked_once() -> None:
    turns = Turns()
    waiting = [gang(str(each)) for each in range(200)]
    looks = [len(look(turns, waiting, "same")) for _ in range(4)]
    assert looks == [128, 72, 0, 0]


def test_who_left_is_not_remembered() -> None:
    turns, one = Turns(), gang("one")
    look(turns, [one], "books")
    one.pods.clear()
    turns.forget_who_left()
    assert not turns._turn
    assert not turns._asked


def test_more_whom_something_helps_than_one_look_can_ask_about_hide_nobody() -> None:
    turns, first = Turns(), gang("first")
    waiting = [first, *(gang(str(each)) for each in range(3 * MOST_AT_ONCE))]
    asked_at = []
    for at in range(LOOKS):
        asked = turns.due(waiting, at)
        turns.answered({one: None if one is first else object() for one in asked})
        if first in asked:
            asked_at.append(at)
    assert len(asked_at) > LOOKS // 8


def test_those_with_hope_whom_no_look_gets_round_to_end_no_turn() -> None:
    """A look asks about eight kinds of them, and always the first."""
    turns, first = Turns(), gang("first")
    waiting = [first, *(gang(str(each)) for each in range(MOST_AGAIN + 4))]
    asked_at = []
    for at in range(LOOKS):
        due = turns.due(waiting, at)
        again = [one for one in due if turns.hopes(one)][:MOST_AGAIN]
        asked = [*again, *(one for one in due if not turns.hopes(one))][: MOST_AGAIN + MOST_ASKED]
        turns.answered({one: None if one is first else object() for one in asked})
        if first in asked:
            asked_at.append(at)
    assert len(asked_at) > LOOKS // 8
