"""`python -m elastic --seed 1 --events 300`: elastic gangs judged at every revision while everything comes and goes.

Findings come on standard output as they are found, each with the events that led there; progress on standard error;
the last line of standard output is JSON: {"seed", "events", "gangs", "grown", "shrunk", "replaced", "revisions",
"below_min", "above_max", "flaps", …}. The exit code is 1 if there was any finding.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from elastic import run
from elastic.driver import Driver
from elastic.jobs import NAMESPACES
from witness import plane
from witness.findings import Finding
from witness.screen import Screen


def main() -> int:
    return asyncio.run(_run(_parser().parse_args()))


async def _run(chosen: argparse.Namespace) -> int:
    screen = Screen()

    def show(finding: Finding, driver: Driver) -> None:
        screen.show(finding, driver.led_to(finding.revision, finding.objects))

    def tell(progress: run.Progress) -> None:
        done = f"{progress.events} of {chosen.events} events, {progress.revisions} revisions"
        resting = ", to rest" if progress.resting else ""
        screen.progress(f"{done}, {progress.findings} findings{resting}", notable=progress.resting)

    if chosen.folder is not None:
        chosen.folder.mkdir(parents=True, exist_ok=True)
    async with plane.start(chosen.folder, namespaces=NAMESPACES, elastic=run.VALUES) as running:
        outcome = await run.elastic(
            running,
            seed=chosen.seed,
            events=chosen.events,
            gangs=chosen.gangs,
            told=tell,
            on_finding=show,
        )
    screen.end(outcome.figures)
    return 0 if outcome.clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m elastic", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws everything (default: 1)")
    parser.add_argument("--events", type=int, default=300, help="events to draw (default: 300)")
    parser.add_argument("--gangs", type=int, default=20, help="elastic gangs at least (default: 20)")
    parser.add_argument("--folder", type=Path, help="where the operator's log goes (default: nowhere)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
