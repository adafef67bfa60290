"""One pod that says too much stops nobody: it is told so, costs as much as any other, and leaves nothing behind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from alnair.api import names
from alnair.state import bounds, environment, wire
from alnair.state.alignment import MOST_KEPT, Alignment, AlignmentReader
from alnair.state.pods import LONGEST_MEASUREMENT, Pod, PodReader
from harness.builders import node, pod
from unit.builders import Cluster, advertising, decoded

Spec = dict[str, Any]

ALNAIR = frozenset({"alnair"})


def read(spec: Spec, annotations: dict[str, str] | None = None, reader: PodReader | None = None) -> Pod:
    meta = {"name": "p", "uid": "u", "annotations": annotations or {}}
    whole = {"containers": [{"name": "c"}], "schedulerName": "alnair", **spec}
    return (reader or PodReader()).read(decoded({"metadata": meta, "spec": whole}, wire.Pod))


def constraints(number: int, *, lines: int = 1) -> Spec:
    expressions = [{"key": f"k{each}", "operator": "Exists"} for each in range(lines)]
    return {
        "topologySpreadConstraints": [
            {
                "topologyKey": f"t{each}",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": expressions},
            }
            for each in range(number)
        ]
    }


def wishes(number: int, *, weight: int = 1) -> Spec:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    preferred = [{"weight": weight, "podAffinityTerm": term} for _ in range(number)]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def node_values(number: int) -> Spec:
    line = {"key": "zone", "operator": "In", "values": [f"z{each}" for each in range(number)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def node_text(number: int) -> Spec:
    """In a wish: of these the apiserver does not look at the values."""
    line = {"key": "zone", "operator": "In", "values": ["z" * (number - 1), "z"]}
    wish = {"weight": 1, "preference": {"matchExpressions": [line]}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


def node_lines(number: int) -> Spec:
    lines = [{"key": f"k{each}", "operator": "Exists"} for each in range(number)]
    required = {"nodeSelectorTerms": [{"matchFields": [], "matchExpressions": lines}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def namespaces(number: int) -> Spec:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaces": [f"n{each}" for each in range(number)]}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def resources(number: int) -> Spec:
    asked = {f"x.io/{each}": "1" for each in range(number - 1)} | {"cpu": "2"}
    return {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]}


def resources_of_the_pod(number: int) -> Spec:
    return {"resources": {"requests": {f"hugepages-{each + 1}Mi": "1Mi" for each in range(number)}}}


def label_keys(number: int) -> Spec:
    keys = [f"k{each}" for each in range(number)]
    term = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": keys[1:]}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def ports(number: int) -> Spec:
    return {"containers": [{"name": "c", "ports": [{"hostPort": each + 1} for each in range(number)]}]}


def volumes(number: int) -> Spec:
    return {
        "volumes": [
            {"name": f"v{each}", "persistentVolumeClaim": {"claimName": f"c{each}"}} for each in range(number)
        ]
    }


KINDS: list[tuple[Callable[[int], Spec], int, str]] = [
    (constraints, bounds.MOST_CONSTRAINTS, "spec.topologySpreadConstraints"),
    (lambda number: constraints(1, lines=number), bounds.MOST_LINES, "spec.topologySpreadConstraints"),
    (wishes, bounds.MOST_TERMS, "spec.affinity"),
    (node_values, bounds.MOST_VALUES, "spec.affinity"),
    (node_lines, bounds.MOST_LINES, "spec.affinity"),
    (namespaces, bounds.MOST_VALUES, "spec.affinity"),
    (resources, bounds.MOST_RESOURCES, "spec.containers (resources)"),
    (resources_of_the_pod, bounds.MOST_RESOURCES, "spec.containers (resources)"),
    (label_keys, bounds.MOST_LINES, "spec.affinity"),
    (ports, bounds.MOST_PORTS, "spec.containers (host ports)"),
    (volumes, bounds.MOST_VOLUMES, "spec.volumes"),
    (
        lambda number: {"containers": [{"name": f"c{each}"} for each in range(number)]},
        bounds.MOST_CONTAINERS,
        "spec.containers and initContainers",
    ),
    (
        lambda number: {"containers": [{"name": "c", "image": "i" * number}]},
        bounds.MOST_TEXT,
        "spec.containers and volumes (characters of images)",
    ),
    (
        lambda number: {"volumes": [{"name": "v", "image": {"reference": "i" * number}}]},
        bounds.MOST_TEXT,
        "spec.containers and volumes (characters of images)",
    ),
    (
        lambda number: {"volumes": [{"name": "v", "azureDisk": {"diskURI": "d" * (number - 2)}}]},
        bounds.MOST_TEXT,
        "spec.volumes (characters of disks)",
    ),
    (node_text, bounds.MOST_TEXT, "spec.affinity"),
    (
        lambda number: {"nodeSelector": {f"k{each}": "v" for each in range(number)}},
        bounds.MOST_LINES,
        "spec.nodeSelector",
    ),
    (
        lambda number: {"tolerations": [{"key": f"k{each}"} for each in range(number)]},
        bounds.MOST_TOLERATIONS,
        "spec.tolerations",
    ),
]


@pytest.mark.parametrize(("kind", "most", "field"), KINDS)
def test_a_pod_at_the_bound_is_read_whole_and_one_beyond_is_told_the_field(
    kind: Callable[[int], Spec], most: int, field: str
) -> None:
    assert (read(kind(most)).problem, read(kind(most)).excess) == ("", "")
    beyond = read(kind(most + 1))
    assert beyond.excess.startswith(field)
    assert f": {most + 1} are more than Alnair looks at; {most} are the most" in beyond.excess
    shape = beyond.shape
    about_pods = (*shape.spread, *shape.near, *shape.apart, *shape.preferred_pods)
    about_nodes = (*(shape.node_terms or ()), *shape.node_selector, *shape.tolerations)
    of_the_node = (*shape.ports, *shape.claims, *shape.disks, *shape.mounted_images)
    assert (*about_pods, *about_nodes, *of_the_node) == ()


def test_what_a_pod_takes_of_its_node_counts_however_much_else_it_asks_for() -> None:
    cluster = Cluster(node("n"))
    before = cluster.free("n", "cpu")
    cluster.running(pod("p").with_(lambda it: it["spec"].update(resources(5000))), on="n")
    assert cluster.free("n", "cpu") == before - 2000


def test_a_pod_with_too_many_ports_still_counts_for_all_that_it_takes() -> None:
    cluster = Cluster(advertising(node("n"), "rdma/hca", 1))
    taking = pod("p").asking(resources={"rdma/hca": "1"}).slice(memory_gib=4)
    many = [{"containerPort": each + 1, "hostPort": each + 1} for each in range(300)]
    there = cluster.running(taking.with_(lambda it: it["spec"]["containers"][0].update(ports=many)), on="n")
    assert there.excess
    assert there.shape.gpu.demands
    assert cluster.free("n", "rdma/hca") == 0


def test_host_ports_of_a_bound_pod_are_taken_however_many_they_are() -> None:
    cluster = Cluster(node("n"))
    many = ports(bounds.MOST_PORTS + 1)
    there = cluster.running(
        pod("p").with_(lambda it: it["spec"]["containers"][0].update(many["containers"][0])), on="n"
    )
    assert there.excess
    assert len(there.shape.ports) == bounds.MOST_PORTS + 1


def test_names_that_nothing_is_asked_of_do_not_hide_what_is_taken() -> None:
    """kube-scheduler passes over them, and binds the pod for the rest."""
    cluster = Cluster(advertising(node("n"), "rdma/hca", 8))
    asked = {f"x.io/{number}": "0" for number in range(bounds.MOST_RESOURCES)} | {"rdma/hca": "8"}
    there = cluster.running(pod("p").asking(resources=asked), on="n")
    assert there.excess
    assert cluster.free("n", "rdma/hca") == 0


def test_of_more_containers_than_anybody_needs_it_is_not_worked_out_where_each_would_be() -> None:
    limits = {"x.io/device": "1"}

    def spec(number: int) -> Spec:
        return {
            "containers": [{"name": f"c{each}", "resources": {"limits": limits}} for each in range(number)]
        }

    at_the_bound, beyond = (read(spec(bounds.MOST_CONTAINERS + more)).shape.alignment for more in (0, 1))
    assert at_the_bound is not None
    assert beyond is None


def test_large_alignments_go_with_their_pods() -> None:
    reader = AlignmentReader()

    def aligned(name: str, containers: int) -> Alignment | None:
        limits = {"x.io/device": "1"}
        spec = {
            "containers": [
                {"name": f"{name}{each}", "resources": {"limits": limits}} for each in range(containers)
            ]
        }
        return reader.read(decoded(spec, wire.PodSpec))

    assert aligned("few", 16) is aligned("few", 16)
    assert aligned("many", 17) is not aligned("many", 17)
    for number in range(3 * MOST_KEPT):
        aligned(f"n{number}-", 1)
    assert len(reader._kept) <= MOST_KEPT


def test_ports_that_take_none_of_the_hosts_are_not_counted() -> None:
    assert read({"containers": [{"name": "c", "ports": [{"containerPort": 1}] * 1000}]}).excess == ""


def test_resources_that_no_node_has_make_no_columns() -> None:
    cluster = Cluster(node("n"))
    columns = len(cluster.state.draft().columns)
    for number in range(50):
        asked = {f"x.io/{number}-{each}": "1" for each in range(50)}
        cluster.running(pod(f"p{number}").asking(resources=asked), on="n")
    assert len(cluster.state.draft().columns) == columns


def test_shapes_of_pods_that_are_gone_are_gone() -> None:
    reader = PodReader()
    first = read(node_values(3), reader=reader)
    assert read(node_values(3), reader=reader).shape is first.shape
    kept = [read(node_values(number), reader=reader) for number in range(4, 40)]
    assert len(reader._shapes) == 37
    del kept
    gc.collect()
    assert list(reader._shapes.values()) == [first.shape]


def test_an_environment_is_looked_at_no_further_than_it_can_reach() -> None:
    limits = {names.NVIDIA_GPU: "1000"}
    spec = {"containers": [{"name": f"c{each}", "resources": {"limits": limits}} for each in range(20)]}
    reader = PodReader(delivering=ALNAIR)
    environment._written.cache_clear()
    own = {
        "name": "X",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['c0.{names.ENV_DOMAIN}/y']"}},
    }
    spec["containers"][0]["env"] = [own]
    demands = read(spec, reader=reader).shape.gpu.demands
    assert len(demands) == 20
    few = len(names.env_of_container(names.MOST_LIMITED_CARDS, whole=False))
    assert len(environment._written(demands)) == 20 * few


@pytest.mark.parametrize(
    ("index", "fine"), [("31", True), ("32", False), ("031", False), ("3x", False), ("", False)]
)
def test_limits_are_read_of_cards_that_there_are(index: str, fine: bool) -> None:
    variables = {**names.env_of_container(32, whole=True), "LIMIT": f"{names.MEMORY_LIMIT}{index}"}
    env = [
        {
            "name": variable,
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{names.env_key('c', value)}']"}},
        }
        for variable, value in variables.items()
    ]
    container = {"name": "c", "env": env, "resources": {"limits": {names.NVIDIA_GPU: "32"}}}
    problem = read({"containers": [container]}, reader=PodReader(delivering=ALNAIR)).problem
    assert ("which is of no card of this pod" not in problem) == fine, problem


def test_wishes_for_and_against_have_hashes_of_their_own() -> None:
    one, two = (read(wishes(1, weight=weight)).shape for weight in (1, 2))
    assert hash(one) != hash(two)


def test_a_measurement_longer_than_anybody_reads_is_not_kept() -> None:
    assert read({}, {names.THROUGHPUT: "1" * (LONGEST_MEASUREMENT + 1)}).throughput == ""
    assert read({}, {names.THROUGHPUT: "512@4"}).throughput == "512@4"


def test_a_pod_for_another_system_has_a_shape_of_its_own() -> None:
    """A kubelet's refusal of it is remembered by its shape, and must not count against other tenants' pods."""
    assert read({"os": {"name": "windows"}}).shape != read({}).shape
