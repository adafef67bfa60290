"""`python -m churn --seed 1 --pods 3000`: the ledger checked at every revision while everything comes and goes.

Findings come on standard output as they are found, progress on standard error; the last line of standard output is
JSON: {"pods", "revisions", "over_allocations", "mismatches", "leaks", …}. The exit code is 1 if there was any finding,
or a kind of request that never found a place ("never_bound"): of that the run would prove nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from churn import run
from churn.workload import NAMESPACES
from witness import plane
from witness.screen import Screen


def main() -> int:
    chosen = _parser().parse_args()
    return asyncio.run(_run(chosen))


async def _run(chosen: argparse.Namespace) -> int:
    screen = Screen()

    def tell(progress: run.Progress) -> None:
        done = f"{progress.pods} of {chosen.pods} pods, {progress.revisions} revisions"
        screen.progress(f"{done}, {progress.findings} findings")

    if chosen.folder is not None:
        chosen.folder.mkdir(parents=True, exist_ok=True)
    async with plane.start(chosen.folder, namespaces=NAMESPACES) as running:
        outcome = await run.churn(
            running,
            seed=chosen.seed,
            pods=chosen.pods,
            nodes=chosen.nodes,
            rate=chosen.rate,
            told=tell,
            on_finding=screen.show,
        )
    screen.end(outcome.figures)
    return 0 if outcome.clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m churn", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws everything (default: 1)")
    parser.add_argument("--pods", type=int, default=3000, help="pods to draw (default: 3000)")
    parser.add_argument("--nodes", type=int, default=60, help="nodes of the cluster (default: 60)")
    parser.add_argument(
        "--rate", type=float, default=run.PODS_A_SECOND, help="pods a second at most (default: %(default)g)"
    )
    parser.add_argument("--folder", type=Path, help="where the operator's log goes (default: nowhere)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
