"""What each fault does to the call that it meets. What it takes away comes back by itself, a moment later.

A fault is carried out while its call waits: a node that is deleted at a Binding is deleted between commit and bind.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from chaos.faults import OUTAGES, Fault
from chaos.proxy import Forward
from chaos.replica import Replica
from chaos.wire import Answer, refusal
from harness.api import at
from harness.builders import pod
from witness.stations import Station
from witness.words import Object

if TYPE_CHECKING:
    from chaos.run import Run
    from chaos.scenario import Team

AWAY_SECONDS: Final = 1.0
DEAF_SECONDS: Final = 2.0
"""Until watches that were cut have been made again."""
RETRY_SECONDS: Final = 1
TIMES_REFUSED: Final = 2
"""The first Binding and the one that follows it at once."""
ALL_CORES: Final = "64"


async def meddle(run: Run, replica: Replica, fault: Fault, forward: Forward) -> Answer | None:
    """What the operator hears; None is a cut connection."""
    word, number = fault.word, fault.argument
    if word.startswith("kill") or word == "pause":
        return await _end(run, replica, fault, forward)
    if word.endswith("watches") or word.startswith("stale"):
        _watches(run, replica, word, number)
        return await forward()
    if word in OUTAGES:
        run.spawn(run.slot.start_again(await run.slot.end(OUTAGES[word])), vital=True)
        run.disturb(DEAF_SECONDS)
        return await forward()
    if word in ("drop", "drop-answer", "late", "slow", "twice", "answer"):
        return await _answer(run, word, number, forward)
    if not await _hands(run, word, number):
        run.spared(fault)
    return await forward()


async def _end(run: Run, replica: Replica, fault: Fault, forward: Forward) -> Answer | None:
    if fault.word == "pause":
        replica.may_end = True
        replica.stop()
        run.struck(replica)
        await run.slot.successor(replica)
        replica.carry_on()
        return await forward()  # however late: it must not do harm
    replica.doomed = True
    if fault.word == "kill-after":
        await forward()
    replica.kill()
    run.struck(replica)
    if fault.word == "kill-late":
        run.spawn(_land(run, replica, fault.argument, forward))
    return None


async def _land(run: Run, replica: Replica, seconds: float, forward: Forward) -> None:
    """In the time of the next leader, when it has just begun or has already planned."""
    await run.slot.successor(replica)
    await asyncio.sleep(seconds)
    await forward()
    run.disturb(AWAY_SECONDS)


async def _answer(run: Run, word: str, number: int, forward: Forward) -> Answer | None:
    match word:
        case "answer":
            return refusal(number, retry_after=RETRY_SECONDS if number == 429 else None)
        case "drop-answer":
            await forward()
        case "late":
            run.spawn(_later(run, number, forward))
        case "slow":
            await asyncio.sleep(number)
            return await forward()
        case "twice":
            answer = await forward()
            await forward()
            return answer
    return None


async def _later(run: Run, seconds: float, forward: Forward) -> None:
    await asyncio.sleep(seconds)
    await forward()
    run.disturb(AWAY_SECONDS)


def _watches(run: Run, replica: Replica, word: str, number: int) -> None:
    door = replica.door
    run.disturb(DEAF_SECONDS + number)
    match word:
        case "cut-watches":
            door.cut_watches()
        case "hold-watches":
            door.hold_watches(number)
        case "rewind-watches":
            door.rewind_watches(run.version)
        case "stale-pods":
            door.lag("/api/v1/pods", run.version)
        case "stale-nodes":
            door.lag("/api/v1/nodes", run.version)


# -- others' hands ---------------------------------------------------------------------------------------------------


async def _hands(run: Run, word: str, number: int) -> bool:
    """Whether there was anything to do."""
    if run.ending:
        return False  # whatever came back now would never leave
    match word:
        case "delete-node" | "cordon-node" | "relabel-node":
            await _node(run, word, run.stations[number % len(run.stations)])
        case "delete-member" | "recreate-member":
            return await _member(run, number, at_once=word == "recreate-member")
        case "refuse-member":
            return await _refuse(run, number)
        case "compete":
            await _compete(run, run.stations[number % len(run.stations)])
        case _:
            return await _least(run, 1 if word == "raise-least" else -1)
    return True


async def _node(run: Run, word: str, station: Station) -> None:
    changed = {
        "delete-node": replace(station, absent=True),
        "cordon-node": replace(station, cordoned=True),
        "relabel-node": replace(station, rack="elsewhere"),
    }[word]
    await run.befall(station.name, changed)
    run.mend(AWAY_SECONDS, lambda: run.befall(station.name, station))


async def _member(run: Run, number: int, *, at_once: bool) -> bool:
    """A pod of the scenario's is deleted; another of its name comes, at once or after a while."""
    team, place = _chosen(run, number)
    if run.scenario.contested or not await run.stage.there(team, place):
        return False
    await run.stage.go(team, (place,))
    if not team.controlled:
        run.mend(0 if at_once else AWAY_SECONDS, lambda: run.stage.come_again(team, place))
    return True


async def _refuse(run: Run, number: int) -> bool:
    """As an admission policy would that nobody who schedules has heard of."""
    team, place = _chosen(run, number)
    name = team.members[place]
    if not await run.stage.waits(team, place):
        return False
    run.refused[name] = max(run.refused.get(name, 0), TIMES_REFUSED)
    return True


def _chosen(run: Run, number: int) -> tuple[Team, int]:
    team = run.scenario.teams[number % len(run.scenario.teams)]
    return team, number % len(team.members)


async def _compete(run: Run, station: Station) -> None:
    """Somebody else's pod is bound to the node, with all of what can be had there without Alnair, and leaves."""
    name = f"thief-{run.calls}"
    thief = pod(name).by("somebody-else")
    thief = thief.asking(gpu=len(station.cards)) if station.counted else thief.asking(cpu=ALL_CORES)
    await run.slot.hands.create(thief.manifest(), run.namespace)
    target: Object = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": station.name},
    }
    path = at("pods", run.namespace, name)
    await run.slot.hands.call("POST", f"{path}/binding", target)
    run.mend(AWAY_SECONDS, lambda: run.slot.hands.delete(path))


async def _least(run: Run, by: int) -> bool:
    team = run.scenario.teams[0]
    if not team.least:
        return False
    path = at("podgroups", run.namespace, team.name)

    def edit(least: int) -> Object:
        return {"spec": {"minMember": max(1, least)}}

    await run.slot.hands.call("PATCH", path, edit(team.least + by))

    async def back() -> None:
        await run.slot.hands.call("PATCH", path, edit(team.least))

    run.mend(AWAY_SECONDS, back)
    return True
