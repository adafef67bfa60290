"""A fixed small part of the run; `make failover` does the rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from failover import run
from failover.load import NAMESPACE
from harness.rights import Note
from witness import plane


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_leader_that_is_killed_paused_or_ended_breaks_no_promise(tmp_path: Path, noted: Note) -> None:
    async with plane.start(tmp_path, namespaces=(NAMESPACE,), noted=noted) as running:
        outcome = await run.failover(running, seed=7, faults=("pause", "end", "kill"), folder=tmp_path)
    assert not outcome.findings, "\n".join(str(each) for each in outcome.findings)
    figures = outcome.figures
    assert (figures["kills"], figures["pauses"], figures["ends"], figures["terms"]) == (1, 1, 1, 4)
    assert figures["to_bind_p50_s"] > 0


def test_a_run_has_as_many_kills_as_pauses_and_some_clean_ends_in_an_order_of_its_own() -> None:
    drawn = run.draw(1, 100)
    assert Counter(drawn) == {"kill": 50, "pause": 50, "end": 20}
    assert drawn == run.draw(1, 100) != run.draw(2, 100)
