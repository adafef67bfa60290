"""Carries the steps of a scenario out on the real control plane, and waits for what they wait for.

All by the administrator's own way to the apiserver, which no fault touches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from chaos.scenario import (
    Anew,
    Befall,
    Come,
    During,
    Go,
    GoWhoIsBound,
    Happened,
    LetGo,
    Refuse,
    Rest,
    Step,
    Team,
    placed,
)
from harness.api import NotInTime, at
from witness.seen import TERMINAL
from witness.words import HOLD, OF, Object

if TYPE_CHECKING:
    from chaos.run import Run

PATIENCE_SECONDS: Final = 150.0
"""T. What takes longer does not converge. The slowest thing that may be waited for is a creation without an answer,
which the apiserver may carry out for a minute more."""
KWOK_SECONDS: Final = 2.0
QUIET_SECONDS: Final = 0.7
LOOK_SECONDS: Final = 0.05


class Stage:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._api = run.slot.api
        self._hands = run.slot.hands

    async def do(self, step: Step) -> None:
        run = self._run
        match step:
            case Come(team, which):
                await self.come(team, which)
            case Go(team, which):
                await self.go(team, which)
            case LetGo(team, which):
                members = which or tuple(range(len(team.shapes)))
                await asyncio.gather(*(self._let_go(team.members[place]) for place in members))
            case GoWhoIsBound(teams):
                names = {team.name for team in teams}
                there = [each for each in await self._pods() if each["metadata"]["labels"][OF] in names]
                gone = [each for each in there if is_bound(each)]
                await asyncio.gather(*(self._delete(each["metadata"]["name"]) for each in gone))
                await self._until_gone({each["metadata"]["uid"] for each in gone})
            case Rest(either):
                await self.rest(either)
            case During():
                run.durings.append(step)
                run.happened.clear()
            case Happened():
                await self._happened()
            case Befall(place, station):
                now = placed(station, run.pool)
                await run.befall(run.stations[place].name, now)
            case Refuse(pod, times):
                run.refused[pod] = times
            case Anew(team, bound):
                await self._anew(team, bound)

    async def come(self, team: Team, which: tuple[int, ...] = ()) -> None:
        """A namesake that is still going away is waited for."""
        run = self._run
        if run.ending:
            return
        members = which or tuple(range(len(team.shapes)))
        made = team.manifests(run.slot.scheduler, run.pool, members)
        await asyncio.gather(*(self._create(manifest, team) for manifest in made))

    async def _create(self, manifest: Object, team: Team) -> None:
        if manifest["kind"] != "Pod":
            await self._hands.create(manifest, self._run.namespace)
            return
        path = at("pods", self._run.namespace, manifest["metadata"]["name"])
        while not await self._hands.create(manifest, self._run.namespace):
            there = await self._hands.persist(lambda: self._api.find(path))
            if there is not None and not there["metadata"].get("deletionTimestamp"):
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def come_again(self, team: Team, place: int) -> None:
        """A namesake of a pod that was just deleted. kwok, which plays the kubelet, ends pods by name and not by UID:
        it may mean the old one and end the new one, which then has to come once more."""
        await self.come(team, (place,))
        await asyncio.sleep(KWOK_SECONDS)
        await self.come(team, (place,))

    async def go(self, team: Team, which: tuple[int, ...] = ()) -> None:
        members = which or tuple(range(len(team.shapes)))
        await asyncio.gather(*(self._delete(team.members[place]) for place in members))

    async def there(self, team: Team, place: int) -> bool:
        return await self._find(team, place) is not None

    async def waits(self, team: Team, place: int) -> bool:
        """It is there, and not bound."""
        found = await self._find(team, place)
        return found is not None and not is_bound(found)

    async def _find(self, team: Team, place: int) -> Object | None:
        path = at("pods", self._run.namespace, team.members[place])
        return await self._hands.persist(lambda: self._api.find(path))

    async def _delete(self, name: str) -> None:
        await self._hands.delete(at("pods", self._run.namespace, name))

    async def _let_go(self, name: str) -> None:
        freed: Object = {"metadata": {"finalizers": None}}
        await self._hands.call("PATCH", at("pods", self._run.namespace, name), freed)

    # -- waiting

    async def rest(self, either: tuple[Mapping[str, int], ...]) -> None:
        """Until it is so, the records say the same, and nobody has anything left to write."""
        run = self._run
        deadline = time.monotonic() + PATIENCE_SECONDS
        seen, since = "", 0.0
        while True:
            left = max(1.0, deadline - time.monotonic())
            pods = await self._api.until_all(
                at("pods", run.namespace),
                lambda pods: self._as_wanted(pods, either),
                timeout=left,
                what=f"{[dict(each) for each in either]} bound in {run.namespace}",
            )
            holders = {each["metadata"]["uid"] for each in pods if _holds(each) and _ours(each)}
            if not await self._recorded(holders, timeout=min(left, 5.0)):
                if time.monotonic() > deadline:
                    raise NotInTime(
                        f"the records of {run.namespace} do not say that {len(holders)} are bound"
                    )
                continue
            # kwok may only just have said that one of them runs: whoever counts them hears of it now.
            if (now := ",".join(each["metadata"]["resourceVersion"] for each in pods)) != seen:
                seen, since = now, time.monotonic()
            quiet = min(run.quiet, time.monotonic() - since)
            if quiet > QUIET_SECONDS and not run.unsettled():
                return
            if time.monotonic() > deadline:
                raise NotInTime(f"{run.namespace} is never quiet; last was {run.told[-3:]}")
            await asyncio.sleep(max(LOOK_SECONDS, QUIET_SECONDS - quiet))

    async def _recorded(self, holders: set[str], *, timeout: float) -> bool:
        try:
            await self._api.until_all(
                at("gpuallocations", self._run.namespace),
                lambda records: _recorded(records, holders),
                timeout=timeout,
            )
        except NotInTime:
            return False
        return True

    def _as_wanted(self, pods: list[Object], either: tuple[Mapping[str, int], ...]) -> bool:
        bound = dict.fromkeys((team.name for team in self._run.scenario.teams), 0)
        for each in pods:
            if _ours(each):
                bound[each["metadata"]["labels"][OF]] += is_bound(each)
        assert any(all(bound[team] == number for team, number in wanted.items()) for wanted in either), bound
        # Whatever others have yet to write about them would look like restlessness.
        waiting = [each["metadata"]["name"] for each in pods if not _is_left_alone(each)]
        assert not waiting, f"{waiting} are still going away, or not said to run"
        return True

    async def _happened(self) -> None:
        try:
            await asyncio.wait_for(self._run.happened.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            raise NotInTime(f"the call that {self._run.durings} wait for never came") from None

    async def _anew(self, team: Team, bound: int) -> None:
        """The first that were bound are gone."""
        first: set[str] = set()

        def gone(pods: list[Object]) -> bool:
            ours = {each["metadata"]["uid"]: each for each in pods}
            now = {uid for uid, each in ours.items() if is_bound(each)}
            if not first and len(now) >= bound:
                first.update(now)
            assert first, f"{len(now)} of {bound} are bound"
            assert not first & ours.keys(), "they are still there"
            return True

        await self._api.until_all(
            at("pods", self._run.namespace), gone, timeout=PATIENCE_SECONDS, what=f"{team.name} made anew"
        )

    async def _until_gone(self, uids: set[str]) -> None:
        await self._api.until_all(
            at("pods", self._run.namespace),
            lambda pods: not uids & {each["metadata"]["uid"] for each in pods},
            timeout=PATIENCE_SECONDS,
        )

    async def _pods(self) -> list[Object]:
        path = at("pods", self._run.namespace)
        return await self._hands.persist(lambda: self._api.items(path, labels=OF))

    # -- the end

    async def clear(self) -> None:
        """Everybody leaves, and no record stays."""
        namespace = self._run.namespace
        for team in self._run.scenario.teams:
            if team.controlled:
                await self._hands.delete(at("statefulsets", namespace, team.name))
        while pods := await self._hands.persist(lambda: self._api.items(at("pods", namespace))):
            await asyncio.gather(*(self._delete(each["metadata"]["name"]) for each in pods))
            await asyncio.gather(*(self._let_go(each["metadata"]["name"]) for each in pods if _held(each)))
            await asyncio.sleep(LOOK_SECONDS)
        await self._api.until_all(
            at("gpuallocations", namespace),
            lambda records: not records,
            timeout=PATIENCE_SECONDS,
            what=f"no record in {namespace}, where no pod is left",
        )
        for team in self._run.scenario.teams:
            if team.least:
                await self._hands.delete(at("podgroups", namespace, team.name))


def is_bound(pod: Object) -> bool:
    """It has its place and means to stay."""
    return _holds(pod) and not pod["metadata"].get("deletionTimestamp")


def _holds(pod: Object) -> bool:
    """What it was given is its own, though it may be on its way out."""
    return bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") not in TERMINAL


def _held(pod: Object) -> bool:
    return HOLD in (pod["metadata"].get("finalizers") or [])


def _is_left_alone(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return _held(pod)
    return not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") == "Running"


def _ours(pod: Object) -> bool:
    return OF in (pod["metadata"].get("labels") or {})


def _recorded(records: list[Object], holders: set[str]) -> bool:
    said: list[str] = []
    for record in records:
        status = record.get("status") or {}
        assert status.get("phase") == "Bound", f"{record['metadata']['name']} is {status.get('phase')}"
        said += [pod["uid"] for pod in status.get("pods") or []]
    assert sorted(said) == sorted(holders), f"{len(said)} recorded, {len(holders)} bound"
    return True
