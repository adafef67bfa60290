"""`python -m chaos --seed 1 --runs 300`: every crash point of every scenario, then fault histories of the seed.

Failures come on standard output as they are found, progress on standard error; the last line of standard output is
JSON: {"crash_points", "histories", "revisions", "violations", "recovery_p50_s", "recovery_p99_s", …}. The exit code is
1 if there was any violation. `--replay 'gang-4 3:kill-after 7:answer=503'` runs one history alone, and tells its calls.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import sys
from pathlib import Path

from chaos import plane
from chaos.campaign import Campaign, unexplained
from chaos.faults import History, parse
from chaos.histories import draw, each_once
from chaos.run import Outcome, Run
from chaos.scenarios import OUTAGE_SCENARIOS, SCENARIOS
from witness.screen import Screen


def main() -> int:
    faulthandler.enable()  # a run of an hour once ended with SIGABRT and no word
    return asyncio.run(_run(_parser().parse_args()))


async def _run(chosen: argparse.Namespace) -> int:
    screen = Screen()
    if chosen.folder is not None:
        chosen.folder.mkdir(parents=True, exist_ok=True)
    scenarios = chosen.scenario or list(SCENARIOS)

    def failed(outcome: Outcome, smallest: History) -> None:
        print(f"FAILED (seed {chosen.seed}): {outcome.history}", flush=True)
        print(f"    replay: make chaos REPLAY='{smallest}'", flush=True)
        for finding in outcome.findings:
            screen.show(finding)
        for line in outcome.told:
            print(f"    {line}", flush=True)

    slots = 1 if chosen.replay else chosen.slots
    async with plane.start(chosen.folder, slots=slots) as running:
        if chosen.replay:
            return await _replay(running, parse(chosen.replay), chosen.times)
        campaign = Campaign(running, told=screen.progress, on_failure=failed)
        await campaign.count(scenarios)
        if not chosen.histories_only:
            await campaign.crash_points()
        if chosen.runs and not chosen.histories_only:
            await campaign.outages(name for name in OUTAGE_SCENARIOS if name in scenarios)
        fixed = each_once() if chosen.runs else ()
        await campaign.histories((*fixed, *draw(chosen.seed, chosen.runs, campaign.tally.calls)))
        for finding in unexplained(running):
            screen.show(finding)
        figures = {"seed": chosen.seed, **campaign.tally.figures(running)}
    screen.end(figures)
    return 1 if figures["violations"] else 0


async def _replay(running: plane.Plane, history: History, times: int) -> int:
    code = 0
    for _ in range(times):
        outcome = await Run(running.slots[0], history, running.court).carry_out()
        print(f"{history}: {'FAILED' if outcome.failed else 'clean'}, {outcome.seconds:.1f} s")
        for line in outcome.told:
            print(f"    {line}")
        for finding in outcome.findings:
            print(finding)
        print(f"    recoveries {[round(each, 2) for each in outcome.recoveries]}", flush=True)
        code |= outcome.failed
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws the histories (default: 1)")
    parser.add_argument("--runs", type=int, default=300, help="histories to draw; 0: crash points alone")
    parser.add_argument("--histories-only", action="store_true", help="no crash points and no outages")
    parser.add_argument(
        "--slots", type=int, default=plane.SLOTS, help="runs side by side (default: %(default)s)"
    )
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only these")
    parser.add_argument("--replay", help="one history, as a failure prints it")
    parser.add_argument("--times", type=int, default=1, help="how often it is replayed")
    parser.add_argument("--folder", type=Path, help="where the operators' logs go (default: nowhere)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
