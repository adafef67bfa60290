"""`python -m failover --seed 1 --rounds 100`: the leader falls again and again; every revision is judged.

Findings come on standard output as they are found, progress on standard error; the last line of standard output is
JSON. The exit code is 1 if there was any finding.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from failover import run
from failover.load import NAMESPACE
from witness import plane
from witness.screen import Screen


def main() -> int:
    chosen = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="alnair-") as scratch:
        folder = chosen.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        return asyncio.run(_run(chosen, folder))


async def _run(chosen: argparse.Namespace, folder: Path) -> int:
    screen = Screen()
    faults = run.draw(chosen.seed, chosen.rounds)

    def tell(progress: run.Progress) -> None:
        done = f"{progress.rounds} of {len(faults)} rounds, {progress.revisions} revisions"
        screen.progress(f"{done}, {progress.findings} findings, {progress.seconds:.1f} s to the next bind")

    async with plane.start(folder, namespaces=(NAMESPACE,)) as running:
        outcome = await run.failover(
            running,
            seed=chosen.seed,
            faults=faults,
            folder=folder,
            told=tell,
            on_finding=screen.show,
        )
    screen.end(outcome.figures)
    return 0 if outcome.clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m failover", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws everything (default: 1)")
    parser.add_argument(
        "--rounds",
        type=int,
        default=100,
        help="kills and pauses, beside a fifth as many clean ends (default: 100)",
    )
    parser.add_argument("--folder", type=Path, help="where the operators' logs go (default: nowhere)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
