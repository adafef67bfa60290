"""A cluster that fills up: the books decide what was allocated, no card is ever given out twice."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.filling import Filled, fill
from alnair.simulate.policies import POLICIES, Policy
from alnair.simulate.trace import Job, Machine, Trace

TRACE = Trace(
    (
        *(Machine(f"large-{number}", 96_000, 393_216, 8, "G2") for number in range(3)),
        *(Machine(f"small-{number}", 16_000, 65_536, 2, "T4") for number in range(4)),
    ),
    (
        *(Job(f"slice-{number}", 4_000, 2048, 1, 100 + 45 * number) for number in range(20)),
        *(Job(f"whole-{number}", 8_000, 8192, 1, 1000) for number in range(4)),
        Job("eight", 64_000, 65_536, 8, 1000),
        Job("two", 12_000, 8192, 2, 1000, ("T4",)),
        *(Job(f"cpu-{number}", 3_000, 1024) for number in range(4)),
    ),
)


def run(policy: str, seed: int = 42, **options: int) -> Filled:
    ticks = count()
    return fill(
        TRACE,
        POLICIES[policy],
        seed,
        inflate=1.3,
        clocks=(lambda: next(ticks), lambda: next(ticks)),
        **options,
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_fills_the_cluster_and_is_the_same_each_time(policy: str) -> None:
    first, again = run(policy), run(policy)
    assert first.allocation_percent == again.allocation_percent
    assert 60 < first.allocation_percent <= 100
    assert 126 < first.arrived_percent <= 130 + 100 * 7 / 32  # the last draw may want eight cards
    assert 0 < first.placed < first.pods


@pytest.mark.parametrize("policy", POLICIES)
def test_no_card_and_no_node_is_ever_overdrawn(policy: str) -> None:
    cluster = SimulatedCluster(TRACE.machines, Policy(POLICIES[policy], TRACE, 1))
    for number in range(300):
        job = TRACE.jobs[number * 7 % len(TRACE.jobs)]
        cluster.start(Job(f"{number}", job.cpu, job.memory_mib, job.cards, job.gpu, job.models))
    state = cluster.state
    assert (state.free[state.exists] >= 0).all()
    assert (state.card_free_memory >= 0).all()
    assert (state.card_exclusive <= 1).all()
    assert not ((state.card_exclusive > 0) & (state.card_users > 1)).any()


def test_a_job_that_ends_gives_everything_back_and_another_takes_its_place() -> None:
    cluster = SimulatedCluster(TRACE.machines[:1], Policy(POLICIES["alnair"], TRACE, 1))
    eight = TRACE.jobs[24]
    before = cluster.state.free.copy()
    assert cluster.start(eight)
    assert not cluster.start(Job("late", 1_000, 1, 1, 500))
    cluster.end(eight)
    assert np.array_equal(cluster.state.free, before)
    assert cluster.allocated() == 0
    assert cluster.start(Job("late", 1_000, 1, 1, 500))


def test_a_job_of_several_pods_is_placed_whole_or_not_at_all() -> None:
    cluster = SimulatedCluster(TRACE.machines, Policy(POLICIES["alnair"], TRACE, 1))
    assert not cluster.start(Job("too much", 8_000, 1, 8, 1000, pods=4))
    assert cluster.allocated() == 0
    assert cluster.start(Job("gang", 8_000, 1, 8, 1000, pods=3))
    assert cluster.allocated() == 24_000


def test_samples_go_up_to_the_end() -> None:
    outcome = run("fgd", samples=10)
    assert len(outcome.samples) == 10
    assert outcome.samples[-1].arrived == outcome.arrived_percent
    assert outcome.samples[-1].allocated == outcome.allocation_percent
    assert all(sample.fragmented <= 100 - sample.allocated + 1e-9 for sample in outcome.samples)


def files(folder: Path) -> tuple[Path, Path]:
    nodes, pods = folder / "nodes.csv", folder / "pods.csv"
    lines = [f"{each.name},{each.cpu},{each.memory_mib},{each.cards},{each.model}" for each in TRACE.machines]
    nodes.write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *lines]))
    lines = [
        f"{each.name},{each.cpu},{each.memory_mib},{each.cards},{each.gpu},{'|'.join(each.models)}"
        for each in TRACE.jobs
    ]
    pods.write_text("\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec", *lines]))
    return nodes, pods


def cli(*arguments: object) -> tuple[int, str]:
    from alnair.cli import app
    from alnair.cli.simulate import simulate

    if not app.registered_commands:
        app.command(name="simulate")(simulate)
        app.command(name="other")(lambda: None)
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)])
    return result.exit_code, result.stdout


def test_the_command_prints_one_line_of_json_with_every_seed(tmp_path: Path) -> None:
    nodes, pods = files(tmp_path)
    code, out = cli("--nodes", nodes, "--pods", pods, "--policy", "fgd", "--seeds", "42-44", "--json")
    answer = json.loads(out.splitlines()[-1])
    assert code == 0
    assert answer["policy"] == "fgd"
    assert list(answer["per_seed"]) == ["42", "43", "44"]
    assert answer["per_seed"]["42"] == round(run("fgd").allocation_percent, 3)
    mean = sum(answer["per_seed"].values()) / 3
    assert answer["gpu_allocation_percent"] == pytest.approx(mean, abs=0.001)


def test_processes_find_the_same_as_one(tmp_path: Path) -> None:
    nodes, pods = files(tmp_path)
    common = ("--nodes", nodes, "--pods", pods, "--policy", "alnair", "--seeds", "1,2", "--json")
    found = [json.loads(cli(*common, "--jobs", jobs)[1].splitlines()[-1])["per_seed"] for jobs in (1, 2)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "wrong", [("--policy", "none"), ("--seeds", "9-1"), ("--seeds", "x"), ("--nodes", "missing.csv")]
)
def test_a_wrong_argument_ends_with_a_sentence(tmp_path: Path, wrong: tuple[str, str]) -> None:
    nodes, pods = files(tmp_path)
    given = {"--nodes": nodes, "--pods": pods, "--policy": "fgd", "--seeds": "1"} | dict([wrong])
    code, out = cli(*(part for pair in given.items() for part in pair))
    assert code == 2
    assert not out


@pytest.mark.parametrize(("name", "start"), [("runs.svg", b"<?xml"), ("runs.png", b"\x89PNG")])
def test_runs_are_drawn_policies_side_by_side(tmp_path: Path, name: str, start: bytes) -> None:
    nodes, pods = files(tmp_path)
    chosen = ("--policy", "fgd", "--policy", "alnair", "--plot", tmp_path / name)
    code, out = cli("--nodes", nodes, "--pods", pods, *chosen, "--json")
    assert code == 0
    assert [each["policy"] for each in json.loads(out)["policies"]] == ["fgd", "alnair"]
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(start)
    if name.endswith(".svg"):
        assert b"Free, but of no use to most" in drawn
        assert b">alnair<" in drawn


def test_jobs_that_leave_are_drawn_with_their_waits(tmp_path: Path) -> None:
    trace, picture = tmp_path / "trace.jsonl", tmp_path / "waits.svg"
    lines = [json.dumps({"job": {"cards": 8, "arrives": number, "lasts": 60}}) for number in range(20)]
    trace.write_text("\n".join(lines))
    code, out = cli(
        "--pods", trace, "--nodes", "2x8", "--departures", "--order", "sjf", "--plot", picture, "--json"
    )
    answer = json.loads(out)
    assert code == 0
    assert (answer["jobs"], answer["never_started"], answer["order"]) == (20, 0, "sjf")
    assert answer["mean_completion_seconds"] == pytest.approx(answer["mean_wait_seconds"] + 60)
    assert b"Time in the queue" in picture.read_bytes()
