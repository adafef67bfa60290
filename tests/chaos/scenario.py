"""The words in which scenarios are written: who comes and goes, what is waited for, what must be true at rest.

A scenario names its nodes and teams; the run gives it a namespace, nodes of its own and a scheduler. Nothing in here
does anything: `stage` carries steps out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from alnair.sandbox import fleet
from harness.builders import PodBuilder, group, pod, statefulset
from witness import requests
from witness.requests import Ask, Asked
from witness.stations import RACK, Station
from witness.truth import Card
from witness.words import ASKS, HOLD, KIND, OF, Object

MAIN: Final = "main"
CARD_GIB: Final = 16
"""Every card of a scenario."""
FOR_GOOD: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """A pod's request, and what it must be given."""

    pod: PodBuilder
    asked: Asked


def plain() -> Shape:
    return Shape(pod(MAIN).asking(cpu="1"), Asked())


def slice_of(gib: int, compute: int = 0) -> Shape:
    made = pod(MAIN).asking(cpu="1").slice(memory_gib=gib, compute=compute or None)
    return Shape(made, Asked((Ask(MAIN, memory_mib=1024 * gib, compute=compute),)))


def counted(cards: int = 1) -> Shape:
    """Whole cards of a device plugin's node."""
    return Shape(pod(MAIN).asking(cpu="1", gpu=cards), Asked((Ask(MAIN, cards, whole=True),)))


@dataclass(frozen=True, slots=True)
class Team:
    """Pods that belong together: a gang, or (`least` 0) pods on their own."""

    name: str
    shapes: tuple[Shape, ...]
    """One a member."""
    least: int = 0
    timeout: int = 60
    """scheduleTimeoutSeconds."""
    controlled: bool = False
    """A StatefulSet makes its pods, and makes them anew."""
    held: bool = False
    """Once deleted its pods stay, terminating, until they are let go."""

    @property
    def members(self) -> list[str]:
        return [f"{self.name}-{place}" for place in range(len(self.shapes))]

    def manifests(self, scheduler: str, pool: str, which: tuple[int, ...]) -> list[Object]:
        """Of these members, and of the group, if there is one."""
        made: list[Object] = []
        if self.least:
            made.append(group(self.name, min_member=self.least).giving_up_after(self.timeout).manifest())
        if self.controlled:
            of = self._member(0, scheduler, pool)
            made.append(statefulset(self.name, of, replicas=len(self.shapes)).manifest())
        else:
            made += [
                self._member(place, scheduler, pool).named(self.members[place]).manifest() for place in which
            ]
        return made

    def _member(self, place: int, scheduler: str, pool: str) -> PodBuilder:
        shape = self.shapes[place]
        made = shape.pod.by(scheduler).selecting({RACK: pool}).labelled({OF: self.name})
        made = made.annotated({ASKS: requests.told(shape.asked), KIND: self.name})
        made = made.held_by(HOLD) if self.held else made
        return made.in_group(self.name) if self.least else made


def gang(name: str, members: int, shape: Shape, *, least: int = 0, timeout: int = 60) -> Team:
    return Team(name, (shape,) * members, least or members, timeout)


def lone(name: str, shape: Shape) -> Team:
    return Team(name, (shape,))


# -- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Come:
    """Members are created; all of them if none is named. Those that are there already stay as they are."""

    team: Team
    which: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Go:
    """Members are deleted; all of them if none is named."""

    team: Team
    which: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LetGo:
    """Members of a held team that were deleted may end; all of them if none is named."""

    team: Team
    which: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GoWhoIsBound:
    """Of these teams, the members that have a place are deleted."""

    teams: tuple[Team, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """Waits until one of these is so, and nothing is left to do: team -> members bound."""

    either: tuple[Mapping[str, int], ...]


def rest(**bound: int) -> Rest:
    return Rest((MappingProxyType(bound),))


@dataclass(frozen=True, slots=True)
class Befall:
    """A node becomes another: the station of the same place in the scenario."""

    place: int
    station: Station


@dataclass(frozen=True, slots=True)
class Refuse:
    """Bindings of this pod are refused from now on, as an admission policy would: so many times, or (`FOR_GOOD`) until
    they are allowed (0) again."""

    pod: str
    times: int = FOR_GOOD


@dataclass(frozen=True, slots=True)
class During:
    """The next call about this object is held until the steps are done. A record goes by its owner's name."""

    resource: str
    name: str
    steps: tuple[Come | Go | Befall | Refuse, ...]


@dataclass(frozen=True, slots=True)
class Happened:
    """Waits until every `During` has had its call."""


@dataclass(frozen=True, slots=True)
class Anew:
    """Waits until each of the team's pods is another than it was when this first bound so many."""

    team: Team
    bound: int


Step = Come | Go | LetGo | GoWhoIsBound | Rest | During | Happened | Befall | Refuse | Anew


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    stations: tuple[Station, ...]
    teams: tuple[Team, ...]
    steps: tuple[Step, ...]
    contested: bool = False
    """Somebody waits for just what one member holds: were that deleted, another end than the scenario's would be right,
    so faults leave its members alone."""

    def settled(self, pool: str) -> tuple[Station, ...]:
        """Its nodes, as a run's own."""
        return tuple(placed(station, pool) for station in self.stations)


def station(name: str, cards: int, *, source: str = "topology") -> Station:
    """A node whose cards are told by this source (see `witness.stations`); its real name is the run's to give."""
    kind = fleet.T4.model
    made = tuple(Card(str(place), "", kind, 1024 * CARD_GIB) for place in range(cards))
    return Station(name, source, made, rack="", style=0)


def placed(station: Station, pool: str) -> Station:
    name = f"{station.name}.{pool}"
    cards = tuple(
        replace(
            card,
            id=f"{name}/{card.id}" if station.counted else fleet.card_uuid(name, int(card.id)),
            card=f"{name}#{card.id}",
        )
        for card in station.cards
    )
    return replace(station, name=name, rack=pool, cards=cards)


def cordoned(station: Station) -> Station:
    return replace(station, cordoned=True)


def hurt(station: Station, place: int) -> Station:
    """One of its cards is not healthy."""
    cards = tuple(
        replace(card, healthy=card.healthy and index != place) for index, card in enumerate(station.cards)
    )
    return replace(station, cards=cards)
