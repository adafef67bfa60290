"""Histories in words: what is printed can be read again, drawn ones are the seed's, and failures are made small."""

from __future__ import annotations

import pytest

from chaos.faults import Fault, History, NoSuchFault, parse, smaller
from chaos.histories import DRAWN, ENDS, MOST_ENDS, draw, each_once
from chaos.scenarios import SCENARIOS

CALLS = dict.fromkeys(SCENARIOS, 12)


def test_a_history_is_read_as_it_is_printed() -> None:
    history = History("gang-4", (Fault(3, "kill-after"), Fault(7, "answer", 503), Fault(9, "delete-node", 1)))
    assert str(history) == "gang-4 3:kill-after 7:answer=503 9:delete-node=1"
    assert parse(str(history)) == history


@pytest.mark.parametrize("word", ["kill", "x:drop", "3:kill-after=4", "3:answer", "drop"])
def test_what_names_no_fault_is_refused_with_the_words_that_do(word: str) -> None:
    with pytest.raises(NoSuchFault, match="kill-before"):
        parse(f"gang-4 {word}")


def test_a_seed_draws_the_same_histories_and_another_draws_others() -> None:
    drawn = [str(each) for each in draw(7, 50, CALLS)]
    assert drawn == [str(each) for each in draw(7, 50, CALLS)]
    assert drawn != [str(each) for each in draw(8, 50, CALLS)]


def test_three_hundred_histories_have_every_scenario_and_every_fault_and_few_long_waits() -> None:
    drawn = list(draw(1, 300, CALLS))
    assert {each.scenario for each in drawn} == set(SCENARIOS)
    assert {(fault.word, fault.argument) for each in drawn for fault in each.faults} == set(DRAWN)
    for each in drawn:
        assert len({fault.at for fault in each.faults}) == len(each.faults) > 0
        assert sum(fault.word in ENDS for fault in each.faults) <= MOST_ENDS
        assert parse(str(each)) == each


def test_each_fault_comes_once_by_itself_between_commit_and_bind() -> None:
    met = [fault for each in each_once() for fault in each.faults]
    assert [(fault.word, fault.argument) for fault in met] == list(DRAWN)
    assert {fault.at for fault in met} == {3}


def test_a_smaller_history_lacks_one_fault() -> None:
    history = parse("gang-4 1:drop 2:pause 3:twice")
    assert [str(each) for each in smaller(history)] == [
        "gang-4 2:pause 3:twice",
        "gang-4 1:drop 3:twice",
        "gang-4 1:drop 2:pause",
    ]
