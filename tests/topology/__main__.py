"""`python -m topology --seed 1 --cases 5000`: our arithmetic of NUMA alignment against the kubelet's own code.

Disagreements come on standard output, shrunk; progress on standard error; the last line of standard output is JSON:
{"cases", "disagreements", "decided": {policy/scope/QoS: {"admitted", "refused"}}, "left_to_chance", "seed", "seconds"}.
The exit code is 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from alnair.sandbox.progress import Report
from topology.kubelet import Kubelet, program
from topology.run import Result, run

LINE_EVERY = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m topology", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="draws the cases (default: 1)")
    parser.add_argument("--cases", type=int, default=5000, help="cases to decide (default: 5000)")
    chosen = parser.parse_args()
    began = time.monotonic()

    def tell(result: Result) -> None:
        if result.cases % LINE_EVERY == 0:
            found = len(result.disagreements)
            seconds = time.monotonic() - began
            line = f"{result.cases} of {chosen.cases} cases, {found} disagreements, {seconds:.0f} s"
            print(line, file=sys.stderr, flush=True)

    with Kubelet(program(Report())) as kubelet:
        result = run(chosen.seed, chosen.cases, kubelet.verdicts, tell)
    for text in result.disagreements:
        print(f"---\n{text}")
    summary = {
        "cases": result.cases,
        "disagreements": len(result.disagreements),
        "decided": result.decided,
        "left_to_chance": result.left_to_chance,
        "seed": chosen.seed,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(summary), flush=True)
    return 1 if result.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
