"""Every parser of the product that reads what tenants, nodes, profilers, apiservers or files say: one line each.

A line tells how to feed it, which of its own exceptions it may raise, and what holds of anything that it accepts.
`test_parsers.py` sends all of them to hell, and fails when a module starts to parse something and has no line here.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson
from pydantic import ValidationError

from alnair.api import config, names
from alnair.api.allocation import GPUAllocationStatus
from alnair.api.gpuchoice import BadRequest, card_choice
from alnair.api.gpurequest import MOST_CARDS, MOST_MEMORY_MIB, GpuRequest, gpu_request
from alnair.api.nearness import BadLevel, Wish, find_level, wish_in
from alnair.api.peaks import Peak, peak_in
from alnair.api.quantity import LARGEST, BadQuantity, integer, mib, milli, nano, whole
from alnair.api.topology import NodeResourceTopology
from alnair.console import readers
from alnair.control.elastic import scale
from alnair.control.gangs import Group, read_group
from alnair.control.horovod import children, drift, job
from alnair.extender import door
from alnair.extender import wire as asked
from alnair.handlers.storage import KINDS
from alnair.kube import Refused, Unanswered, client
from alnair.kube.clock import Clock
from alnair.kube.http import Answer, BadAnswer, _Channel
from alnair.kube.stream import UNREADABLE, Stream
from alnair.ledger import lease, records, writer
from alnair.ledger.records import Record, Unparsable
from alnair.sandbox import fleet
from alnair.scheduling.elastic.throughput import measurements
from alnair.scheduling.importing import Unreadable, import_profiles
from alnair.scheduling.plugins.taint_toleration import _decimal
from alnair.simulate import jsonl, openb, philly
from alnair.simulate.trace import BadTrace, Job
from alnair.state import loads, wire
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.holding import Holding, containers_to_json, parse_annotation, shares_from_json
from alnair.state.inventory import conclude
from alnair.state.nodes import read_node
from alnair.state.pods import MOST_OF_A_RESOURCE, PodReader
from alnair.state.readings import card_read, node_read, stamp_read
from alnair.state.selectors import whole_number
from harness.builders import group, node, pod, term
from harness.builders import line as expression
from unit.builders import PACK, Cluster, decoded
from unit.jumping import JumpingLoop
from unit.scheduling.importing import samples

Feed = Callable[[Any], Any]
BYTES, TREE, TEXT, TEXTS = "json", "tree", "text", "annotations"


@dataclass(frozen=True)
class Parser:
    """`kind`: what it is fed with. `declared`: its own exceptions. `modules`: whose parsing this goes through."""

    name: str
    kind: str
    feed: Feed
    examples: Sequence[Any]
    modules: tuple[str, ...]
    declared: tuple[type[Exception], ...] = ()
    holds: Callable[[Any], object] = lambda result: None
    says: str = ""  # what a refusal names


# -- what holds of anything accepted -----------------------------------------------------------------------------


def sane(thing: Any, *, low: float = -1, high: float = 2**63 - 1) -> None:
    """No number in it is negative (-1 is "none"), infinite or larger than a machine's."""
    if isinstance(thing, bool) or thing is None or isinstance(thing, (str, bytes)):
        return
    if isinstance(thing, (int, float)):
        assert math.isfinite(thing), thing
        assert low <= thing <= high, thing
    elif isinstance(thing, Mapping):
        for each in thing.values():
            sane(each, low=low, high=high)
    elif isinstance(thing, (list, tuple, set, frozenset)):
        for each in thing:
            sane(each, low=low, high=high)
    elif is_dataclass(thing):
        for each in fields(thing):
            sane(getattr(thing, each.name), low=low, high=high)


def one_line(text: object) -> None:
    """It can stand in a log, an event or a condition: nobody else's line begins in it, and it is no novel."""
    told = str(text)
    assert told.isprintable(), told[:500]
    assert len(told) <= 2_000, len(told)
    told.encode()


def _asks_for_cards_that_are(request: GpuRequest) -> None:
    for demand in request.demands:
        assert 1 <= demand.cards <= MOST_CARDS
        assert 0 <= demand.memory_mib <= MOST_MEMORY_MIB
        assert 0 <= demand.compute_percent <= 100
        assert 0 <= demand.memory_percent <= 100
        assert demand.whole or demand.memory_mib or demand.memory_percent


def _round_trips(shares: Any) -> None:
    sane(shares, low=0)
    assert parse_annotation(orjson.dumps(containers_to_json(shares)).decode()) == shares
    sane(Holding("n", shares).footprint(), low=0)


def _record_stands(record: Record) -> None:
    """Everything that a leader would do with it before it writes works, and it reads its own writing."""
    assert isinstance(record.epoch, int)
    assert 0 <= record.epoch < 2**63 - 1000
    assert 1 <= record.min_member < 2**31
    for member in record.members.values():
        assert all(isinstance(each, str) and each for each in (member.uid, member.name, member.holding.node))
        assert "/" not in member.name
        _round_trips(member.holding.containers)
    record.condition("Adopted")
    record.set_condition({"type": "Adopted", "status": "True"}, now="now")
    record.is_marked({"labels": None, "finalizers": None})
    record.new_place(Holding("n"), reason="Growth", until="", pod=None)
    status = json.loads(json.dumps(record.status(), allow_nan=False))
    assert orjson.loads(orjson.dumps(record.status())) == status
    again = records.parse({**record.manifest(), "status": status, "metadata": {
        **record.manifest()["metadata"], "uid": "u", "resourceVersion": "1"}})  # fmt: skip
    assert again.status() == record.status()


def _jobs_are_sane(jobs: Sequence[Job]) -> None:
    for each in jobs:
        sane(
            (each.cpu, each.memory_mib, each.cards, each.gpu, each.pods, each.arrives, each.lasts or 0), low=0
        )


# -- how they are fed --------------------------------------------------------------------------------------------

WORKER = pod("worker").by("alnair").asking(cpu="500m", memory="1Gi").in_group("g")
PODS = [
    each.manifest() | {"status": {"phase": "Pending"}}
    for each in (
        WORKER.slice(memory_gib=6, compute=50).told(),
        WORKER.asking(gpu=2).of_model("NVIDIA-A10", "NVIDIA-L4"),
        WORKER.slice_by_annotation("6000Mi", compute=50, count=2).on_cards("GPU-1", "n/0"),
        WORKER.asking(
            resources={names.NVIDIA_GPU: "1", names.NVIDIA_GPUMEM: "6000", names.NVIDIA_GPUCORES: "50"}
        ),
        WORKER.with_init("warm-up", {"cpu": "1"}, sidecar=True).selecting(disk="ssd").tolerating("a", "1"),
        WORKER.on_nodes(term(expression("cpu-model", "Gt", "5"))).on_host_port(80).mounting("data"),
        WORKER.near_to({"app": "a"}, key="zone").spread_over("zone", {"app": "a"}),
        WORKER.apart_from({"app": "a"}, key="zone").spread_over("zone", {"app": "b"}, hard=False),
        WORKER.with_volume(awsElasticBlockStore={"volumeID": "aws://zone-1a/vol-1"})
        .with_volume(gcePersistentDisk={"pdName": "d", "readOnly": True})
        .with_volume(azureDisk={"diskURI": "/disks/d", "kind": "Managed"})
        .with_(lambda it: it["spec"].update(nodeName="n")),
        WORKER.annotated(
            {names.TOPOLOGY_REQUIRED: "rack", names.PEAK_CPU: "1500m", names.PEAK_GPU_UTIL: "35"}
        ),
    )
]
for _index, _pod in enumerate(PODS):
    _pod["metadata"] |= {"uid": f"uid-{_index}", "namespace": "team", "resourceVersion": "1"}
ANNOTATIONS = [each["metadata"]["annotations"] for each in PODS if "annotations" in each["metadata"]] + [
    {names.HAMI_USE_TYPE: "A10,A100", names.HAMI_NO_USE_UUID: "GPU-1", names.GPU_SHARING: "exclusive"},
    {names.PEAK_GPU_MEMORY: "6Gi", names.PEAK_CPU: "2", names.PEAK_GPU_UTIL: "30"},
    {names.TOPOLOGY_PREFERRED: "zone"},
]
HAMI = json.dumps(
    [
        {
            "id": "GPU-1",
            "index": 0,
            "count": 10,
            "devmem": 24576,
            "devcore": 100,
            "type": "NVIDIA-A10",
            "health": True,
        }
    ]
)
SCORES = json.dumps([{"uuid": "GPU-1", "score": {"GPU-2": 10}}, {"uuid": "GPU-2", "score": {"GPU-1": 10}}])
READING = "{'mem_used': '11GB', 'mem_free': '1GB', 'max_gpu_util': 88, 'time': '2026-01-01T00:00:00Z'}"
NODES = [
    *node("n").with_cards(2).manifests()[:1],
    *node("n").with_cards(2).owned_by("device-plugin").manifests()[:1],
    node("n").annotated({names.HAMI_REGISTER: HAMI, names.HAMI_SCORES: SCORES}).manifest(),
    node("n")
    .with_cards(1)
    .annotated({f"{names.PREFIX}gpu-0": READING, names.NODE_READING: "{'cpu_util': 5}"})
    .manifest(),
    node("n").annotated({names.GPU_STATIC: "{'count': 2, 'model': 'A10', 'mem_size': '24GiB'}"}).manifest(),
    node("n")
    .annotated({names.PHYSICAL_GPU_UUIDS: "GPU-1,GPU-2", names.VIRTUAL_GPU_COUNT: "24,16"})
    .manifest(),
    node("n").tainted("a", "1").with_image("i", 10**9).manifest(),
]
TOPOLOGIES = [
    node("n").with_cards(2).linked().manifests()[1],
    fleet.topology("n", ()),
    {
        "metadata": {"name": "n", "uid": "u"},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [
            {"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10}], "resources": [
                {"name": "cpu", "capacity": "8", "allocatable": "7500m", "available": "7500m"}]},
        ],
    },
]  # fmt: skip
GROUPS = [
    group("g", min_member=2).giving_up_after(60).needing({"cpu": "2"}).manifest(),
    {"metadata": {"name": "g"}, "spec": {"minMember": 1, "onMemberFailure": "Fail", "topology": {"required": "rack"},
     "elastic": {"min": 1, "max": 4, "speedup": [{"members": 2, "speedup": 1.9}], "weight": 2.0, "targetRef": {
     "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"}}}, "status": {"restarts": 1, "conditions": [
     {"type": "Scheduled", "status": "False", "reason": "MemberFailed", "message": "m", "observedGeneration": 1}]}},
]  # fmt: skip
JOBS = [
    {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {
        "command": "python train.py", "image": "i", "minReplicas": 1, "maxReplicas": 3, "slotsPerWorker": 1}},
    {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {
        "launcherSpec": {"image": "i", "command": "c"},
        "workersSpec": {"image": "i", "minReplicas": 1, "maxReplicas": 3}}},
]  # fmt: skip
POD_ENTRY = {"name": "a", "uid": "uid-a", "node": "n1", "containers": [
    {"name": "main", "stage": "Init", "slices": [{"gpu": "GPU-1", "memoryMiB": 6000, "computePercent": 50}]},
    {"name": "more", "slices": [{"gpu": "GPU-2", "memoryMiB": 6000, "computePercent": 100, "whole": True}]},
]}  # fmt: skip
OWNER = {"kind": "PodGroup", "name": "g", "uid": "uid-of-g"}
META = {"name": names.record_name("g", "uid-of-g"), "namespace": "team", "uid": "u", "resourceVersion": "1"}
STATUS = {"phase": "Committed", "epoch": 5, "minMember": 1, "complete": True, "size": 2, "sizeBefore": 1,
    "conditions": [{"type": "Adopted", "status": "True", "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}], "pods": [POD_ENTRY],
    "reserved": [{"id": "p1", "node": "n1", "gpuCounts": {"main": 2}, "reason": "Growth", "until": "2026"}],
}  # fmt: skip
PLAN = {"phase": "Committed", "epoch": 5, "minMember": 1, "scheduled": 1, "pods": [
    {"name": "a", "uid": "uid-a", "node": "n1", "gpuCounts": {"main": 2}}]}  # fmt: skip
RECORDS = [
    {"metadata": META, "spec": {"owner": OWNER, "schedulerName": "alnair"}, "status": STATUS},
    {
        "metadata": {**META, "labels": {names.INSTANCE: "a.b"}},
        "spec": {"owner": OWNER, "schedulerName": "alnair"},
    },
    {
        "metadata": {**META, "annotations": {names.PLAN: json.dumps(PLAN)}},
        "spec": {"owner": OWNER, "schedulerName": "x"},
    },
]
STORAGE = {
    "StorageClass": {"metadata": {"name": "c"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]},
    "CSINode": {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 5}}]}},
    "CSIDriver": {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}},
    "CSIStorageCapacity": {"metadata": {"name": "s", "namespace": "x"}, "storageClassName": "c", "capacity": "10Gi",
        "maximumVolumeSize": "5Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}},
    "VolumeAttachment": {"metadata": {"name": "a"}, "spec": {"attacher": "d", "nodeName": "n",
        "source": {"persistentVolumeName": "v"}}},
    "PersistentVolume": {"metadata": {"name": "v", "labels": {"topology.kubernetes.io/zone": "a"}}, "spec": {
        "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "csi": {"driver": "d", "volumeHandle": "h"}, "claimRef": {"namespace": "team", "name": "data", "uid": "u"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]}]}]}}}, "status": {"phase": "Available"}},
    "a volume of an old kind": {"metadata": {"name": "v", "labels": {"topology.kubernetes.io/zone": "a-b-c__a-b-d"}},
        "spec": {"capacity": {"storage": "1Gi"}, "awsElasticBlockStore": {"volumeID": "aws://zone-1a/vol-1"}}},
    "PersistentVolumeClaim": {"metadata": {"name": "data", "namespace": "team", "uid": "u"}, "spec": {
        "resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "selector": {"matchLabels": {"a": "b"}}}, "status": {"phase": "Pending"}},
}  # fmt: skip


NEIGHBOURS = [
    {
        "metadata": {"name": "s", "namespace": "team", "labels": {"a": "b"}},
        "spec": {"selector": {"app": "a"}},
    },
    {"metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}, "spec": {}},
]


class _Books:
    """A sink that reads as the operator's does."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def replace(self, objects: list[Any]) -> None:
        self.heard += objects

    def put(self, thing: Any) -> None:
        self.heard.append(thing)

    drop = put


class _Canned:
    """An apiserver's answers, for a stream."""

    def __init__(self, page: bytes, *lines: bytes) -> None:
        self._page, self._lines = page, lines

    async def call(self, *_: Any, **__: Any) -> bytes:
        return self._page

    async def watch(self, *_: Any, **__: Any) -> Any:
        for line in self._lines:
            yield line
        await asyncio.sleep(3600)


GOOD = orjson.dumps({"metadata": {"name": "good", "resourceVersion": "9"}})


def streamed(kind: type[Any]) -> Feed:
    """Listed between two good ones, and told as an event before another: the good ones arrive whatever it is."""

    def feed(raw: bytes) -> Any:
        books = _Books()
        page = b'{"metadata": {"resourceVersion": "1"}, "items": [%s, %s, %s]}' % (GOOD, raw, GOOD)
        lines = [b'{"type": "ADDED", "object": %s}' % each for each in (raw, GOOD)]
        stream: Stream[Any] = Stream(_Canned(page, *lines), "/x", kind, books)  # type: ignore[arg-type]
        loop = JumpingLoop()
        try:
            loop.run_until_complete(asyncio.wait_for(stream.run(), 30))
        except TimeoutError:
            pass  # it goes on for ever, as it should
        finally:
            loop.close()
        try:
            orjson.loads(raw)
        except orjson.JSONDecodeError:
            return  # no apiserver sends that
        assert sum(each.metadata.name == "good" for each in books.heard) >= 3

    return feed


def read_pods(raw: bytes) -> Any:
    found = msgspec.json.decode(raw, type=wire.Pod)
    read = [
        PodReader(delivering=delivering).read(found) for delivering in (frozenset(), frozenset({"alnair"}))
    ]
    cluster = Cluster(node("n").with_cards(2))
    for each in read:
        one_line(each.problem)
        cluster.state.put_pod(each)
        for _, amount in each.shape.requests:
            assert 0 <= amount <= MOST_OF_A_RESOURCE
        with cluster.state.draft() as draft:
            PACK.pass_all(PACK.filters, guest(each), draft)
            draft.volumes.attached.room("ebs.csi.aws.com")
        cluster.state.drop_pod(each.uid)
    return read


def read_nodes(raw: bytes) -> Any:
    found = read_node(msgspec.json.decode(raw, type=wire.Node))
    inventory = conclude(found, None)
    for each in (*found.problems, *inventory.problems):
        one_line(each)
    state = ClusterState()
    state.put_node(found)
    state.put_pod(PodReader().read(msgspec.json.decode(orjson.dumps(PODS[0]), type=wire.Pod)))
    state.draft()
    return [
        found.allocatable,
        [(card.memory_mib, card.slots, card.index, card.numa) for card in inventory.cards],
    ]


def read_topologies(tree: Any) -> Any:
    topology = NodeResourceTopology.model_validate(tree)
    cluster = Cluster()
    cluster.state.put_topology("n", topology)
    cluster.add(node("n"))
    inventory = conclude(cluster.state.nodes["n"], topology)
    zones = cluster.state.zones.nodes.get("n")
    for each in (*inventory.problems, zones.problem if zones is not None else ""):
        one_line(each)
    return [(card.memory_mib, card.slots, card.index, card.numa) for card in inventory.cards]


def read_neighbours(raw: bytes) -> None:
    """Services and namespaces, whose labels rules about other pods look at."""
    state, worker = ClusterState(), PodReader().read(decoded(PODS[0], wire.Pod))
    service, namespace = (msgspec.json.decode(raw, type=kind) for kind in (wire.Service, wire.Namespace))
    state.services.put(service)
    state.company.put_namespace(namespace.metadata.name, namespace.metadata.labels)
    state.services.of(service.metadata.namespace, worker.labels)
    state.services.drop(service.metadata.namespace, service.metadata.name)
    assert not list(state.services.names())


def read_storage(raw: bytes) -> Any:
    found = []
    for kind in KINDS:
        try:
            value = kind.read(msgspec.json.decode(raw, type=kind.wire))
        except UNREADABLE:
            continue
        state = ClusterState()
        state.volumes.put(value)
        found.append((getattr(value, "size", 0), getattr(value, "largest", 0) or 0))
    return found


def groups(tree: Any) -> Group | None:
    """The apiserver vouches for names, UID and that things are maps; the rest may be anything."""
    if not isinstance(tree, dict):
        return None
    kept = {"name": "g", "namespace": "team", "uid": "u", "generation": 1}
    meta = tree.get("metadata") if isinstance(tree.get("metadata"), dict) else {}
    spec = tree.get("spec") if isinstance(tree.get("spec"), dict) else {}
    status = tree.get("status") if isinstance(tree.get("status"), dict) else {}
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if isinstance(v, str)} if isinstance(
        meta.get("annotations"), dict) else {}  # fmt: skip
    return read_group({"metadata": {**kept, "annotations": annotations}, "spec": spec, "status": status})


def _group_stands(found: Group | None) -> None:
    if found is not None:
        one_line(found.problem)
        assert 1 <= found.min_member < 2**31
        assert 0 <= found.timeout_seconds < 2**31


def horovod(tree: Any) -> Any:
    if not isinstance(tree, dict) or not isinstance(tree.get("spec", {}), dict):
        return None
    found = job.read({**tree, "metadata": JOBS[0]["metadata"]})
    if isinstance(found, str):
        one_line(found)
        return None
    assert drift.says(children.workers(found, replicas=1), children.workers(found, replicas=1))
    return children.slots(found)


def answers(raw: bytes) -> Answer | None:
    """Bytes from a socket, in pieces: an answer, none yet, or a BadAnswer."""

    async def ask() -> Answer | None:
        channel = _Channel()
        waiter = channel._waiter = asyncio.get_running_loop().create_future()
        half = len(raw) // 2
        for part in (raw[:half], raw[half:]):
            if part and not waiter.done():
                channel.data_received(part)
        return waiter.result() if waiter.done() else None

    return asyncio.run(ask())


def written_to(folder: Path, read: Callable[[Path], Any]) -> Feed:
    def feed(text: str) -> Any:
        path = folder / "trace"
        path.write_bytes(text.encode(errors="surrogatepass"))
        return read(path)

    return feed


CSV_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn2,96000,786432,8.0,\n"
CSV_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "p1,12000,16384,1,1000,A10|P100,0,12537496\np2,100,5,0,0,,,\n"
)
CSV_PHILLY = "timestamp,duration,num_gpus\n2017-10-03 01:02:03,12.5,12\n2017-10-03 01:02:04,0,1\n"
JSONL = (
    '{"node": {"name": "a", "cpu": 96000, "memoryMiB": 393216, "cards": 8, "model": "A100"}}\n'
    '{"job": {"name": "j", "cards": 1, "gpu": 500, "pods": 2, "arrives": 0, "lasts": 60, '
    '"elastic": {"min": 1, "max": 4, "speedup": [[2, 1.9], [4, 3.5]]}}}\n'
)
HTTP = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRetry-After: 1\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
]
FAILURES = [{"kind": "Status", "code": 409, "reason": "Conflict", "message": "no"}]
SCALES = [{"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 2}, "status": {"selector": "a=b"}}]
CONFIGS = [
    """profiles:
- schedulerName: alnair
  picker: best-fit
  scorers:
  - {name: BinPack, weight: 3}
topology:
  levels:
  - {name: rack, label: example.com/rack}
"""
]
LEVELS = config.DEFAULT_TOPOLOGY.levels


def failures(raw: bytes) -> None:
    for status in (404, 409, 429, 500):
        one_line(client._failure("GET /x", status, raw, raw[:40].decode("latin-1")))


def level(text: str) -> Any:
    return find_level(Wish(text, required=True, field="spec.topology.required"), LEVELS)


def choice_and_wish(annotations: Mapping[str, str]) -> Any:
    wish_in(annotations)
    peak = peak_in(annotations)
    sane(peak if peak is not None else Peak(), low=0)
    card_choice(annotations)
    return gpu_request([("main", {})], annotations)


def requests(tree: Any) -> Any:
    """Resources of a container: text or whole numbers, as msgspec lets through."""
    if not isinstance(tree, dict):
        return GpuRequest(())
    kept = {key: value for key, value in tree.items() if isinstance(value, str) or type(value) is int}
    return gpu_request([("main", kept)], {}, init=[("first", True, kept)])


def extender(raw: bytes) -> Any:
    found = []
    for kind in (asked.ExtenderArgs, asked.ExtenderPreemptionArgs, asked.ExtenderBindingArgs):
        try:
            found.append(asked.read(raw, kind))
        except asked.Unreadable as error:
            one_line(error)
    for each in found:
        if isinstance(each, asked.ExtenderArgs):
            each.names()
        elif isinstance(each, asked.ExtenderPreemptionArgs):
            each.victims()
    return found


EXTENDER = [
    {"Pod": PODS[0], "NodeNames": ["a", "b"]},
    {"Pod": PODS[1], "Nodes": {"items": [{"metadata": {"name": "a"}}]}},
    {"Pod": PODS[0], "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}},
    {"Pod": PODS[0], "NodeNameToVictims": {"a": {"Pods": [PODS[0]]}}},
    {"PodName": "p", "PodNamespace": "team", "PodUID": "u", "Node": "a"},
]


def quantities(text: str) -> Any:
    found = []
    for read in (milli, whole, nano, mib):
        number = read(text, field="spec.x")
        assert 0 <= number <= LARGEST * 10**9
        found.append(number)
    return found


def numbers(text: str) -> Any:
    return integer(text, field="spec.x", low=0, high=100)


def lines_of(text: str) -> Any:
    sane(list(measurements(text, 3)), low=0, high=1e308)
    sane([card_read(text), node_read(text)], low=0)
    sane([stamp_read(text) or 0.0, whole_number(text) or 0, _decimal(text) or 0], low=-(2**63))
    sane(Clock().since(text) or 0.0, low=-(2.0**63))
    philly_nodes = philly.equal_machines(text)
    return len(philly_nodes or ())


def managed(raw: bytes) -> Any:
    age = loads._age(msgspec.Raw(raw), 1e9)
    sane(age, low=0)
    return age


def secrets(text: str) -> None:
    """Of an Authorization header: what is taken for a token can be shown to an apiserver."""
    token = readers.token_of([text])
    if isinstance(token, str):
        assert token.isascii()
        assert token.isprintable()
        assert len(token) <= readers.LONGEST_TOKEN
    assert isinstance(door._password(text), bytes)


def served(text: str) -> None:
    assert "" not in lease._told({"metadata": {"annotations": {names.SERVES: text}}})


def plan(text: str) -> Any:
    manifest = {"metadata": {**META, "annotations": {names.PLAN: text}}, "spec": RECORDS[0]["spec"]}
    writer.epoch_of(manifest)
    return records.parse(manifest)


def shares(tree: Any) -> Any:
    return shares_from_json(tree) if isinstance(tree, dict) else ()


def parsers(folder: Path) -> list[Parser]:
    decoding = UNREADABLE
    return [
        Parser("quantities", TEXT, quantities, ["500m", "1.5Gi", "2e3", "16Gi", "1"], ("api/quantity.py",),
               (BadQuantity,), says="spec.x"),
        Parser("integers", TEXT, numbers, ["0", "42", "100"], ("api/quantity.py",), (BadQuantity,), says="spec.x"),
        Parser("requests by resource", TREE, requests,
               [{names.NVIDIA_GPU: "1", names.NVIDIA_GPUMEM: 6000}, {names.VGPU_MEMORY: "6", names.VGPU_COMPUTE: "50"}],
               ("api/gpurequest.py",), (BadRequest,), _asks_for_cards_that_are, says="container"),
        Parser("requests by annotation", TEXTS, choice_and_wish, ANNOTATIONS,
               ("api/gpurequest.py", "api/gpuchoice.py", "api/nearness.py", "api/peaks.py"),
               (BadRequest,), _asks_for_cards_that_are, says="/"),
        Parser("levels", TEXT, level, ["rack", "topology.kubernetes.io/zone"], ("api/nearness.py",), (BadLevel,),
               says="spec.topology"),
        Parser("config", TEXT, lambda text: config.parse_config(text, origin="file"), CONFIGS, ("api/config.py",),
               (config.BadConfig,), says="file"),
        Parser("imported policies", TEXT, lambda text: import_profiles(text, origin="file"),
               [each for each in vars(samples).values() if isinstance(each, str) and "kind" in each][:6],
               ("scheduling/importing/reading.py", "scheduling/importing/writing.py"), (Unreadable,), says="file"),
        Parser("pods", BYTES, read_pods, PODS,
               ("state/wire.py", "state/pods.py", "state/environment.py", "state/alignment.py", "state/selectors.py"),
               decoding),
        Parser("pods in a stream", BYTES, streamed(wire.Pod), PODS, ("kube/stream.py",)),
        Parser("nodes", BYTES, read_nodes, NODES,
               ("state/wire.py", "state/nodes.py", "state/inventory/hami.py", "state/inventory/profiler.py",
                "state/inventory/labels.py", "state/inventory/conclusion.py"), decoding, sane),
        Parser("nodes in a stream", BYTES, streamed(wire.Node), NODES, ("kube/stream.py",)),
        Parser("topologies", TREE, read_topologies, TOPOLOGIES,
               ("api/topology.py", "handlers/topology.py", "state/inventory/zones.py", "state/machine.py",
                "state/zones.py"), (ValidationError,), sane),
        Parser("storage", BYTES, read_storage, list(STORAGE.values()), ("state/storage.py", "state/migration.py"), (),
               sane),
        Parser("services and namespaces", BYTES, read_neighbours, NEIGHBOURS, ("state/wire.py", "state/services.py"),
               decoding),
        Parser("services in a stream", BYTES, streamed(wire.Service), NEIGHBOURS, ("kube/stream.py",)),
        Parser("namespaces in a stream", BYTES, streamed(wire.Namespace), NEIGHBOURS, ("kube/stream.py",)),
        Parser("authorizations", TEXT, secrets, ["Bearer a.b-c", "Basic dXNlcjpwYXNz", "bearer x"],
               ("console/readers.py", "extender/door.py")),
        Parser("leases", TEXT, served, ["alnair,alnair-best-fit"], ("ledger/lease.py",)),
        Parser("groups", TREE, groups, GROUPS, ("api/podgroup.py", "control/gangs.py", "handlers/podgroup.py"), (),
               _group_stands),
        Parser("horovod jobs", TREE, horovod, JOBS,
               ("api/horovod.py", "control/horovod/job.py", "control/horovod/children.py", "control/horovod/drift.py")),
        Parser("slices", TEXT, parse_annotation, [json.dumps(POD_ENTRY["containers"])], ("state/holding.py",),
               (ValueError,), _round_trips),
        Parser("shares", TREE, shares, [POD_ENTRY, STATUS["reserved"][0]], ("state/holding.py",), (ValueError,),
               lambda found: sane(found, low=0)),
        Parser("records", TREE, records.parse, RECORDS, ("ledger/records.py",), (Unparsable,), _record_stands),
        Parser("plans in annotations", TEXT, plan, [json.dumps(PLAN)], ("ledger/records.py", "ledger/writer.py"),
               (Unparsable,), _record_stands),
        Parser("allocations", TREE, GPUAllocationStatus.model_validate, [STATUS, PLAN], ("api/allocation.py",),
               (ValidationError,)),
        Parser("objects from the apiserver", BYTES, client._object, FAILURES, ("kube/client.py",), (Unanswered,)),
        Parser("refusals of the apiserver", BYTES, failures, FAILURES, ("kube/client.py",), (Refused,)),
        Parser("http", "bytes", answers, HTTP, ("kube/http.py",), (BadAnswer,)),
        Parser("questions of kube-scheduler", BYTES, extender, EXTENDER, ("extender/wire.py", "extender/server.py")),
        Parser("scales", TREE, lambda tree: scale._scale("/x", tree) if isinstance(tree, dict) else None, SCALES,
               ("control/elastic/scale.py",), (scale.NoTarget,)),
        Parser("numbers in labels and annotations", TEXT, lines_of,
               [READING, "1.5@2,3", "2026-01-01T00:00:00Z", "42", "-7", "300x8"],
               ("state/readings.py", "scheduling/elastic/throughput.py", "scheduling/plugins/taint_toleration.py",
                "state/selectors.py", "kube/clock.py", "simulate/philly.py"), (BadTrace,)),
        Parser("managed fields", BYTES, managed, [[{"time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {}}}]],
               ("state/loads.py",)),
        Parser("openb nodes", TEXT, written_to(folder, openb.read_machines), [CSV_NODES], ("simulate/openb.py",),
               (BadTrace,), sane, says="trace"),
        Parser("openb pods", TEXT, written_to(folder, openb.read_jobs), [CSV_PODS], ("simulate/openb.py",),
               (BadTrace,), _jobs_are_sane, says="trace"),
        Parser("philly", TEXT, written_to(folder, philly.read_jobs), [CSV_PHILLY], ("simulate/philly.py",),
               (BadTrace,), _jobs_are_sane, says="trace"),
        Parser("jsonl", TEXT, written_to(folder, jsonl.read_trace), [JSONL], ("simulate/jsonl.py",),
               (BadTrace,), lambda trace: _jobs_are_sane(trace.jobs), says="trace"),
    ]  # fmt: skip
