"""Claims before Bindings: what is written and waited for, and what becomes of gangs that cannot have their volumes.

The apiserver is ours, and so are the controllers: `Controllers` binds claims to volumes that name them, and makes
volumes for claims that name a node, unless it is told not to.
"""

from __future__ import annotations

import asyncio

import pytest

from alnair.ledger import volumes
from alnair.ledger.records import COMMITTED
from alnair.state import wire
from alnair.state.holding import Holding
from harness.builders import Built, NodeBuilder, node
from harness.storage import BIND_COMPLETED, DRIVER, HOSTNAME, claim, storage_class, volume
from unit.apiserver import Manifest, Store
from unit.builders import decoded
from unit.control.world import NAMESPACE, PODS, WORKER, World

CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PATHS = {"PersistentVolumeClaim": CLAIMS, "PersistentVolume": VOLUMES, "StorageClass": CLASSES}
SELECTED = "volume.kubernetes.io/selected-node"
LOCAL, MADE = storage_class("local"), storage_class("made", provisioner=DRIVER)


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "LOOK_SECONDS", 0.01)


def host(name: str) -> NodeBuilder:
    return node(name).labelled({HOSTNAME: name})


def has(world: World, *things: Built) -> None:
    for thing in things:
        manifest = thing.manifest()
        world.server.put(f"{PATHS[manifest['kind']]}/{manifest['metadata']['name']}", manifest)


def worker(world: World, name: str, *claims: str, group: str = "g") -> None:
    world.pod(name, like=WORKER.mounting(*claims), group=group)


class Controllers:
    """kube-controller-manager and a provisioner, of which the test says what they do."""

    def __init__(self, world: World, *, binds: bool = True, makes: bool = True) -> None:
        self.binds, self.makes = binds, makes
        self.server: Store = world.server
        self.refused: list[str] = []  # nodes that no volume could be made for
        self.server.listeners.append(self._see)

    def _see(self, kind: str, path: str, manifest: Manifest) -> None:
        if kind != "DELETED" and path.startswith((CLAIMS, VOLUMES)):
            asyncio.get_running_loop().call_soon(self.look)

    def look(self) -> None:
        for path, manifest in list(self.server.objects.items()):
            if (
                path.startswith(VOLUMES)
                and self.binds
                and (manifest["spec"].get("claimRef") or {}).get("uid")
            ):
                self._bind(manifest)
            if path.startswith(CLAIMS) and self.makes:
                self._make(path, manifest)

    def _bind(self, there: Manifest) -> None:
        path = f"{CLAIMS}/{there['spec']['claimRef']['name']}"
        asking = self.server.objects[path]
        if asking["spec"].get("volumeName"):
            return
        assert there["spec"]["claimRef"]["uid"] == asking["metadata"]["uid"]
        annotations = {**asking["metadata"].get("annotations", {}), **BIND_COMPLETED}
        spec = {**asking["spec"], "volumeName": there["metadata"]["name"]}
        self.server.put(path, {**asking, "metadata": {"annotations": annotations}, "spec": spec})

    def _make(self, path: str, asking: Manifest) -> None:
        place = asking["metadata"].get("annotations", {}).get(SELECTED)
        if not place or asking["spec"].get("volumeName"):
            return
        name = asking["metadata"]["name"]
        if place in self.refused:
            self.server.put(path, {**asking, "metadata": {"annotations": {}}})
        elif f"{VOLUMES}/made-{name}" not in self.server.objects:
            there = volume(f"made-{name}", of="made").at_node(place).kept_for(name, uid=f"uid-of-{name}")
            self.server.put(f"{VOLUMES}/made-{name}", there.manifest())


def bound(world: World) -> dict[str, str]:
    """Claim -> its volume."""
    return {
        path.rsplit("/", 1)[1]: manifest["spec"].get("volumeName", "")
        for path, manifest in world.server.objects.items()
        if path.startswith(CLAIMS)
    }


def patches(world: World) -> list[str]:
    """What Alnair wrote to claims and volumes."""
    return [
        call.name for call in world.server.calls if call.method == "PATCH" and "persistentvolume" in call.path
    ]


TWO = (host("n1"), host("n2"))


async def test_volumes_are_bound_before_their_pods() -> None:
    async with World(min_member=2, nodes=TWO) as world:
        has(world, LOCAL, claim("data-a", of="local"), claim("data-b", of="local"))
        has(world, volume("v1", of="local").at_node("n1"), volume("v2", of="local").at_node("n2"))
        controllers = Controllers(world, binds=False)
        worker(world, "a", "data-a")
        worker(world, "b", "data-b")
        await world.start()
        await world.until(lambda: len(patches(world)) == 2)
        assert sorted(patches(world)) == ["PATCH persistentvolumes/v1", "PATCH persistentvolumes/v2"]
        assert world.said()["phase"] == COMMITTED
        assert world.where() == {}
        controllers.binds = True
        controllers.look()
        await world.settled()
        places = world.where()
        assert sorted(places.values()) == ["n1", "n2"]
        assert bound(world) == {f"data-{name}": place.replace("n", "v") for name, place in places.items()}
        there = world.server.objects[f"{VOLUMES}/v1"]
        assert there["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


async def test_a_volume_is_made_where_the_pod_goes() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        has(world, MADE, claim("data", of="made"))
        Controllers(world)
        world.pod("a", like=WORKER.mounting("data").selecting({HOSTNAME: "n2"}))
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n2"}
        assert bound(world) == {"data": "made-data"}
        assert patches(world) == ["PATCH persistentvolumeclaims/data"]
        assert world.server.objects[f"{CLAIMS}/data"]["metadata"]["annotations"][SELECTED] == "n2"


async def test_claims_that_are_bound_cost_nothing() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        has(world, LOCAL, claim("data", of="local").bound_to("v"), volume("v", of="local").at_node("n2"))
        worker(world, "a", "data")
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n2"}
        assert patches(world) == []


async def a_waits_for_its_volume(world: World, *, group: str = "g") -> Controllers:
    """The claim names its node, and nobody makes the volume."""
    has(world, MADE, claim("data", of="made"))
    controllers = Controllers(world, makes=False)
    worker(world, "a", "data", group=group)
    await world.start()
    await world.until(lambda: patches(world))
    return controllers


async def test_a_lone_pod_waits_for_its_volume_too() -> None:
    async with World(nodes=TWO) as world:
        controllers = await a_waits_for_its_volume(world, group="")
        assert world.where() == {}
        controllers.makes = True
        controllers.look()
        await world.until(world.where)
        assert bound(world) == {"data": "made-data"}


async def no_volume_for_a(world: World) -> Controllers:
    """Of a gang of a and b, a cannot have its volume on any node, and the gang has been told so."""
    has(world, MADE, claim("data", of="made"))
    controllers = Controllers(world)
    controllers.refused = ["n1", "n2"]
    worker(world, "a", "data")
    world.pod("b")
    await world.start()
    await world.until(lambda: world.leader.gang().refusal_reason == "VolumesFailed")
    await world.settled()
    return controllers


async def test_where_no_volume_can_be_made_the_gang_goes_elsewhere_whole() -> None:
    async with World(min_member=2, nodes=TWO) as world:
        controllers = await no_volume_for_a(world)
        assert world.where() == {}, "b waits for a"
        assert world.listed() == {}
        assert world.leader.gang().refusal.startswith("pod a: no volume could be made for claim data")
        controllers.refused = []
        await world.passes(15)
        assert sorted(world.where()) == ["a", "b"]


async def test_a_volume_that_does_not_come_is_waited_for_ten_minutes() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        await a_waits_for_its_volume(world)
        world.clock.pass_(599)
        await asyncio.sleep(0.05)
        assert world.said()["phase"] == COMMITTED
        world.clock.pass_(2)
        await world.until(lambda: world.leader.gang().refusal_reason == "VolumesFailed")
        assert world.leader.gang().refusal == "pod a: claim data was not bound within 600 s"
        await world.settled()
        assert (world.where(), world.listed()) == ({}, {})


async def test_a_lone_pod_without_its_volume_is_not_bound() -> None:
    async with World(nodes=TWO) as world:
        has(world, MADE, claim("data", of="made"))
        controllers = Controllers(world)
        controllers.refused = ["n1", "n2"]
        worker(world, "a", "data", group="")
        await world.start()
        lone = (NAMESPACE, "Pod", "uid-a")
        await world.until(lambda: world.leader.roster.gangs[lone].refusal_reason == "VolumesFailed")
        await world.settled()
        assert world.where() == {}
        assert world.leader.state.holdings == {}


async def test_what_was_written_is_not_written_again_while_the_stream_is_late() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        has(world, MADE, claim("data", of="made"))
        Controllers(world)
        worker(world, "a", "data")
        leader = await world.process()
        world.server.first("PATCH persistentvolumeclaims/data", lambda: setattr(leader, "deaf", True))
        await leader.lead()
        await world.until(lambda: bound(world) == {"data": "made-data"})
        await asyncio.sleep(0.05)  # several looks at books that are behind
        assert len(patches(world)) == 1
        assert leader.gang().refusal_reason == ""
        leader.hears_again()
        await world.settled()
        assert list(world.where()) == ["a"]
        assert len(patches(world)) == 1


async def test_members_beyond_the_least_are_bound_without_the_one_that_fails() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        await no_volume_for_a(world)
        assert sorted(world.where()) == ["b"]


async def test_a_pod_that_is_deleted_while_it_waits_ends_the_waiting() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        await a_waits_for_its_volume(world)
        world.deletes("a")
        await world.settled()
        assert world.listed() == {}


@pytest.mark.parametrize("group", ["g", ""])
async def test_a_pod_that_a_list_lacks_for_a_while_is_not_bound_without_its_volumes(group: str) -> None:
    async with World(min_member=1, nodes=TWO) as world:
        has(world, MADE, claim("data", of="made"))
        controllers = Controllers(world, makes=False)
        worker(world, "a", "data", group=group)
        leader = await world.start()
        await world.until(lambda: patches(world))
        asked = len(world.server.calls)
        leader.lists_pods_without("a")
        await world.until(lambda: [call.name for call in world.server.calls[asked:]].count("GET pods/a") > 3)
        assert world.where() == {}
        leader.is_told_again(decoded(world.server.objects[f"{PODS}/a"], wire.Pod))
        controllers.makes = True
        controllers.look()
        await world.until(world.where)
        assert bound(world) == {"data": "made-data"}


async def test_a_new_leader_that_does_not_see_a_pod_yet_does_not_bind_it_without_its_volumes() -> None:
    async with World(min_member=2, nodes=TWO) as world:
        has(world, MADE, claim("data", of="made"))
        Controllers(world)
        worker(world, "a", "data")
        world.pod("b")
        world.wrote(COMMITTED, "a", "b", min_member=2)
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        leader.lists_pods_without("a")
        await leader.carry_on()
        await world.until(lambda: [call.name for call in world.server.calls].count("GET pods/a") > 3)
        assert (world.where(), patches(world)) == ({}, [])
        leader.is_told_again(decoded(world.server.objects[f"{PODS}/a"], wire.Pod))
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        assert bound(world) == {"data": "made-data"}


async def test_somebody_faster_takes_the_volume() -> None:
    """The write conflicts, the stream tells why, and the next plan takes another."""
    async with World(min_member=1, nodes=TWO) as world:
        first = volume("v1", of="local").at_node("n1")
        has(
            world, LOCAL, claim("data", of="local"), first, volume("v2", of="local", size="2Gi").at_node("n1")
        )
        Controllers(world)
        world.server.first(
            "PATCH persistentvolumes/v1", lambda: has(world, first.kept_for("other").in_phase("Bound"))
        )
        worker(world, "a", "data")
        await world.start()
        await world.until(lambda: world.leader.gang().refusal_reason == "VolumesFailed")
        assert "volume v1, which claim data was to get, is gone or taken" in world.leader.gang().refusal
        await world.passes(15)
        assert world.where() == {"a": "n1"}
        assert bound(world) == {"data": "v2"}


async def test_a_write_whose_answer_is_lost_is_written_once() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        has(world, LOCAL, claim("data", of="local"), volume("v1", of="local"), volume("v2", of="local"))
        Controllers(world)
        world.server.loses_the_answer_of("PATCH persistentvolumes/v1")
        worker(world, "a", "data")
        await world.start()
        await world.settled()
        assert list(world.where()) == ["a"]
        assert bound(world) == {"data": "v1"}
        assert "claimRef" not in world.server.objects[f"{VOLUMES}/v2"]["spec"]


@pytest.mark.parametrize("asked", ["local", "made"])
@pytest.mark.parametrize("written", [False, True])
async def test_a_new_leader_goes_on_where_the_old_one_stopped(asked: str, written: bool) -> None:
    """The record names the node and nothing else; claims and volumes say how far it came."""
    async with World(min_member=2, nodes=TWO) as world:
        has(world, LOCAL, MADE, claim("data-a", of=asked), claim("data-b", of=asked))
        has(world, volume("v1", of="local").at_node("n1"), volume("v2", of="local", size="2Gi").at_node("n2"))
        controllers = Controllers(world, binds=False, makes=False)
        worker(world, "a", "data-a")
        worker(world, "b", "data-b")
        places = {"a": Holding("n2"), "b": Holding("n1")}
        world.wrote(COMMITTED, "a", "b", min_member=2, holdings=places)
        await world.start()
        if written:
            await world.until(lambda: len(patches(world)) == 2)
            await world.restart()
        controllers.binds = controllers.makes = True
        controllers.look()
        await world.settled()
        assert world.where() == {"a": "n2", "b": "n1"}
        wanted = (
            {"data-a": "v2", "data-b": "v1"}
            if asked == "local"
            else {f"data-{n}": f"made-data-{n}" for n in "ab"}
        )
        assert bound(world) == wanted
        assert len(patches(world)) == 2, "what the first leader wrote is not written again"


async def test_a_successor_finds_the_claim_bound_elsewhere_and_plans_anew() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        there = volume("v", of="local").at_node("n1").kept_for("data", uid="uid-of-data").in_phase("Bound")
        has(world, LOCAL, claim("data", of="local").bound_to("v"), there)
        worker(world, "a", "data")
        world.wrote(COMMITTED, "a", min_member=1, holding=Holding("n2"))
        await world.start()
        await world.until(lambda: world.leader.gang().refusal_reason == "VolumesFailed")
        assert "volume v of claim data is out of reach of node n2" in world.leader.gang().refusal
        await world.passes(15)
        assert world.where() == {"a": "n1"}


async def test_a_successor_finds_a_volume_being_made_elsewhere_and_plans_anew() -> None:
    async with World(min_member=1, nodes=TWO) as world:
        has(world, MADE, claim("data", of="made").made_for("n1"))
        controllers = Controllers(world, makes=False)
        worker(world, "a", "data")
        world.wrote(COMMITTED, "a", min_member=1, holding=Holding("n2"))
        await world.start()
        await world.until(lambda: world.leader.gang().refusal_reason == "VolumesFailed")
        assert "the volume of claim data is made for node n1, not n2" in world.leader.gang().refusal
        controllers.makes = True
        controllers.look()
        await world.passes(15)
        assert world.where() == {"a": "n1"}
