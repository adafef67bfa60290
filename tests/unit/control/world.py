"""All of Alnair but Kopf, on an apiserver of our own: for races that the real control plane shows once in a thousand.

    async with World(min_member=2) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}

A `Leader` is one process: books, roster, ledger, loop and listener, wired as `handlers.leader` wires them, on a
client and a lease of its own. Pods, nodes, groups and records reach it as events of the store, in order, through the
feeds of the operator; a leader that is `deaf` gets them later. Time is the test's. Reports stay unwritten, and so do
topologies unless a test lets `publisher` run.

At every revision the store is checked: a pod that Alnair bound is where a committed record says and stays there, and no
two records list one pod. Who breaks that fails the test that it happened in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import pytest

from alnair.api import names
from alnair.control import outcomes
from alnair.control.events import Events
from alnair.control.failures import Failures
from alnair.control.gangs import Gang, Roster
from alnair.control.loop import Loop
from alnair.control.metrics import Metrics
from alnair.control.outcomes import Outcomes
from alnair.control.profiles import Profiles
from alnair.control.publishing import Publisher
from alnair.control.reports import Reports
from alnair.handlers import podgroup
from alnair.handlers.feeds import NodeFeed, PodFeed
from alnair.handlers.owners import Owners
from alnair.handlers.resync import Resync
from alnair.handlers.storage import KINDS, StorageFeed
from alnair.handlers.topology import Topologies
from alnair.kube import Client
from alnair.ledger import cards, eviction, ledger, recovery, repair, sightings, writer
from alnair.ledger.lease import Lease, LeaseSettings
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import PATH, Member, Owner, Record, decided
from alnair.scheduling.profile import Profile
from alnair.state import wire
from alnair.state.cluster import ClusterState
from alnair.state.holding import Holding
from alnair.state.inventory import Inventory
from alnair.state.pods import TERMINAL_PHASES
from harness.builders import NodeBuilder, PodBuilder, group, node, pod
from unit.apiserver import Manifest, Store
from unit.builders import PROFILES, READY, HandClock, decoded

NAMESPACE = "team"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = f"/apis/{names.API_PODGROUP}/namespaces/{NAMESPACE}/{names.PLURAL_PODGROUP}"
RECORDS = f"{PATH}/namespaces/{NAMESPACE}/{names.PLURAL_ALLOCATION}"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/alnair/leases/alnair"
WORKER = pod("worker").by("alnair").asking(cpu="100m")
NOT_READY = [{"type": "Ready", "status": "Unknown"}]
TICK = 0.002


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long in a unit test."""
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(eviction, "BUDGET_PAUSE", 0.01)
    monkeypatch.setattr(ledger, "BINDING_PAUSE", 0.01)
    monkeypatch.setattr(ledger, "SETTLE_PAUSE", 0.01)
    monkeypatch.setattr(ledger, "JUDGE_PAUSE", 0.01)
    monkeypatch.setattr(sightings, "LOOK_PAUSE", 0.01)
    monkeypatch.setattr(ledger, "GATHER_SECONDS", 0.002)
    monkeypatch.setattr(cards, "LOCKED_PAUSE", 0.002)
    monkeypatch.setattr(cards, "REFUSED_PAUSE", 0.01)
    monkeypatch.setattr(outcomes, "TICK_SECONDS", TICK)


def record_name(group_uid: str = "uid-of-g", owner: str = "g") -> str:
    return names.record_name(owner, group_uid)


class Leader:
    """One process of Alnair."""

    def __init__(self, world: World, client: Client, identity: str) -> None:
        self.server = world.server
        self.clock = world.clock
        self.deaf = True
        self.opened = False  # it has stamped the records: from then on it hears of objects
        self._unheard: list[tuple[str, str, Manifest]] = []
        self._running: list[asyncio.Task[None]] = []
        self._settled: recovery.Settled = []
        ours = frozenset(world.profiles)
        metrics = Metrics()
        self.metrics = metrics
        self.profiles = Profiles(world.profiles, clock=self.clock, metrics=metrics)
        self.state = ClusterState()
        self.lease = Lease(
            client, LeaseSettings("alnair", "alnair", identity), self.clock, serves=lambda: world.profiles
        )
        self.ledger = Ledger(
            client=client,
            state=self.state,
            lease=self.lease,
            clock=self.clock,
            schedulers=ours,
            instance="alnair.alnair",
        )
        self.roster = Roster(ours, on_change=self._touched)
        lull = self.ledger.lull
        self.events = Events(client, clock=self.clock, metrics=metrics, identity=identity, lull=lull)
        self.reports = Reports(client, events=self.events, roster=self.roster, clock=self.clock, lull=lull)
        self.loop = Loop(
            state=self.state,
            ledger=self.ledger,
            roster=self.roster,
            profiles=self.profiles,
            reports=self.reports,
            metrics=metrics,
            clock=self.clock,
        )
        self.state.on_freed = self.loop.wake
        self.outcomes = Outcomes(
            failures=Failures(ledger=self.ledger, reports=self.reports, clock=self.clock),
            roster=self.roster,
            loop=self.loop,
            reports=self.reports,
            metrics=metrics,
            clock=self.clock,
        )
        self.ledger.listener = self.outcomes
        self.publisher = Publisher(client, state=self.state, lull=lull)
        self.state.on_cards = self._cards_changed
        self._zones = Topologies(self.state, self.reports, self.publisher)
        self._resync = Resync(client, roster=self.roster, topologies=self._zones, ledger=self.ledger)
        self._pods = PodFeed(
            state=self.state,
            ledger=self.ledger,
            roster=self.roster,
            reports=self.reports,
            clock=self.clock,
            delivering=world.delivering,
            measuring=frozenset({names.PROFILE_UTILIZATION}),
            owners=Owners(client, clock=self.clock),
            on_arrival=self.profiles.arrived,
        )
        self._nodes = NodeFeed(state=self.state, ledger=self.ledger, reports=self.reports, clock=self.clock)
        self._storage = {
            kind.path.rsplit("/", 1)[1]: StorageFeed(kind, state=self.state, ledger=self.ledger)
            for kind in KINDS
        }
        self.server.listeners.append(self._hear)

    def _touched(self, gang: Gang) -> None:
        self.loop.touch(gang)

    def _cards_changed(self, name: str, before: Inventory, now: Inventory) -> None:
        self.publisher.cards_changed(name)
        cards.observe(self.ledger, name)
        if (there := self.state.nodes.get(name)) is not None:
            self.reports.node_cards(name, there.uid, before, now)

    async def take_over(self) -> None:
        """From the lease to the stamp: every record is ours, and of the rest only the pods are known yet."""
        await self.lease.acquire()
        self._settled = await recovery.stamp_open(self.ledger, listed=self._list_pods)

    async def look_around(self) -> None:
        """The first lists, before anything is carried on."""
        self._unheard.clear()
        self.deaf, self.opened = False, True
        await self._resync.until_done()
        self._nodes.replace([decoded(each, wire.Node) for each in self._listed("/nodes/")])
        self._list_pods()
        for plural, feed in self._storage.items():
            feed.replace([decoded(each, feed.kind.wire) for each in self._listed(f"/{plural}/")])

    def _list_pods(self) -> None:
        self._pods.replace([decoded(each, wire.Pod) for each in self._listed("/pods/")])

    async def carry_on(self) -> None:
        """Recovery, then planning."""
        await recovery.fence_alone(self.ledger)
        await self.lease.confirm()
        recovery.resume(self.ledger)
        self.loop.adopt_strays()
        self.ledger.spawn(recovery.stamp_settled(self.ledger, self._settled), "stamp what is settled")
        await self._resync.records()
        self._running = [
            asyncio.create_task(self.loop.run()),
            asyncio.create_task(self.outcomes.keep_time(self.ledger)),
            asyncio.create_task(self.events.run()),
        ]

    async def lead(self) -> None:
        await self.take_over()
        await self.look_around()
        await self.carry_on()

    async def dies(self) -> None:
        """kill -9: whatever is under way ends where it is."""
        if self._hear in self.server.listeners:
            self.server.listeners.remove(self._hear)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = []
        await self.ledger.under_way.close()
        if self.ledger.failure.done():
            self.ledger.failure.exception()  # fetched, so that nobody is warned of it

    def puts_errands_off(self) -> None:
        """As if there were urgent work all the time."""
        lull = self.ledger.lull
        lull.busy(True)
        self._say_busy, lull.busy = lull.busy, lambda _: None  # type: ignore[method-assign]

    def runs_errands(self) -> None:
        self.ledger.lull.busy = self._say_busy  # type: ignore[method-assign]
        self.ledger.lull.busy(False)

    def hears_again(self) -> None:
        """All that it missed, in order."""
        self.deaf = False
        unheard, self._unheard = self._unheard, []
        for event in unheard:
            self._deliver(*event)

    def is_told_again(self, pod: wire.Pod) -> None:
        """An event that comes late: the stream is put back to an earlier version of the pod."""
        self._pods.put(pod)

    async def lists_again(self) -> None:
        """The relist of every minute."""
        await self._resync.once()

    def lists_pods_without(self, *missing: str) -> None:
        """The stream lists anew, and the list lacks these."""
        there = [decoded(each, wire.Pod) for each in self._listed("/pods/")]
        self._pods.replace([each for each in there if each.metadata.name not in missing])

    @property
    def at_rest(self) -> bool:
        return not self.ledger.under_way and not (self._running and self.loop._wake.is_set())

    @property
    def gave_up(self) -> bool:
        """It found out that it does not lead any more."""
        return self.ledger.failure.done()

    def gang(self, name: str = "g") -> Gang:
        return self.roster.gangs[NAMESPACE, names.KIND_PODGROUP, name]

    def record(self, group_uid: str = "uid-of-g") -> Record:
        return self.ledger.records[NAMESPACE, record_name(group_uid)]

    def _listed(self, part: str) -> list[Manifest]:
        return [manifest for path, manifest in self.server.objects.items() if part in path]

    def _hear(self, kind: str, path: str, manifest: Manifest) -> None:
        if self.deaf:
            self._unheard.append((kind, path, manifest))
        else:
            asyncio.get_running_loop().call_soon(self._deliver, kind, path, manifest)

    def _deliver(self, kind: str, path: str, manifest: Manifest) -> None:
        plural = path.split("/")[-2]
        if plural == "pods":
            thing = decoded(manifest, wire.Pod)
            (self._pods.drop if kind == "DELETED" else self._pods.put)(thing)
        elif plural == "nodes":
            machine = decoded(manifest, wire.Node)
            (self._nodes.drop if kind == "DELETED" else self._nodes.put)(machine)
        elif plural == names.PLURAL_PODGROUP:
            podgroup.apply(self.roster, kind, manifest)
        elif plural == names.PLURAL_ALLOCATION:
            repair.observe(self.ledger, kind, manifest)
        elif plural == names.PLURAL_NRT:
            labelled = names.MANAGED_BY in manifest["metadata"].get("labels", {})
            self._zones.apply(kind, manifest, labelled=labelled)
        elif (feed := self._storage.get(plural)) is not None:
            (feed.drop if kind == "DELETED" else feed.put)(decoded(manifest, feed.kind.wire))


class World:
    """An apiserver with node n1 and, unless told otherwise, PodGroup g; leaders come with `start`."""

    def __init__(
        self,
        *,
        min_member: int = 1,
        nodes: Iterable[NodeBuilder] = (node("n1"),),
        delivering: frozenset[str] = frozenset(),
        profiles: Mapping[str, Profile] = PROFILES,
    ) -> None:
        self.profiles = profiles
        self.delivering = delivering
        self.clock = HandClock()
        self.server = Store()
        self.leaders: list[Leader] = []
        self.broken: list[str] = []  # promises, with the revision
        self.strays: set[str] = set()  # UIDs of pods that the test has bound without a record
        self._places: dict[str, str] = {}
        self._first_group = min_member
        self._first_nodes = tuple(nodes)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.server)
        self.server.listeners.append(self._check)
        for each in self._first_nodes:
            self.node(each)
        self.group(min_member=self._first_group)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        for leader in self.leaders:
            await leader.dies()
        await self._stack.aclose()
        assert kind is not None or not self.broken, self.broken

    # -- what is there -------------------------------------------------------------------------------------------

    def node(self, sentence: NodeBuilder, *, ready: bool = True) -> None:
        manifest, *zones = sentence.manifests()
        manifest["status"]["conditions"] = READY if ready else NOT_READY
        self.server.put(f"/api/v1/nodes/{sentence.name}", manifest)
        for each in zones:
            self.server.put(f"/apis/{names.API_NRT}/{names.PLURAL_NRT}/{sentence.name}", each)

    def group(
        self, name: str = "g", *, min_member: int, uid: str = "uid-of-g", timeout: int | None = None
    ) -> None:
        """The PodGroup; said again it is edited, said with another UID it is deleted and made anew."""
        path = f"{GROUPS}/{name}"
        there = self.server.objects.get(path)
        if there is not None and there["metadata"]["uid"] != uid:
            self.server.remove(path)
            there = None
        sentence = group(name, min_member=min_member)
        manifest = (sentence.giving_up_after(timeout) if timeout is not None else sentence).manifest()
        generation = there["metadata"]["generation"] + 1 if there else 1
        manifest["metadata"] |= {"uid": uid, "generation": generation}
        self.server.put(path, manifest)

    def becomes_elastic(self, group: str = "g", *, least: int, most: int, **fields: Any) -> None:
        """The group's members are replicas of StatefulSet s; `fields`: what else its spec says."""
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"}
        fields["elastic"] = {"min": least, "max": most, "targetRef": target}
        there = self.server.objects[f"{GROUPS}/{group}"]
        self.server.put(f"{GROUPS}/{group}", {**there, "spec": {**there["spec"], **fields}})

    def pods(self, *which: str, **fields: Any) -> None:
        for name in which:
            self.pod(name, **fields)

    def pod(
        self,
        name: str,
        *,
        on: str = "",
        phase: str = "",
        group: str = "g",
        like: PodBuilder = WORKER,
        controlled: bool = True,
        uid: str = "",
        **metadata: Any,
    ) -> None:
        """A pod; bound with `on`. Its UID is `uid-NAME`."""
        sentence = like.named(name)
        manifest = (sentence.in_group(group) if group else sentence).manifest()
        manifest["metadata"] |= {"uid": uid or f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        manifest["metadata"] |= metadata
        if controlled:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
            manifest["metadata"]["ownerReferences"] = [owner]
        if on:
            manifest["spec"]["nodeName"] = on
        manifest.setdefault("status", {})["phase"] = phase or ("Running" if on else "Pending")
        self.server.put(f"{PODS}/{name}", manifest)

    def ends(self, *which: str, phase: str = "Succeeded", reason: str = "") -> None:
        for name in which:
            there = self.server.objects[f"{PODS}/{name}"]
            self.server.put(f"{PODS}/{name}", {**there, "status": {"phase": phase, "reason": reason}})

    def deletes(self, *which: str) -> None:
        for name in which:
            self.server.remove(f"{PODS}/{name}")

    def vanish_while_bound(self, *which: str) -> None:
        """Each is deleted the moment before its Binding arrives."""
        for name in which:
            self.server.first(f"POST {name}/binding", lambda name=name: self.deletes(name))  # type: ignore[misc]

    def wrote(
        self,
        phase: str,
        *members: str,
        min_member: int,
        complete: bool = False,
        group_uid: str = "uid-of-g",
        epoch: int = 5,
        holding: Holding = Holding("n1"),  # noqa: B008 - a value that never changes
        holdings: dict[str, Holding] | None = None,
    ) -> None:
        """The record that an earlier leader left."""
        record = Record(
            Owner(names.KIND_PODGROUP, NAMESPACE, "g", group_uid), "alnair", min_member, epoch, phase=phase
        )
        record.satisfied = complete
        for name in members:
            place = (holdings or {}).get(name, holding)
            record.members[f"uid-{name}"] = Member(f"uid-{name}", name, place)
        status = {"status": record.status()} if members else {}
        self.server.put(record.path, {**record.manifest(), **status})

    # -- who leads -----------------------------------------------------------------------------------------------

    async def process(self) -> Leader:
        """One more process, which does nothing yet."""
        client = await self._stack.enter_async_context(Client(self.server.connection()))
        leader = Leader(self, client, f"leader-{len(self.leaders) + 1}")
        self.leaders.append(leader)
        return leader

    async def start(self) -> Leader:
        """One more process, which leads; whoever led before has lost the lease and does not know it."""
        self.lease_expires()
        leader = await self.process()
        await leader.lead()
        return leader

    async def restart(self) -> Leader:
        await self.leader.dies()
        return await self.start()

    def lease_expires(self) -> None:
        if there := self.server.objects.get(LEASE):
            self.server.put(LEASE, {**there, "spec": {**there["spec"], "holderIdentity": ""}})

    @property
    def leader(self) -> Leader:
        return self.leaders[-1]

    # -- time ----------------------------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Until nobody has anything under way."""
        await self.settled_but()

    async def settled_but(self, *stuck: Leader) -> None:
        """The same of all leaders but these."""
        quiet = 0
        async with asyncio.timeout(5):
            while quiet < 3:
                asked = len(self.server.calls)
                await asyncio.sleep(0.002)
                at_rest = all(each.at_rest for each in self.leaders if each not in stuck)
                quiet = quiet + 1 if at_rest and len(self.server.calls) == asked else 0

    async def until(self, so: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not so():  # noqa: ASYNC110 - about anything, not only about what has an event
                await asyncio.sleep(0.001)

    async def passes(self, seconds: float) -> None:
        """All is said and done, then so much time passes, and what comes of it."""
        await self.settled()
        self.clock.pass_(seconds)
        await asyncio.sleep(5 * TICK)
        await self.settled()

    # -- what became of it ---------------------------------------------------------------------------------------

    def where(self) -> dict[str, str]:
        """Pod -> its node, of those that are bound."""
        return {
            path.rsplit("/", 1)[1]: manifest["spec"]["nodeName"]
            for path, manifest in self.server.objects.items()
            if path.startswith(PODS) and manifest["spec"].get("nodeName")
        }

    def said(self, group_uid: str = "uid-of-g") -> dict[str, Any]:
        """The status of the group's record; empty if there is none."""
        return self.server.objects.get(f"{RECORDS}/{record_name(group_uid)}", {}).get("status") or {}

    def listed(self) -> dict[str, list[str]]:
        """Record -> the pods that it lists."""
        return {
            path.rsplit("/", 1)[1]: _pods_of(manifest)
            for path, manifest in self.server.objects.items()
            if path.startswith(RECORDS)
        }

    def evicted(self) -> list[str]:
        return [call.path.split("/")[-2] for call in self.server.calls if call.path.endswith("/eviction")]

    def written(self) -> list[str]:
        """The writes so far, Leases and events aside."""
        aside = ("leases", "events")
        return [
            call.name
            for call in self.server.calls
            if call.method != "GET" and not any(each in call.name for each in aside)
        ]

    def news(self, about: str = "g") -> list[str]:
        """The reasons of the events about an object."""
        return [
            manifest["reason"]
            for path, manifest in self.server.objects.items()
            if "/events/" in path and manifest["regarding"]["name"] == about
        ]

    # -- at every revision ---------------------------------------------------------------------------------------

    def _check(self, kind: str, path: str, manifest: Manifest) -> None:
        version = manifest["metadata"]["resourceVersion"]
        if path.startswith(RECORDS):
            counted = Counter(uid for status in self._statuses() for uid in _uids_of(status))
            self.broken += [f"{version}: {uid} is in two records" for uid, n in counted.items() if n > 1]
            for at, each in self.server.objects.items():
                if at.startswith(PODS):
                    self._check_recorded(version, each)
        if path.startswith(PODS) and kind != "DELETED":
            uid, place = manifest["metadata"]["uid"], manifest["spec"].get("nodeName", "")
            before = self._places.get(uid)
            self._places[uid] = place
            if before and before != place:
                self.broken.append(f"{version}: {uid} was on {before} and is on {place or 'no node'}")
            self._check_recorded(version, manifest)

    def _check_recorded(self, version: str, pod: Manifest) -> None:
        meta, place = pod["metadata"], pod["spec"].get("nodeName")
        ours = names.NODE in meta.get("annotations", {}) and names.POD_GROUP_LABEL in meta.get("labels", {})
        if not ours or pod["status"]["phase"] in TERMINAL_PHASES or meta["uid"] in self.strays:
            return
        if not any(_uids_of(status).get(meta["uid"]) == place for status in self._statuses()):
            self.broken.append(f"{version}: {meta['uid']} is bound to {place} and no record says so")

    def _statuses(self) -> list[dict[str, Any]]:
        """What every record says was decided; a forgery that cannot be read says nothing."""
        found = []
        for path, manifest in self.server.objects.items():
            if path.startswith(RECORDS):
                with suppress(ValueError):
                    found.append(decided(manifest))
        return found


def _uids_of(status: dict[str, Any]) -> dict[str, str]:
    return {each["uid"]: each["node"] for each in status.get("pods") or [] if "uid" in each}


def _pods_of(manifest: Manifest) -> list[str]:
    return [each["name"] for each in (manifest.get("status") or {}).get("pods") or []]


def record_writes(call: Any) -> bool:
    """Every write of a record's status."""
    return call.method == "PUT" and names.PLURAL_ALLOCATION in call.path and call.path.endswith("/status")
