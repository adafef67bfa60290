"""UtilSched on a real control plane: load keeps pods away as long as it is news, and nonsense does no harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from alnair.api import names
from harness.api import Api, Object, at
from harness.builders import deployment, group, job, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator, Release, own_name
from harness.plugin import show_log_on_failure
from harness.watching import bound_pods, event_about

GIB = 1024


def reading(load: int, **more: Any) -> str:
    """A 24 GB card, so many per cent of it in use."""
    used = 24 * load // 100
    told = {"mem_used": f"{used}GB", "mem_free": f"{24 - used}GB", "process_cnt": 1, "max_mem_bw_util": load}
    return str({**told, "max_gpu_util": load, **more})


def on_card(index: int, text: str) -> dict[str, str]:
    return {f"{names.PREFIX}gpu-{index}": text}


async def bound(api: Api, namespace: str, name: str) -> str:
    shown = await api.until(
        at("pods", namespace, name), lambda it: it["spec"].get("nodeName"), what=f"{name} bound"
    )
    return str(shown["spec"]["nodeName"])


@pytest.mark.parametrize("profile", [names.PROFILE_UTILIZATION, names.PROFILE_UTILSCHED])
async def test_pods_go_where_least_is_going_on_and_to_the_busiest_node_last(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, profile: str
) -> None:
    loads = {"busy": 95, "half-busy": 60, "idle": 0}
    nodes = [node(name).with_cards(1).annotated(on_card(0, reading(load))) for name, load in loads.items()]
    await fleet.add(*nodes, node("nobody-tells").with_cards(1))
    asking = pod("x").asking(gpu=1).by(own_name(profile, operator.scheduler)).selecting(fleet.selector)
    places = []
    for number in range(4):
        await api.create(asking.named(f"p{number}").manifest(), namespace=namespace)
        places.append(await bound(api, namespace, f"p{number}"))
    assert places == [fleet.name(name) for name in ("idle", "nobody-tells", "half-busy", "busy")]


@pytest.fixture
async def patient(
    release: Release, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Operator]:
    """An operator that takes readings for news for ten minutes."""
    believe(release, fresh=600, half_life=600, forgotten=1200)
    made = Operator(release, tmp_path)
    show_log_on_failure(request.node, "the operator's log", made.log)
    await made.start()
    yield made
    assert made.running()
    await made.stop()


def believe(release: Release, *, fresh: float, half_life: float, forgotten: float) -> None:
    config = yaml.safe_load(release.config.read_text())
    config["readings"] = {"freshSeconds": fresh, "halfLifeSeconds": half_life, "forgottenSeconds": forgotten}
    release.config.write_text(yaml.safe_dump(config))


async def test_a_node_loses_its_penalty_as_the_data_goes_stale(
    api: Api, namespace: str, fleet: Fleet, patient: Operator
) -> None:
    """The busy node is the stronger one: only its load speaks against it."""
    strong = node("strong").with_cards(4, model="NVIDIA-A100-SXM4-80GB", memory_mib=80 * GIB)
    busy = {key: text for card in range(4) for key, text in on_card(card, reading(95)).items()}
    weak = node("weak").with_cards(4, model="Tesla-T4", memory_mib=16 * GIB)
    await fleet.add(strong.annotated(busy), weak.annotated(on_card(0, reading(0))))
    by = own_name(names.PROFILE_UTILIZATION, patient.scheduler)
    asking = pod("x").slice(memory_gib=1).by(by).selecting(fleet.selector)
    await api.create(asking.named("fresh").manifest(), namespace=namespace)
    assert await bound(api, namespace, "fresh") == fleet.name("weak")

    believe(patient.release, fresh=1, half_life=1, forgotten=4)
    # Read anew: it is fresh once more, for a second, and then time does the rest.
    annotations = {**busy, **on_card(3, reading(96))}
    await api.patch(at("nodes", None, fleet.name("strong")), {"metadata": {"annotations": annotations}})
    for number in range(40):
        await api.create(asking.named(f"stale-{number}").manifest(), namespace=namespace)
        if await bound(api, namespace, f"stale-{number}") == fleet.name("strong"):
            return
        await asyncio.sleep(0.25)  # a quiet machine binds forty pods before anything is stale
    raise AssertionError("forty pods, and none went to the stronger node")


PEAK = {names.PEAK_CPU: "100m"}


@pytest.mark.parametrize("teller", ["nobody", "the pod", "its group", "its Job", "its ReplicaSet"])
async def test_what_its_like_used_before_goes_before_what_a_pod_asks_for_whoever_tells_it(
    api: Api, namespace: str, fleet: Fleet, release: Release, tmp_path: Path, teller: str
) -> None:
    """Sixty of 64 CPUs fill either node, so the faster network decides; a tenth of a CPU goes where CPUs are idle."""
    config = yaml.safe_load(release.config.read_text())
    only = {"cards": 0, "compute": 0, "memory": 0, "link": 0}
    scorers = [
        {"name": "Basic", "options": only},
        {"name": "Allocated", "weight": 10, "options": {"compute": 0, "memory": 0}},
    ]
    config["profiles"] = [{"schedulerName": release.scheduler, "scorers": scorers, "picker": "coolest"}]
    release.config.write_text(yaml.safe_dump(config))
    fast = (
        node("fast").labelled({names.NETWORK_GBIT: "400"}).annotated({names.NODE_READING: '{"cpu_util": 50}'})
    )
    idle = node("idle").labelled({names.NETWORK_GBIT: "4"}).annotated({names.NODE_READING: '{"cpu_util": 0}'})
    await fleet.add(fast.with_cards(1), idle.with_cards(1))
    asking = pod("x").slice(memory_gib=1).asking(cpu="60").by(release.scheduler).selecting(fleet.selector)
    operator = Operator(release, tmp_path)
    await operator.start()
    try:
        match teller:
            case "its Job":
                await api.create(job("x", asking, count=1).annotated(PEAK).manifest(), namespace=namespace)
            case "its ReplicaSet":
                owner = deployment("x", asking, replicas=1).annotated(PEAK)
                await api.create(owner.manifest(), namespace=namespace)
            case "its group":
                grouped = group("g", min_member=1).annotated(PEAK)
                await api.create(grouped.manifest(), namespace=namespace)
                await api.create(asking.in_group("g").manifest(), namespace=namespace)
            case _:
                told = asking.annotated(PEAK) if teller == "the pod" else asking
                await api.create(told.manifest(), namespace=namespace)
        (placed,) = await bound_pods(api, namespace, 1)
        assert placed["spec"]["nodeName"] == fleet.name("fast" if teller == "nobody" else "idle")
    finally:
        assert operator.running()
        await operator.stop()


MALFORMED = {
    "nan": "{'max_gpu_util': NaN}",
    "infinite": "{'max_gpu_util': 1e999}",
    "negative": "{'max_gpu_util': -5}",
    "too-much": "{'max_gpu_util': 101}",
    "digits": "{'max_gpu_util': ٣}",
    "boolean": "{'max_gpu_util': True}",
    "text": "{'max_gpu_util': '88'}",
    "percent": "{'max_gpu_util': 88%}",
    "bytes": "{'max_gpu_util': b'88'}",
    "nested": "{'max_gpu_util': " + "[" * 5000 + "]" * 5000 + "}",
    "code": "{'max_gpu_util': __import__('os').abort()}",
    "twice": '{"max_gpu_util": 5, "max_gpu_util": 90}',
    "sizes": "{'mem_used': 'NaN', 'mem_free': '-1GB'}",
    "no-mapping": "88",
    "empty": "",
    "nul": "{'max_gpu_util': '\x00'}",
    "half-a-character": "{'max_gpu_util': '\\ud800'}",
    "long": "{'max_gpu_util': 5, 'pad': '" + "x" * 200 * 1024 + "'}",
    "no-time": "{'max_gpu_util': 5, 'time': 'yesterday'}",
}


async def test_malformed_readings_of_every_kind_are_told_once_and_pods_are_placed_all_the_same(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    nodes = [node(kind).with_cards(1).annotated(on_card(0, text)) for kind, text in MALFORMED.items()]
    await fleet.add(*nodes, node("idle").with_cards(1).annotated(on_card(0, reading(0))))
    by = own_name(names.PROFILE_UTILIZATION, operator.scheduler)
    asking = pod("x").slice(memory_gib=1).by(by).selecting(fleet.selector)
    await api.create(asking.named("first").manifest(), namespace=namespace)
    assert await bound(api, namespace, "first") == fleet.name("idle")
    for kind in MALFORMED:
        told = await event_about(api, "default", fleet.name(kind), "InvalidReading")
        assert f"{names.PREFIX}gpu-0" in told["note"]

    # The same fields are wrong again, and every node is still good for a pod.
    for kind in MALFORMED:
        change = {"annotations": on_card(0, again(kind)), "labels": {"again": kind}}
        await api.patch(at("nodes", None, fleet.name(kind)), {"metadata": change})
        there = asking.named(f"on-{kind}").selecting({**fleet.selector, "again": kind})
        await api.create(there.manifest(), namespace=namespace)
    for kind in MALFORMED:
        assert await bound(api, namespace, f"on-{kind}") == fleet.name(kind)
    assert operator.process is not None
    ours = f"-{operator.process.pid}-"  # operators of other tests see these nodes too
    events = [
        each for each in await api.items(at("events", "default")) if ours in each.get("reportingInstance", "")
    ]
    for kind in MALFORMED:
        assert len(about(events, fleet.name(kind), "InvalidReading")) == 1, kind
    assert "Traceback" not in operator.log.read_text()


def again(kind: str) -> str:
    """Another text with the same fault."""
    text = MALFORMED[kind]
    return text[:1] + "'more': 1, " + text[1:] if text.startswith("{") else text + "9"


def about(events: list[Object], name: str, reason: str) -> list[Object]:
    return [each for each in events if each["regarding"].get("name") == name and each["reason"] == reason]
