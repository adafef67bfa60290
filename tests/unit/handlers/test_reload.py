"""The config file under a running operator: whatever is done to it, the next good one is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from alnair.api.config import parse_config
from alnair.control.metrics import Metrics
from alnair.handlers.reload import Adoption, ConfigFile
from alnair.scheduling.profile import build_all
from alnair.scheduling.registry import OURS, Offer, Registry

GOOD = "profiles: [{schedulerName: a, scorers: [BinPack], picker: best-fit}]"
OTHER = GOOD.replace("BinPack", "Spread")


class Unusual:
    """Its options are no model: whoever wrote it has not read the manual."""

    name = "acme.com/Unusual"
    Options = dict

    def score(self, pod: Any, draft: Any) -> Any: ...


SCORERS = {**OURS.offers["scorers"], Unusual.name: Offer(Unusual, "acme-rules")}
UNUSUAL = Registry({**OURS.offers, "scorers": SCORERS})


@dataclass
class Heard:
    """Stands where a leader's Adoption does."""

    adopted: list[list[str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def adopt(self, built: dict[str, Any]) -> None:
        self.adopted.append(list(built))

    def complain(self, why: str) -> None:
        self.complaints.append(why)


class Watched:
    def __init__(self, path: Path, registry: Registry = OURS) -> None:
        self.path = path
        path.write_text(GOOD)
        self.metrics = Metrics()
        self.file = ConfigFile(path, parse_config(GOOD, origin="f"), registry=registry, metrics=self.metrics)
        self.heard = Heard()
        self.file.listener = cast("Adoption", self.heard)

    def becomes(self, text: str | None) -> None:
        if text is None:
            self.path.unlink()
        else:
            self.path.write_text(text)
        self.file.look()

    @property
    def good(self) -> float | None:
        return self.metrics.registry.get_sample_value("alnair_config_good")


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "config.yaml")


def test_another_file_is_taken_once(watched: Watched) -> None:
    watched.becomes(GOOD)
    watched.becomes(OTHER.replace("schedulerName: a", "schedulerName: b"))
    watched.file.look()
    assert (watched.heard.adopted, watched.good) == ([["b"]], 1)


@pytest.mark.parametrize(
    "wrong",
    [
        "profiles: 3",
        "profiles: 2026-13-01",
        "profiles: !!int x",
        GOOD.replace("BinPack", "{name: BinPack, options: {5: x, five: y, 2026-01-01: z}}"),
        GOOD.replace("BinPack", "{name: BinPack, options: {table: {5: x, five: y, 2026-01-01: z}}}"),
    ],
)
def test_a_wrong_file_is_refused_and_the_next_good_one_taken(watched: Watched, wrong: str) -> None:
    watched.becomes(wrong)
    assert (watched.heard.adopted, watched.good, len(watched.heard.complaints)) == ([], 0, 1)
    watched.becomes(OTHER)
    assert (watched.heard.adopted, watched.good) == ([["a"]], 1)


def test_a_file_that_cannot_be_read_for_a_moment_is_good_again_afterwards(watched: Watched) -> None:
    watched.becomes(GOOD)
    watched.becomes(None)
    assert (watched.good, len(watched.heard.complaints)) == (0, 1)
    watched.becomes(GOOD)
    assert (watched.good, watched.heard.adopted) == (1, [])


def test_a_rule_whose_options_cannot_be_made_is_a_broken_rule_and_no_wrong_file(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "config.yaml", UNUSUAL)
    watched.becomes(GOOD.replace("BinPack", "BinPack, {name: acme.com/Unusual, options: {a: 1}}"))
    assert (watched.heard.adopted, watched.heard.complaints) == ([["a"]], [])
    (why,) = watched.file.profiles()["a"].broken
    assert "rule acme.com/Unusual: acme-rules cannot make it: AttributeError" in why


def test_a_file_that_changed_while_the_leader_began_is_taken_when_it_has(watched: Watched) -> None:
    began_with = watched.file.config
    watched.file.listener = None
    watched.becomes(OTHER)

    class Leader(Adoption):
        taken: list[list[str]] = []  # noqa: RUF012 - one test

        def adopt(self, built: Any) -> None:
            self.taken.append([type(scorer).__name__ for scorer, _ in built["a"].scorers])

    nothing = cast("Any", None)
    leader = Leader(
        watched.file,
        began_with,
        profiles=cast("Any", build_all(began_with)),
        roster=nothing,
        ledger=nothing,
        pods=nothing,
        stream=nothing,
        loop=nothing,
        elastic=nothing,
        extender=nothing,
        say=nothing,
    )
    leader.begin()
    assert leader.taken == [["Spread"]]
