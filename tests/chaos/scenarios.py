"""The scenarios. Each is as small as shows what it is about; cards have 16 GiB, so that a slice of 16 fills one."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from chaos.calls import BINDING, RECORD_STATUS
from chaos.scenario import (
    Anew,
    Befall,
    Come,
    During,
    Go,
    GoWhoIsBound,
    Happened,
    LetGo,
    Refuse,
    Rest,
    Scenario,
    Shape,
    Team,
    cordoned,
    counted,
    gang,
    hurt,
    lone,
    plain,
    rest,
    slice_of,
    station,
)

FULL: Final = slice_of(16)
HALF: Final = slice_of(8, compute=50)


def _single() -> Scenario:
    one = lone("one", FULL)
    return Scenario("single", (station("a", 1),), (one,), (Come(one), rest(one=1)))


def _gang_of_one() -> Scenario:
    one = gang("one", 1, HALF)
    return Scenario("gang-1", (station("a", 1),), (one,), (Come(one), rest(one=1)))


def _gang_of_four() -> Scenario:
    team = gang("team", 4, FULL)
    nodes = (station("a", 2), station("b", 2))
    return Scenario("gang-4", nodes, (team,), (Come(team), rest(team=4)))


def _gang_of_sixteen() -> Scenario:
    team = gang("team", 16, FULL)
    nodes = tuple(station(name, 4) for name in "abcd")
    return Scenario("gang-16", nodes, (team,), (Come(team), rest(team=16)))


def _unlike() -> Scenario:
    """A launcher without a card, four halves, and three that need a card each: one gang on one full node and a bit."""
    shapes: tuple[Shape, ...] = (plain(), HALF, HALF, HALF, HALF, FULL, FULL, FULL)
    team = Team("team", shapes, least=8)
    nodes = (station("a", 4), station("b", 1))
    return Scenario("unlike", nodes, (team,), (Come(team), rest(team=8)))


def _rivals() -> Scenario:
    """Two gangs, and room for one of them: one is bound whole, the other not at all, until the first leaves."""
    one, two = gang("one", 4, FULL), gang("two", 4, FULL)
    either = Rest((MappingProxyType({"one": 4, "two": 0}), MappingProxyType({"one": 0, "two": 4})))
    steps = (Come(one), Come(two), either, GoWhoIsBound((one, two)), either)
    return Scenario("rivals", (station("a", 4),), (one, two), steps)


def _grown() -> Scenario:
    """Members come to a gang that is bound already, and leave it again."""
    team = gang("team", 7, FULL, least=4)
    first, more = (0, 1, 2, 3), (4, 5, 6)
    steps = (Come(team, first), rest(team=4), Come(team, more), rest(team=7), Go(team, (2, 5)), rest(team=5))
    return Scenario("grown", (station("a", 4), station("b", 3)), (team,), steps)


def _torn() -> Scenario:
    """A member is deleted between commit and bind, and comes again under its name."""
    team = gang("team", 6, FULL)
    steps = (
        During(BINDING, "team-5", (Go(team, (5,)),)),
        Come(team),
        Happened(),
        Come(team, (5,)),
        rest(team=6),
    )
    return Scenario("torn", (station("a", 3), station("b", 3)), (team,), steps)


def _namesake() -> Scenario:
    """A member is deleted between commit and bind, and another of its name is there before the Binding is."""
    team = gang("team", 4, FULL)
    steps = (
        During(BINDING, "team-2", (Go(team, (2,)), Come(team, (2,)))),
        Come(team),
        Happened(),
        rest(team=4),
    )
    return Scenario("namesake", (station("a", 2), station("b", 2)), (team,), steps)


def _moved() -> Scenario:
    """Between commit and bind the node is closed, and Bindings are refused for a while: if the first one was lost, the
    pod is planned anew, elsewhere, and whatever becomes of that first one later must not count."""
    one = lone("one", FULL)
    nodes = (station("a", 1), station("b", 1))
    away = tuple(Befall(place, cordoned(node)) for place, node in enumerate(nodes))
    back = tuple(Befall(place, node) for place, node in enumerate(nodes))
    steps = (
        Befall(1, cordoned(nodes[1])),
        During(BINDING, "one-0", (away[0], back[1], Refuse("one-0", times=5))),
        Come(one),
        Happened(),
        rest(one=1),
        Refuse("one-0", times=0),
        back[0],
        rest(one=1),
    )
    return Scenario("moved", nodes, (one,), steps)


def _overtaken() -> Scenario:
    """A gang is about to grow by a member; that leaves, and another gang wants its place."""
    team, rival = gang("team", 3, FULL, least=2), gang("rival", 1, FULL)
    steps = (
        Come(team, (0, 1)),
        rest(team=2),
        During(RECORD_STATUS, "team", (Go(team, (2,)), Come(rival))),
        Come(team, (2,)),
        Happened(),
        rest(team=2, rival=1),
    )
    return Scenario("overtaken", (station("a", 3),), (team, rival), steps, contested=True)


def _slow_end() -> Scenario:
    """A pod that was deleted takes its time to end: until it has, its card is nobody else's."""
    team = replace(gang("team", 2, FULL), held=True)
    late = lone("late", FULL)
    steps = (
        Come(team),
        rest(team=2),
        Come(late),
        rest(team=2, late=0),
        Go(team, (1,)),
        rest(team=1, late=0),
        LetGo(team, (1,)),
        rest(team=1, late=1),
    )
    return Scenario("slow-end", (station("a", 2),), (team, late), steps, contested=True)


def _failing_card() -> Scenario:
    """A card fails under a gang: who holds it keeps it, nobody else is given any of it, and then it is well again."""
    team, late = gang("team", 3, HALF), gang("late", 2, HALF)
    node = station("a", 2)
    steps = (
        Come(team),
        rest(team=3),
        Befall(0, hurt(hurt(node, 0), 1)),
        Come(late),
        rest(team=3, late=0),
        Befall(0, node),
        rest(team=3, late=0),
        Go(team, (0,)),
        rest(team=2, late=2),
    )
    return Scenario("failing-card", (node,), (team, late), steps, contested=True)


def _rolled_back() -> Scenario:
    """One member can never be bound: the others are taken back, and come again when it can."""
    team = Team("team", (FULL,) * 4, least=4, timeout=2, controlled=True)
    steps = (
        Refuse("team-3"),
        Come(team),
        Anew(team, 3),
        Refuse("team-3", times=0),
        rest(team=4),
    )
    return Scenario("rolled-back", (station("a", 4),), (team,), steps)


def _replaced() -> Scenario:
    """Members of a whole gang fail and are made anew by their controller."""
    team = Team("team", (HALF,) * 4, least=4, controlled=True)
    steps = (Come(team), rest(team=4), Go(team, (1, 2)), rest(team=4))
    return Scenario("replaced", (station("a", 2),), (team,), steps)


def _crowd() -> Scenario:
    """Pods on their own share two cards, some leave and others take their part."""
    first, more = Team("first", (slice_of(6),) * 4), Team("more", (slice_of(10),) * 2)
    steps = (
        Come(first),
        rest(first=4),
        Come(more),
        rest(first=4, more=0),
        Go(first, (0, 1, 2, 3)),
        rest(more=2),
    )
    return Scenario("crowd", (station("a", 2),), (first, more), steps, contested=True)


def _counted() -> Scenario:
    """A gang that holds numbers of a device plugin's cards, decided by its record's creation, and a lone pod beside."""
    team, one = gang("team", 3, counted()), lone("one", counted())
    node = station("a", 4, source="device-plugin")
    return Scenario("counted", (node,), (team, one), (Come(team), Come(one), rest(team=3, one=1)))


def _strayed() -> Scenario:
    """A lone pod of a device plugin's cards is bound without a commit. Between plan and bind a better node opens, and
    somebody comes who needs all of the first: there is room for both only if the first was not bound there."""
    one, both = lone("one", counted()), lone("both", counted(2))
    nodes = (station("a", 2, source="device-plugin"), station("b", 1, source="device-plugin"))
    steps = (
        Befall(1, cordoned(nodes[1])),
        During(BINDING, "one-0", (Befall(1, nodes[1]), Come(both))),
        Come(one),
        Happened(),
        Rest((MappingProxyType({"one": 1, "both": 0}), MappingProxyType({"one": 1, "both": 1}))),
    )
    return Scenario("strayed", nodes, (one, both), steps, contested=True)


SCENARIOS: Final = {
    made.name: made
    for made in (
        _single(),
        _gang_of_one(),
        _gang_of_four(),
        _gang_of_sixteen(),
        _unlike(),
        _rivals(),
        _grown(),
        _torn(),
        _namesake(),
        _moved(),
        _overtaken(),
        _slow_end(),
        _failing_card(),
        _rolled_back(),
        _replaced(),
        _crowd(),
        _counted(),
        _strayed(),
    )
}
OUTAGE_SCENARIOS: Final = ("gang-16", "grown", "torn", "rolled-back")
"""In which the apiserver and etcd end as well: a large commit, amended records, a Binding that fails, evictions."""
