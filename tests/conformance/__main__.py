"""`python -m conformance --seed 1 --pairs 20000`: our filters against the real kube-scheduler.

Disagreements come on standard output as they are found, progress on standard error; the last line of standard output
is JSON: {"pairs", "disagreements", "decided": {rule: how often}, "seed", …}. The exit code is 1 if there was any.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from conformance import compare, plane, report
from conformance.shrink import shrink

LINE_EVERY = 10
"""Scenarios between two lines of progress, where there is no terminal to write over the last one."""


def main() -> int:
    chosen = _parser().parse_args()
    return asyncio.run(_run(chosen))


async def _run(chosen: argparse.Namespace) -> int:
    began = time.monotonic()

    def show(found: compare.Disagreement) -> None:
        text = report.written(found, seed=chosen.seed)
        if chosen.folder is not None:
            path = report.save(found, chosen.folder, seed=chosen.seed)
            text = "\n".join(line for line in text.splitlines() if line.startswith("#")) + f"\n# {path}\n"
        print(f"---\n{text}", flush=True)

    def tell(outcome: compare.Outcome) -> None:
        seconds = time.monotonic() - began
        line = f"{outcome.pairs} of {chosen.pairs} pairs, {outcome.disagreeing_pairs} disagreements, {seconds:.0f} s"
        if sys.stderr.isatty():
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        elif outcome.scenarios % LINE_EVERY == 0:
            print(line, file=sys.stderr, flush=True)

    async with plane.start() as running:
        outcome = await compare.run(
            running,
            seed=chosen.seed,
            pairs=chosen.pairs,
            first=chosen.first,
            told=tell,
            on_disagreement=show,
        )
        for found in outcome.disagreements[: chosen.shrink]:
            smallest = await shrink(running, found)
            print(f"---\n# The smallest for this:\n{report.written(smallest, seed=chosen.seed)}", flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for refusal in outcome.refused:
        print(f"left out, for the apiserver would not have it: {refusal}", file=sys.stderr)
    result = {
        "pairs": outcome.pairs,
        "disagreements": outcome.disagreeing_pairs,
        "decided": dict(outcome.decided),
        "seed": chosen.seed,
        "fit": outcome.fit,
        "scenarios": outcome.scenarios,
        "left_out": len(outcome.refused),
        "scheduler_errors": outcome.errors,
        "asked_again": outcome.asked_again,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result), flush=True)
    return 1 if outcome.disagreements else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws the scenarios (default: 1)")
    parser.add_argument("--pairs", type=int, default=20_000, help="pod-node pairs to judge (default: 20000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first scenario (default: 0)")
    parser.add_argument(
        "--folder",
        type=Path,
        help="write each disagreement to a file there, and only its outline to the output",
    )
    parser.add_argument(
        "--shrink",
        type=int,
        default=0,
        metavar="N",
        help="look for the smallest case of the first N disagreements",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
