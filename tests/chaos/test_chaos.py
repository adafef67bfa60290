"""A fixed small part of the chaos; `make chaos` does the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import plane
from chaos.campaign import Campaign, quantile
from chaos.faults import parse
from chaos.hunt import hunt
from chaos.run import Outcome
from harness.rights import Note
from witness.findings import MISMATCH, OVER_ALLOCATION

HISTORIES = (
    "gang-4 2:kill-before",
    "gang-4 4:kill-after",
    "torn 2:kill-after",
    "torn 5:kill-before",
    "gang-4 3:pause",
    "gang-4 1:answer=503 2:drop 4:drop-answer 6:twice",
    "torn 1:cut-watches 3:answer=409 5:late=1 6:hold-watches=2",
    "gang-4 2:rewind-watches 3:stale-pods 5:slow=1",
)
SOON_CAUGHT = {
    "commit-after-bind": MISMATCH,
    "release-on-deletion-timestamp": MISMATCH,
    "capacity-not-assumed": OVER_ALLOCATION,
}


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute by itself, but it waits for a machine that has more to do
async def test_whatever_is_killed_cut_or_repeated_gangs_end_whole(tmp_path: Path, noted: Note) -> None:
    told: list[str] = []

    def failed(outcome: Outcome, _: object) -> None:
        told.append(f"{outcome.history}:\n" + "\n".join(map(str, (*outcome.findings, *outcome.told))))

    async with plane.start(tmp_path, slots=2, noted=noted) as running:
        campaign = Campaign(running, on_failure=failed)
        await campaign.histories(map(parse, HISTORIES))
        figures = campaign.tally.figures(running)
    assert figures["violations"] == 0, "\n".join(told)
    wanted = sorted(fault.what for text in HISTORIES for fault in parse(text).faults)
    assert sorted(campaign.tally.faults.elements()) == wanted, "every fault has met its call"
    assert figures["recoveries"] == 5


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_operators_with_a_bug_are_caught(tmp_path: Path) -> None:
    """Those that soon give themselves away; `make hunt` has all of them."""
    async with plane.start(tmp_path, slots=2) as running:
        caught = await hunt(running, SOON_CAUGHT)
    assert {each.mutant for each in caught if SOON_CAUGHT[each.mutant] in each.kinds} == SOON_CAUGHT.keys()


def test_quantiles_are_numbers_that_were_there() -> None:
    numbers = [float(number) for number in range(1, 101)]
    assert (quantile(numbers, 0.5), quantile(numbers, 0.99)) == (51.0, 100.0)
    assert quantile([], 0.5) is None
