"""A profile put together from what an old file names: which filters stay, and weights that fit ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from alnair.scheduling.importing.equivalents import ALWAYS, MANDATORY, OPTIONAL

LARGEST_WEIGHT: Final = 1000
DEFAULT_NAME: Final = "alnair-imported"


def one_line(text: str) -> str:
    """Old files are anybody's: what they say must neither move a terminal nor end a comment."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something of the old file that the profile does not have (`lost`), or has in another way."""

    where: str
    text: str
    lost: bool = False

    def __str__(self) -> str:
        return one_line(f"{self.where}: {self.text}")


@dataclass(frozen=True, slots=True)
class Taken:
    """A rule of ours, and what of the old file it stands for."""

    name: str
    origins: tuple[str, ...]
    weight: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Imported:
    """A profile, and all that is to be said about it. With `only` the other two are empty."""

    origin: str
    scheduler_name: str
    only: tuple[Taken, ...] | None
    enable: tuple[Taken, ...]
    disable: tuple[Taken, ...]
    named: Mapping[str, tuple[str, ...]]  # old name -> the filters that do it here
    scorers: tuple[Taken, ...]
    picker: Taken
    remarks: tuple[Remark, ...]


class Assembly:
    """Collects rules and remarks while a file is read."""

    def __init__(self) -> None:
        self._filters: dict[str, list[str]] = {}
        self._options: dict[str, dict[str, Any]] = {}
        self._named: dict[str, tuple[str, ...]] = {}
        self._scorers: dict[str, Taken] = {}
        self.remarks: list[Remark] = []

    def remark(self, where: str, text: str) -> None:
        self.remarks.append(Remark(where, text))

    def lose(self, where: str, text: str) -> None:
        self.remarks.append(Remark(where, text, lost=True))

    def filter(self, origin: str, *names: str, options: Mapping[str, Any] | None = None) -> None:
        self._named[origin] = (*self._named.get(origin, ()), *names)
        for name in names:
            origins = self._filters.setdefault(name, [])
            if origin not in origins:
                origins.append(origin)
            if options:
                self._options[name] = dict(options)

    def scores(self, name: str) -> bool:
        return name in self._scorers

    def score(self, origin: str, name: str, weight: int, options: Mapping[str, Any] | None = None) -> None:
        """Several old names for one scorer add up."""
        before = self._scorers.get(name, Taken(name, (), 0))
        self._scorers[name] = Taken(
            name, (*before.origins, origin), before.weight + weight, {**before.options, **(options or {})}
        )

    def score_label(self, origin: str, name: str, weight: int, entry: Mapping[str, Any]) -> None:
        """For scorers that weigh several labels: one more of them."""
        before = self._scorers.get(name)
        labels = [*before.options["labels"]] if before else []
        self.score(origin, name, weight, {"labels": [*labels, {**entry, "weight": weight}]})

    def finished(self, *, origin: str, scheduler_name: str, all_filters: bool, exact: bool) -> Imported:
        """`all_filters`: the file leaves them to kube-scheduler's defaults, which are all there are."""
        only: tuple[Taken, ...] | None = None
        enable: tuple[Taken, ...] = ()
        disable: tuple[Taken, ...] = ()
        if exact and not all_filters:
            for name in MANDATORY:
                self._filters.setdefault(name, [ALWAYS[name]])
            only = tuple(self._filter(name) for name in self._filters)
            self._say_what_exact_means()
        else:
            enable = tuple(self._filter(name) for name in self._filters if name in self._options)
            if not all_filters:
                disable = tuple(
                    Taken(name, (old,)) for name, old in OPTIONAL.items() if name not in self._filters
                )
                self._say_what_stays_and_goes(disable)
        return Imported(
            origin=origin,
            scheduler_name=scheduler_name,
            only=only,
            enable=enable,
            disable=disable,
            named=self._named,
            scorers=self._weighted(),
            picker=self._picker(),
            remarks=tuple(self.remarks),
        )

    def _filter(self, name: str) -> Taken:
        return Taken(name, tuple(self._filters[name]), options=self._options.get(name, {}))

    def _say_what_exact_means(self) -> None:
        left_out = [name for name in (*ALWAYS, *OPTIONAL) if name not in self._filters]
        if left_out:
            self.remark(
                "filters",
                f"only those of the file, so not {', '.join(left_out)}: pods can be placed where they cannot run",
            )

    def _say_what_stays_and_goes(self, disabled: Sequence[Taken]) -> None:
        stays = [name for name in ALWAYS if name not in self._filters]
        if stays:
            self.remark("filters", f"{', '.join(stays)} stay on, though the file does not name them")
        if disabled:
            self.remark(
                "filters",
                f"{', '.join(each.name for each in disabled)} are off, because the file does not name them: what pods "
                "demand of that kind is not looked at",
            )

    def _picker(self) -> Taken:
        """kube-scheduler knew no cards. They are filled as the nodes are."""
        weights = {name: taken.weight for name, taken in self._scorers.items()}
        if "Utilization" in weights:
            return Taken("coolest", ("the card that is used least, as the file likes idle nodes",))
        fills = weights.get("MostRequested", 0) + weights.get("BinPack", 0)
        spreads = weights.get("LeastRequested", 0) + weights.get("Spread", 0)
        if spreads > fills:
            return Taken("worst-fit", ("the emptiest card, as the file likes empty nodes",))
        return Taken("best-fit", ("the fullest card that has room",))

    def _weighted(self) -> tuple[Taken, ...]:
        if not self._scorers:
            self.remark("scorers", "none are left, so one node is as good as another")
            return (Taken("Equal", ("no priority",)),)
        divisor = math.gcd(*(taken.weight for taken in self._scorers.values()))
        largest = max(taken.weight for taken in self._scorers.values()) // divisor
        if largest <= LARGEST_WEIGHT:
            divisor = divisor if largest * divisor > LARGEST_WEIGHT else 1
            return tuple(_with_weight(taken, taken.weight // divisor) for taken in self._scorers.values())
        self.remark(
            "scorers",
            f"weights go up to {LARGEST_WEIGHT} here; they were made smaller in proportion, small ones roughly",
        )
        scale = largest * divisor
        return tuple(
            _with_weight(taken, max(1, taken.weight * LARGEST_WEIGHT // scale))
            for taken in self._scorers.values()
        )


def _with_weight(taken: Taken, weight: int) -> Taken:
    return Taken(taken.name, taken.origins, weight, taken.options)
