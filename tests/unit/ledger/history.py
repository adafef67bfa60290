"""One history of a small cluster: what tenants, kubelets, nodes and the network do, and what must hold all the while.

The books, ledger, recovery and loop are the operator's own (`unit.control.world`), on a loop whose time jumps and a
network whose troubles are dealt (`unit.jumping`). After every revision of the store:

- no card is given beyond its memory, compute or slots, or beside one who shares with nobody: not by all records
  together, and not by the pods that are really on it (those deleted by force on a node out of reach included);
- whoever holds a card is in a record, of its UID and node (with `World`: in one, and where it was put it stays);
- a record's epoch does not go back, and nobody so much as tries to put it back.

At the end the troubles cease. Then every record is whole and of living pods, a gang is whole or has nothing, who waits
does not fit, nothing more is written; and when the pods are gone, so are the records and all that the books hold.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any

from alnair.api import names
from alnair.control.asking import Question, sample
from alnair.ledger import places
from alnair.ledger.errors import CommitRefused, RecordMoved
from alnair.ledger.lease import LeadershipLost
from alnair.ledger.records import BOUND, Unparsable, parse
from alnair.scheduling import search
from alnair.state.holding import Holding, parse_annotation
from harness.builders import node, pod
from unit.apiserver import Call, Manifest
from unit.builders import card
from unit.control.world import GROUPS, PODS, RECORDS, WORKER, Leader, World
from unit.jumping import Fate, JumpingLoop, LoopClock, Network, QuietStore

GIB = 1024
NODES = (
    node("n1").with_cards(2, memory_mib=16 * GIB),
    node("n2").with_cards(1, memory_mib=16 * GIB),
    node("p1").with_cards(2, memory_mib=16 * GIB).owned_by("device-plugin"),
)
CARDS = {card("n1", 0): 16 * GIB, card("n1", 1): 16 * GIB, card("n2", 0): 16 * GIB}
COUNTED = {"p1": 2}
SLOTS = 16
CONTROLLED_PHASES = ("Succeeded", "Failed")
KINDS = {
    "half": WORKER.slice(memory_gib=8, compute=50),
    "most": WORKER.slice(memory_gib=10),
    "whole": WORKER.asking(gpu=1),
    "exact": pod("worker").by("alnair").asking(cpu="100m").slice_by_annotation("16Gi").exclusively(),
    "none": WORKER,
}


class History(World):
    """What happens is said by methods; `passes` lets time go on."""

    def __init__(self) -> None:
        super().__init__(nodes=NODES, min_member=2)
        self.clock = LoopClock()  # type: ignore[assignment]
        self.server: QuietStore = QuietStore()
        self.network = Network(self.server)
        self.network.on_death = self._somebody_died
        self.ghosts: dict[str, tuple[str, Holding]] = {}  # UID -> node and what it still holds there
        self._gone: set[str] = set()  # names of dead leaders
        self._down: set[str] = set()  # nodes that are not ready
        self._uids = itertools.count(1)
        self._chores: set[asyncio.Task[None]] = set()
        self._epochs: dict[str, int] = {}
        self._calm = False

    async def begins(self) -> None:
        await self.__aenter__()
        self.server.listeners.insert(0, self._look)

    # -- who leads -----------------------------------------------------------------------------------------------

    async def process(self) -> Leader:
        name = f"leader-{len(self.leaders) + 1}"
        leader = Leader(self, self.network.client(name), name)
        leader.ledger.failure.add_done_callback(lambda failure: self._lost(failure, leader))
        self.leaders.append(leader)
        return leader

    @property
    def living(self) -> list[Leader]:
        return [each for each in self.leaders if _name(each) not in self._gone]

    async def somebody_leads(self) -> None:
        """One more process takes the lease; whoever had it does not know."""
        self.lease_expires()
        leader = await self.process()
        self._do(self._lead(leader))

    async def _lead(self, leader: Leader) -> None:
        work = asyncio.create_task(leader.lead())
        leader._running.append(work)
        try:
            await work
        except LeadershipLost:
            self._somebody_died(_name(leader))
        except asyncio.CancelledError:
            if _name(leader) not in self._gone:
                raise

    def _lost(self, failure: asyncio.Future[None], leader: Leader) -> None:
        if not failure.cancelled() and failure.exception() is not None:
            self._somebody_died(_name(leader))  # the process ends when it hears that

    def dies(self, number: int) -> None:
        self._somebody_died(_name(self.living[number % len(self.living)]))

    def _somebody_died(self, name: str) -> None:
        if name in self._gone:
            return
        self._gone.add(name)
        self.network.dead.add(name)
        leader = next(each for each in self.leaders if _name(each) == name)
        self._do(leader.dies())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    # -- what happens --------------------------------------------------------------------------------------------

    def there(self) -> list[str]:
        """Pods, by name."""
        return sorted(path.rsplit("/", 1)[1] for path in self.server.objects if path.startswith(f"{PODS}/"))

    def _pod(self, name: str) -> Manifest:
        return self.server.objects[f"{PODS}/{name}"]

    def gang(self, name: str, *, size: int, least: int, kind: str, most: int = 0, **fields: Any) -> None:
        """The group and its pods, as far as they are not there; `most`: it is elastic."""
        if f"{GROUPS}/{name}" not in self.server.objects:
            self.group(name, min_member=least, uid=f"uid-of-{name}-{next(self._uids)}")
            if most:
                self.becomes_elastic(name, least=least, most=most, **fields)
            elif fields:
                there = self.server.objects[f"{GROUPS}/{name}"]
                self.server.put(f"{GROUPS}/{name}", {**there, "spec": {**there["spec"], **fields}})
        for index in range(size):
            self.comes(f"{name}-{index}", kind=kind, group=name)

    def comes(self, name: str, *, kind: str, group: str) -> None:
        """A pod, unless one of that name is there. Its UID is new."""
        if f"{PODS}/{name}" not in self.server.objects:
            self.pod(name, group=group, like=KINDS[kind], uid=f"{name}-{next(self._uids)}")

    def needs(self, name: str, least: int) -> None:
        """The group's minMember is edited."""
        if (there := self.server.objects.get(f"{GROUPS}/{name}")) is not None:
            meta = {**there["metadata"], "generation": there["metadata"]["generation"] + 1}
            self.server.put(
                f"{GROUPS}/{name}", {**there, "metadata": meta, "spec": {**there["spec"], "minMember": least}}
            )

    def group_goes(self, name: str) -> None:
        if f"{GROUPS}/{name}" in self.server.objects:
            self.server.remove(f"{GROUPS}/{name}")

    def is_told_to_go(self, name: str) -> None:
        """Deleted: at once where no kubelet has it."""
        there = self._pod(name)
        if not there["spec"].get("nodeName"):
            self.server.remove(f"{PODS}/{name}")
        elif not there["metadata"].get("deletionTimestamp"):
            meta = {**there["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.server.put(f"{PODS}/{name}", {**there, "metadata": meta})

    def goes(self, name: str) -> None:
        """Its kubelet has stopped it; only where that can be reached."""
        there = self._pod(name)
        if there["metadata"].get("deletionTimestamp") and there["spec"].get("nodeName") not in self._down:
            self.server.remove(f"{PODS}/{name}")

    def is_deleted_by_force(self, name: str) -> None:
        there = self._pod(name)
        where = there["spec"].get("nodeName", "")
        if where in self._down and (holding := _held(there)) is not None:
            self.ghosts[there["metadata"]["uid"]] = (where, holding)
        self.server.remove(f"{PODS}/{name}")

    def ends_as(self, name: str, phase: str) -> None:
        there = self._pod(name)
        if there["spec"].get("nodeName", "") not in self._down:
            self.server.put(f"{PODS}/{name}", {**there, "status": {"phase": phase}})

    def rival_binds(self, name: str, where: str) -> None:
        """Another scheduler takes a pod of ours."""
        there = self._pod(name)
        if not there["spec"].get("nodeName") and not there["metadata"].get("deletionTimestamp"):
            self.server.put(f"{PODS}/{name}", {**there, "spec": {**there["spec"], "nodeName": where}})

    def node_is(self, name: str, *, ready: bool) -> None:
        sentence = next(each for each in NODES if each.name == name)
        (self._down.discard if ready else self._down.add)(name)
        if ready:
            self.ghosts = {uid: ghost for uid, ghost in self.ghosts.items() if ghost[0] != name}
        self.node(sentence, ready=ready)

    def grows(self, number: int) -> None:
        """Places for one more member of a whole gang are committed, as its sizing would do it."""
        if not self.living:
            return
        leader = self.living[-1]
        whole = [each for each in leader.ledger.records.values() if each.satisfied and not each.closing]
        gangs = {gang.owner: gang for gang in leader.roster.gangs.values() if gang.pods and gang.is_group}
        whole = [each for each in whole if each.owner in gangs and not each.lock.locked()]
        if not whole:
            return
        record = whole[number % len(whole)]
        gang = gangs[record.owner]
        asked = leader.loop.asker.searched_more(gang, sample(gang), 1)
        with leader.state.draft() as draft:
            verdict = search.place(asked, self.profiles[gang.scheduler], draft)
        if not isinstance(verdict, search.Plan):
            return
        until = leader.clock.stamp(after=30.0)
        found = [holding for _, holding in verdict.placements]
        taken = places.reserve(leader.ledger, record, found, pod=sample(gang), reason="Growth", until=until)

        async def write() -> None:
            try:
                await places.write_size(leader.ledger, record, record.live() + len(taken), taken)
            except (RecordMoved, CommitRefused):
                return

        leader.ledger.spawn(write(), f"grow {record}")

    def meets(self, fate: Fate, *, after: int) -> None:
        """The write that comes after so many others."""
        self.network.fates[self.network.number + after] = fate

    def happens_meanwhile(self, what: str, *, after: int, number: int) -> None:
        """Just before that write takes effect: to the pod that it is about, or to any."""

        def happens(call: Call) -> None:
            there, parts = self.there(), call.path.split("/")
            about = parts[6] if len(parts) > 6 and parts[5] == "pods" else ""
            name = about if about in there else there[number % len(there)] if there else ""
            if what == "takeover":
                self._do(self.somebody_leads())
            elif what == "death" and self.living:
                self.dies(number)
            elif name:
                self._befalls(what, name)

        self.network.meanwhile[self.network.number + after] = happens

    def _befalls(self, what: str, name: str) -> None:
        there = self._pod(name)
        match what:
            case "namesake":
                group = there["metadata"].get("labels", {}).get(names.POD_GROUP_LABEL, "")
                self.is_deleted_by_force(name)
                self.comes(name, kind="half", group=group)
            case "force":
                self.is_deleted_by_force(name)
            case "deletion":
                self.is_told_to_go(name)
            case "rival":
                self.rival_binds(name, NODES[0].name)
            case "end":
                self.ends_as(name, "Failed")

    def hears_nothing(self, number: int) -> None:
        if self.living:
            self.living[number % len(self.living)].deaf = True

    def hear_again(self) -> None:
        for each in self.living:
            if each.opened and each.deaf and each._unheard and each._running:
                each.hears_again()

    # -- at every revision ---------------------------------------------------------------------------------------

    def _look(self, kind: str, path: str, manifest: Manifest) -> None:
        version = manifest["metadata"]["resourceVersion"]
        if path.startswith((RECORDS, PODS)):
            self._look_at_cards(version)
        if path.startswith(RECORDS) and kind != "DELETED":
            epoch = int((manifest.get("status") or {}).get("epoch") or 0)
            if epoch < self._epochs.get(manifest["metadata"]["uid"], 0):
                self.broken.append(f"{version}: the epoch of {path} goes back to {epoch}")
            self._epochs[manifest["metadata"]["uid"]] = epoch
        if self._calm and path.startswith(PODS) and manifest["metadata"].get("deletionTimestamp"):
            name = path.rsplit("/", 1)[1]
            asyncio.get_running_loop().call_later(1.0, self._kubelet, name, manifest["metadata"]["uid"])

    def _kubelet(self, name: str, uid: str) -> None:
        there = self.server.objects.get(f"{PODS}/{name}")
        if there is not None and there["metadata"]["uid"] == uid:
            self.server.remove(f"{PODS}/{name}")

    def _look_at_cards(self, version: str) -> None:
        recorded: dict[str, Holding] = {}
        listed = []
        for path, manifest in self.server.objects.items():
            if path.startswith(RECORDS):
                try:
                    record = parse(manifest)
                except Unparsable as error:
                    self.broken.append(f"{version}: {path}: {error}")
                    continue
                listed += [each.holding for each in record.members.values()]
                listed += [each.holding for each in record.places.values()]
                recorded |= {each.uid: each.holding for each in record.members.values()}
        self.broken += [f"{version}: by the records {each}" for each in overfull(listed)]
        really = {uid: holding for uid, (_, holding) in self.ghosts.items()}
        really |= {
            manifest["metadata"]["uid"]: holding
            for path, manifest in self.server.objects.items()
            if path.startswith(f"{PODS}/") and (holding := _held(manifest)) is not None
        }
        self.broken += [f"{version}: by the pods {each}" for each in overfull(really.values(), counted=True)]
        for uid, holding in really.items():
            if any(holding.slices()) and recorded.get(uid) != holding:
                self.broken.append(
                    f"{version}: {uid} holds {holding}, and the records say {recorded.get(uid)}"
                )

    # -- at the end ----------------------------------------------------------------------------------------------

    async def comes_to_rest(self) -> None:
        """No more troubles: what is under way lands, kubelets work, somebody leads."""
        self.network.fates.clear()
        self.network.meanwhile.clear()
        self._calm = True
        for each in NODES:
            self.node_is(each.name, ready=True)
        self.hear_again()
        for each in self.living:
            each.deaf = not each.opened  # who takes over opens its ears by itself, after the stamps
        for name in self.there():
            if self._pod(name)["metadata"].get("deletionTimestamp"):
                self.goes(name)
        await asyncio.sleep(90)
        if not any(each.lease.held and each._running for each in self.living):
            await self.somebody_leads()
        await asyncio.sleep(1000)  # growing pauses, kept places, overdue places, another look for strays
        leader = self.living[-1]
        assert not self.broken, self.broken
        self._all_is_whole()
        self._who_waits_does_not_fit(leader)
        before = len(self.network.writes)
        await asyncio.sleep(500)
        assert self.network.writes[before:] == [], "it does not come to rest"

    def _all_is_whole(self) -> None:
        listed: Counter[str] = Counter()
        alive = {
            manifest["metadata"]["uid"]: manifest["spec"].get("nodeName", "")
            for path, manifest in self.server.objects.items()
            if path.startswith(f"{PODS}/") and manifest["status"]["phase"] not in CONTROLLED_PHASES
        }
        for path, manifest in self.server.objects.items():
            if path.startswith(RECORDS):
                record = parse(manifest)
                assert record.phase == BOUND, f"{path} is left {manifest}"
                assert record.satisfied, f"{path} is left {manifest}"
                assert record.members, f"{path} is left without pods"
                for member in record.members.values():
                    assert alive.get(member.uid) == member.holding.node, f"{path} lists {member}, {alive}"
                    listed[member.uid] += 1
                assert not record.places, f"{path} still keeps {record.places}"
        assert all(number == 1 for number in listed.values()), listed
        for path, manifest in self.server.objects.items():
            if path.startswith(f"{PODS}/") and (holding := _held(manifest)) is not None:
                needs_one = (
                    names.POD_GROUP_LABEL in manifest["metadata"].get("labels", {}) or holding.containers
                )
                uid = manifest["metadata"]["uid"]
                assert listed[uid] or not needs_one, f"{path} is bound and in no record"

    def _who_waits_does_not_fit(self, leader: Leader) -> None:
        for gang in list(leader.roster.gangs.values()):
            question = leader.loop.asker.ask(gang)
            if isinstance(question, Question) and not gang.busy:
                asked = leader.loop.asker.searched(gang, question, question.waiting)
                with leader.state.draft() as draft:
                    verdict = search.place(asked, self.profiles[gang.scheduler], draft)
                assert not isinstance(verdict, search.Plan), f"{gang} would fit, and waits: {gang.refusal}"

    async def empties(self) -> None:
        """All pods go."""
        for name in self.there():
            self.server.remove(f"{PODS}/{name}")
        await asyncio.sleep(200)
        assert not self.broken, self.broken
        left = [path for path in self.server.objects if path.startswith(RECORDS)]
        assert left == [], f"records without pods: {left}"
        assert not self.living[-1].state.holdings, self.living[-1].state.holdings

    async def is_over(self) -> None:
        for leader in self.leaders:
            self._gone.add(_name(leader))
            self.network.dead.add(_name(leader))
            await leader.dies()
        for task in list(self._chores):
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)


def overfull(holdings: Iterable[Holding], *, counted: bool = False) -> list[str]:
    """What of the cards is given twice."""
    memory: Counter[str] = Counter()
    compute: Counter[str] = Counter()
    slots: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for holding in holdings:
        numbers[holding.node] += holding.counted
        for use in holding.footprint():
            memory[use.card] += use.memory_mib
            compute[use.card] += use.compute_percent
            slots[use.card] += use.slots
            whole[use.card] += use.whole
    found = [f"{each} has {memory[each]} MiB given" for each in memory if memory[each] > CARDS.get(each, 0)]
    found += [f"{each} has {compute[each]} % given" for each in compute if compute[each] > 100]
    found += [f"{each} has {slots[each]} users" for each in slots if slots[each] > SLOTS]
    found += [
        f"{each} is shared, and somebody has all of it" for each in whole if whole[each] and slots[each] > 1
    ]
    if counted:
        found += [
            f"{each} has {numbers[each]} cards given" for each in COUNTED if numbers[each] > COUNTED[each]
        ]
    return found


def _held(manifest: Manifest) -> Holding | None:
    """What a pod holds by the word of its Binding; None if it holds nothing (any more)."""
    where, text = (
        manifest["spec"].get("nodeName"),
        (manifest["metadata"].get("annotations") or {}).get(names.GPU_SLICES),
    )
    if not where or not text or manifest["status"]["phase"] in CONTROLLED_PHASES:
        return None
    return Holding(where, parse_annotation(text))


def _name(leader: Leader) -> str:
    return leader.lease._settings.identity


__all__ = ["KINDS", "NODES", "Fate", "History", "JumpingLoop", "LoopClock"]
