"""Scenarios are well made: what they want at rest can be had on their nodes, and nothing is named that is not there."""

from __future__ import annotations

import pytest

from chaos.scenario import Anew, Befall, Come, During, Go, GoWhoIsBound, LetGo, Refuse, Rest, Scenario
from chaos.scenarios import SCENARIOS
from chaos.trail import Trail
from witness.words import PODS, RECORDS, Change


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda each: each.name)
def test_steps_speak_of_teams_members_and_nodes_that_there_are(scenario: Scenario) -> None:
    names = {team.name for team in scenario.teams}
    members = {member for team in scenario.teams for member in team.members}
    for step in scenario.steps:
        match step:
            case Come(team, which) | Go(team, which) | LetGo(team, which):
                assert team in scenario.teams
                assert all(place < len(team.shapes) for place in which)
            case GoWhoIsBound(teams):
                assert all(team in scenario.teams for team in teams)
            case Rest(either):
                assert all(set(wanted) <= names for wanted in either)
            case During(_, name, _) | Refuse(name, _):
                assert name in members or name in names
            case Befall(place, station):
                assert scenario.stations[place].name == station.name
            case Anew(team, bound):
                assert bound <= len(team.shapes)
    assert isinstance(scenario.steps[-1], Rest), "it ends at rest"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda each: each.name)
def test_what_is_bound_at_rest_fits_the_cards_by_memory(scenario: Scenario) -> None:
    room = sum(card.memory_mib for station in scenario.stations for card in station.cards)
    asked = {
        team.name: [
            sum((ask.memory_mib or 0) * ask.cards for ask in shape.asked.asks) for shape in team.shapes
        ]
        for team in scenario.teams
    }
    for step in scenario.steps:
        if isinstance(step, Rest):
            for wanted in step.either:
                taken = sum(sum(sorted(asked[team])[:number]) for team, number in wanted.items())
                assert taken <= room


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda each: each.name)
def test_nodes_of_two_pools_share_neither_names_nor_cards(scenario: Scenario) -> None:
    one, other = scenario.settled("p1"), scenario.settled("p2")
    assert not {station.name for station in one} & {station.name for station in other}
    cards = [{card.id for station in pool for card in station.cards} for pool in (one, other)]
    assert not cards[0] & cards[1]
    assert len(cards[0]) == sum(len(station.cards) for station in one)


def test_a_trail_tells_of_its_namespace_what_came_and_went() -> None:
    trail = Trail()
    trail.keep("ns")
    pod = {"metadata": {"uid": "0123456789", "managedFields": [{"manager": "kwok", "time": "1"}]}}
    trail.see(
        Change(3, 0.0, PODS, "ns/x", {**pod, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    )
    trail.see(Change(4, 0.0, PODS, "other/x", pod))
    trail.see(Change(5, 0.0, RECORDS, "ns/x", None))
    assert trail.take("ns") == [
        "revision 3: pods ns/x 01234567, Running, on n, by kwok",
        "revision 5: gpuallocations ns/x is gone",
    ]
    assert trail.take("ns") == []
