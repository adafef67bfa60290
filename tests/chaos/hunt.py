"""`python -m chaos.hunt`: every mutant is let loose on the real control plane, and has to be caught.

One line for each on standard output, with the history that caught it and what was found. Then the histories that caught
are run once more with operators as they are: whatever is found then was not the mutant's doing. The last line is JSON:
{"mutants", "caught", "by": {mutant: [history, kinds of findings]}, "runs": {mutant: until it was caught}, "escaped",
"control": {"histories", "violations"}}.
The exit code is 1 if one escaped, or if the control has violations.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import plane
from chaos.campaign import Campaign
from chaos.court import Court
from chaos.faults import parse
from chaos.mutants import MUTANTS, environment
from chaos.plane import Plane
from chaos.run import ITSELF, Outcome, Run
from chaos.slot import Slot

ROUNDS = 3
"""Some bugs show only where two writes meet, and a busy machine lets them pass each other: the histories of a bug are
gone through so many times before it has escaped. `make chaos` draws hundreds."""
KOPF_SECONDS = 2.0
"""Until Kopf of a new process watches: a group that comes before is heard of later, and writes have other numbers."""


@dataclass(frozen=True, slots=True)
class Catch:
    mutant: str
    history: str
    """Empty: it escaped."""
    kinds: tuple[str, ...] = ()
    words: str = ""
    runs: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.history:
            return f"ESCAPED  {self.mutant}: {MUTANTS[self.mutant].wrong} ({self.runs} runs, {self.seconds:.0f} s)"
        found = f"{', '.join(self.kinds)} by '{self.history}', run {self.runs}, after {self.seconds:.0f} s"
        return f"caught   {self.mutant}: {found}\n             {self.words[:200]}"


async def hunt(running: Plane, mutants: Iterable[str]) -> list[Catch]:
    """As many at a time as there are slots."""
    waiting, caught = list(mutants)[::-1], []

    async def hunter(slot: Slot) -> None:
        while waiting:
            found = await catch(slot, running.court, waiting.pop())
            print(found, flush=True)
            caught.append(found)

    async with asyncio.TaskGroup() as hunters:
        for slot in running.slots:
            hunters.create_task(hunter(slot))
    return caught


async def catch(slot: Slot, court: Court, name: str) -> Catch:
    """Its histories one after the other, until one of them is judged."""
    began, histories = time.monotonic(), MUTANTS[name].histories * ROUNDS
    slot.environment = environment(name)
    await slot.start_anew()
    await asyncio.sleep(KOPF_SECONDS)
    try:
        for runs, history in enumerate(histories, 1):
            outcome = await Run(slot, parse(history), court).carry_out()
            found = [each for each in outcome.findings if not each.what.startswith(ITSELF)]
            if found:
                kinds = tuple(sorted({finding.kind for finding in found}))
                return Catch(name, history, kinds, found[0].what, runs, time.monotonic() - began)
    finally:
        slot.environment = {}
        await slot.start_anew()
    return Catch(name, "", runs=len(histories), seconds=time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.hunt", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--mutant", action="append", choices=sorted(MUTANTS), help="only this one; again for more"
    )
    parser.add_argument("--slots", type=int, default=plane.SLOTS, help="(default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the operators' logs go (default: nowhere)")
    chosen = parser.parse_args()
    if chosen.folder is not None:
        chosen.folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_run(chosen.mutant or list(MUTANTS), chosen.slots, chosen.folder))


async def _run(mutants: Sequence[str], slots: int, folder: Path | None) -> int:
    async with plane.start(folder, slots=min(slots, len(mutants))) as running:
        found = await hunt(running, mutants)
        control = Campaign(running, on_failure=_false_alarm)
        await control.histories(map(parse, sorted({each.history for each in found if each.history})))
    escaped = [each.mutant for each in found if not each.history]
    by = {each.mutant: [each.history, *each.kinds] for each in found if each.history}
    tally = control.tally
    figures = {
        "mutants": len(found),
        "caught": len(by),
        "by": by,
        "runs": {each.mutant: each.runs for each in found if each.history},
        "escaped": escaped,
        "control": {"histories": tally.histories, "violations": tally.violations},
    }
    print(json.dumps(figures), flush=True)
    return 1 if escaped or tally.violations else 0


def _false_alarm(outcome: Outcome, _: object) -> None:
    print(f"FALSE ALARM  {outcome.history}, without any mutant", flush=True)
    for finding in outcome.findings:
        print(f"             {finding}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
