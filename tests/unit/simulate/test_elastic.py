"""Elastic jobs in the simulator: what every run must hold, told by the stories alone, and how the rules compare."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from alnair.scheduling.elastic.curves import LINEAR
from alnair.simulate import philly
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.elastic.experiment import JOBS, LOADS, curve, nodes_for, read_jobs, run, speed
from alnair.simulate.elastic.outcome import PAUSE, Outcome, size
from alnair.simulate.elastic.sizings import PACE, RULES
from alnair.simulate.elastic.stories import Story, figures
from alnair.simulate.philly import equal_machines
from alnair.simulate.policies import POLICIES, Policy
from alnair.simulate.reading import read_trace
from alnair.simulate.trace import CARD, BadTrace, Elastic, Job, Machine, Trace

PACK = POLICIES["best-fit"]
NODE = Machine("n", 64_000, 65_536, 8)


@cache
def drawn() -> tuple[Job, ...]:
    """As Philly's, small: most jobs are short and want one card, a few are long and want many, and all come late."""
    chance = random.Random(2)
    jobs = []
    for number in range(300):
        pods = chance.choices([1, 2, 4, 8, 16], [70, 8, 10, 10, 2])[0]
        lasts = chance.lognormvariate(5.5, 1.8) * (1 if pods == 1 else 8)
        arrives = 36_000 * max(chance.random(), chance.random())
        elastic = Elastic((pods + 1) // 2, 2 * pods, curve(32)) if pods > 1 else None
        jobs.append(
            Job(f"j{number:03}", 0, 0, 1, CARD, pods=pods, arrives=arrives, lasts=lasts, elastic=elastic)
        )
    return tuple(jobs)


@cache
def outcome(load: float, rule: str) -> Outcome:
    return run(drawn(), PACK, (load, rule))


def work_done(story: Story) -> float:
    """By the sizes that it had, a pause after every change but the start."""
    done = 0.0
    for at, ((second, pods), (after, _)) in enumerate(pairwise(story.sizes)):
        speed_now = story.job.elastic.curve.at(pods) if story.job.elastic else 1.0
        done += max(after - second - (PAUSE if at else 0.0), 0.0) * speed_now
    return done


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("load", [1.2, 2.0])
def test_in_every_run_bounds_and_cards_and_order_are_kept_and_the_work_is_done(
    load: float, rule: str
) -> None:
    found = outcome(load, rule)
    moves = []
    for story in found.stories:
        job = story.job
        assert story.ended
        assert story.wait >= 0
        least, most = (job.elastic.least, job.elastic.most) if job.elastic else (job.pods, job.pods)
        assert all(least <= pods <= most for _, pods in story.sizes[:-1])
        work = (job.lasts or 0.0) * (job.elastic.curve.at(job.pods) if job.elastic else 1.0)
        assert work_done(story) == pytest.approx(work, abs=1e-3)
        before = 0
        for second, pods in story.sizes:
            moves.append((second, pods - before))
            before = pods
    held = 0
    for _, change in sorted(moves):  # at the same second, those who leave leave first
        held += change
        assert 0 <= held <= found.cards
    by_arrival = sorted(found.stories, key=lambda story: story.job.arrives)
    assert all(one.sizes[0][0] <= other.sizes[0][0] for one, other in pairwise(by_arrival))


def test_ours_never_undoes_a_change_within_the_stabilization() -> None:
    for load in (1.2, 2.0):
        for story in outcome(load, "alnair").stories:
            steps = [(second, pods - before) for (_, before), (second, pods) in pairwise(story.sizes) if pods]
            for (at, change), (then, other) in pairwise(steps):
                assert change * other > 0 or then - at >= PACE.stabilization


@pytest.mark.parametrize("load", [1.2, 2.0])
def test_ours_ends_jobs_sooner_than_the_old_rule_and_that_sooner_than_rigid(load: float) -> None:
    rigid, old, ours = (outcome(load, rule).report() for rule in ("rigid", "old-rule", "alnair"))
    means = [each["mean_completion_hours"] for each in (ours, old, rigid)]
    assert means[0] < 0.9 * means[1] < 0.9 * means[2]
    assert ours["p99_completion_hours"] < old["p99_completion_hours"]
    assert ours["makespan_hours"] < old["makespan_hours"]
    assert rigid["changes"] == 0 < old["changes"] < ours["changes"]


def test_the_old_rule_never_grows_a_job() -> None:
    for story in outcome(1.2, "old-rule").stories:
        assert all(after <= before for (_, before), (_, after) in pairwise(story.sizes))


def test_the_same_run_gives_the_same_stories() -> None:
    assert run(drawn()[:60], PACK, (1.0, "alnair")) == run(drawn()[:60], PACK, (1.0, "alnair"))


# -- by hand -------------------------------------------------------------------------------------------------------


def elastic(name: str, least: int, most: int, pods: int, arrives: float, lasts: float) -> Job:
    return Job(
        name, 0, 0, 1, CARD, pods=pods, arrives=arrives, lasts=lasts, elastic=Elastic(least, most, LINEAR)
    )


def sizes(rule: str, *jobs: Job) -> list[list[tuple[float, int]]]:
    return [list(story.sizes) for story in size(Trace((NODE,), jobs), PACK, rule).stories]


def test_a_job_takes_all_gives_way_and_grows_again_when_cards_have_stayed_idle() -> None:
    first, second = sizes("alnair", elastic("a", 2, 8, 8, 0, 1000), elastic("b", 4, 4, 4, 100, 50))
    assert second == [(100, 4), (150, 0)]
    # It shrank at 100, so it may grow at 160. A pause follows each: 800 and 4 x 30 are done by then, the rest at 8.
    assert first[:3] == [(0, 8), (100, 4), (160, 8)]
    assert first[3] == (pytest.approx(190 + (8000 - 800 - 4 * 30) / 8), 0)


def test_the_old_rule_leaves_it_small() -> None:
    first, _ = sizes("old-rule", elastic("a", 2, 8, 8, 0, 1000), elastic("b", 4, 4, 4, 100, 50))
    assert first == [(0, 8), (100, 4), (130 + 7200 / 4, 0)]


def test_a_rigid_job_waits_and_nobody_overtakes_it() -> None:
    waiting = sizes(
        "rigid", elastic("a", 2, 8, 6, 0, 100), elastic("b", 2, 8, 4, 1, 10), elastic("c", 1, 1, 1, 2, 5)
    )
    assert [story[0][0] for story in waiting] == [0, 100, 100]


def test_a_job_that_never_fits_is_told() -> None:
    stories = size(Trace((NODE,), (elastic("huge", 9, 9, 9, 0, 1),)), PACK, "alnair").stories
    assert figures(stories, 8)["never_ended"] == 1


def test_figures_are_made_of_stories() -> None:
    job = elastic("a", 1, 4, 2, 3600, 0)
    told = figures([Story(job, ((7200.0, 2), (10800.0, 4), (14400.0, 0)))], cards=4)
    assert told["mean_completion_hours"] == 3
    assert told["mean_queueing_hours"] == 1
    assert told["makespan_hours"] == 4
    assert told["utilisation_percent"] == 100 * 6 / 16
    assert told["changes"] == 1


# -- the cluster ---------------------------------------------------------------------------------------------------


def test_pods_come_and_go_in_the_books_and_a_look_changes_nothing() -> None:
    trace = Trace((NODE, Machine("m", 64_000, 65_536, 8)), (elastic("a", 1, 16, 10, 0, 1),))
    cluster, job = SimulatedCluster(trace.machines, Policy(PACK, trace, 1)), trace.jobs[0]
    other = elastic("b", 1, 16, 4, 0, 1)
    assert cluster.start(job, 10)
    assert cluster.start(other, 4)
    before = sorted(cluster.state.card_usage())
    for mine, others in ((-4, 6), (-4, 7), (2, 0), (3, 0), (-9, 11)):
        assert cluster.fits([(job, mine), (other, others)]) == (mine + others <= 2)
        assert sorted(cluster.state.card_usage()) == before
    assert not cluster.grow(job, 3)
    cluster.shrink(job, 4)
    assert cluster.grow(other, 6)
    assert (cluster.size(job), cluster.size(other), cluster.allocated()) == (6, 10, 16 * CARD)
    cluster.end(job)
    cluster.end(other)
    assert cluster.allocated() == 0


def test_who_leaves_gives_back_cpu_too() -> None:
    hungry = [Job(name, 16_000, 0, 1, CARD, pods=4, elastic=Elastic(1, 4, LINEAR)) for name in ("a", "b")]
    trace = Trace((NODE,), tuple(hungry))  # 64 cores: four pods, though there are eight cards
    cluster = SimulatedCluster(trace.machines, Policy(PACK, trace, 1))
    assert cluster.start(hungry[0])
    assert [cluster.fits([(hungry[0], -fewer), (hungry[1], 2)]) for fewer in (1, 2)] == [False, True]


def test_the_experiment_is_as_it_is_written() -> None:
    assert (JOBS, LOADS, PAUSE) == (5000, (0.6, 0.8, 1.0), 30)
    assert [speed(n) for n in (1, 8, 16)] == pytest.approx([1, 8 / 1.21, 16 / 1.69])
    assert [curve(64).at(n) for n in range(1, 65)] == pytest.approx([speed(n) for n in range(1, 65)])


def test_philly_jobs_are_sorted_rebased_and_elastic_from_two_cards_on(tmp_path: Path) -> None:
    file = tmp_path / "philly.csv"
    file.write_text(
        "timestamp,duration,num_gpus\n"
        "2017-10-09 00:02:00,60,5\n"
        "2017-10-09 00:00:00,9,0\n"
        "2017-10-09 00:01:00,480,1\n"
        "2017-10-09 00:03:00,30,8\n"
    )
    one, five = read_jobs(file, first=2)
    assert (one.arrives, one.pods, one.elastic) == (0, 1, None)
    assert (five.arrives, five.pods, five.cards, five.lasts) == (60, 5, 1, 60)
    assert five.elastic is not None
    assert (five.elastic.least, five.elastic.most) == (3, 10)
    # 480 + 300 card-seconds in 60 s are 13 cards: two nodes at load 1, and one at load 2
    assert [nodes_for([one, five], load) for load in (1.0, 2.0)] == [2, 1]


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "nan", "inf", "1e99", "-1", "0x10", " "])
def test_a_duration_that_only_python_reads_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "philly.csv"
    file.write_text(f"timestamp,duration,num_gpus\n2017-10-09 00:02:00,{text},5\n")
    with pytest.raises(BadTrace, match="line 2: duration"):
        philly.read_jobs(file)


def elastic_line(**more: object) -> str:
    job = {"name": "a", "cards": 1, "pods": 2, "lasts": 10, "elastic": {"min": 1, "max": 4} | more}
    return json.dumps({"job": job}) + "\n"


def read(tmp_path: Path, text: str) -> Sequence[Job]:
    file = tmp_path / "trace.jsonl"
    file.write_text(text)
    return read_trace(file, "1x8").jobs


def test_a_trace_of_ours_tells_of_elastic_jobs(tmp_path: Path) -> None:
    job = read(tmp_path, elastic_line(speedup=[[2, 1.5], [4, 2.0]]))[0]
    assert job.elastic is not None
    assert [job.elastic.curve.at(pods) for pods in (1, 2, 4)] == [1, 1.5, 2]
    machines = equal_machines("1x8")
    assert machines is not None
    assert size(Trace(machines, (job,)), PACK, "alnair").stories[0].sizes == ((0, 4), (7.5, 0))


@pytest.mark.parametrize(
    ("more", "said"),
    [({"max": 1}, "not min 1 <= pods 2 <= max 1"), ({"min": 0}, "min"), ({"least": 1}, "least")],
)
def test_a_wrong_elastic_job_is_told_with_its_line(tmp_path: Path, more: dict[str, int], said: str) -> None:
    with pytest.raises(BadTrace, match=rf"line 1: .*{said}"):
        read(tmp_path, elastic_line(**more))


# -- the command ---------------------------------------------------------------------------------------------------


def cli(*arguments: object) -> tuple[int, str]:
    from alnair.cli.simulate import simulate

    app = typer.Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.stdout


def philly_file(tmp_path: Path) -> Path:
    file = tmp_path / "philly.csv"
    lines = [f"2017-10-09 00:{number:02}:00,{300 + 60 * number},{1 + number % 5}" for number in range(40)]
    file.write_text("\n".join(["timestamp,duration,num_gpus", *lines]))
    return file


def test_the_command_runs_every_rule_at_every_load_and_draws_them(tmp_path: Path) -> None:
    picture = tmp_path / "elastic.svg"
    code, out = cli(
        "--pods",
        philly_file(tmp_path),
        "--experiment",
        "elastic",
        "--loads",
        "0.5,1",
        "--plot",
        picture,
        "--json",
    )
    found = json.loads(out.splitlines()[-1])["policies"]
    assert code == 0
    assert [(each["load"], each["policy"]) for each in found] == [
        (load, rule) for load in (0.5, 1) for rule in RULES
    ]
    assert all(each["jobs"] == 40 and each["never_ended"] == 0 for each in found)
    assert b"Arrival to end, p99" in picture.read_bytes()


def test_the_command_sizes_the_elastic_jobs_of_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(elastic_line())
    code, out = cli("--pods", trace, "--nodes", "1x8", "--sizing", "alnair", "--sizing", "rigid", "--json")
    ours, rigid = json.loads(out)["policies"]
    assert code == 0
    assert rigid["elastic_jobs"] == 0
    assert ours["elastic_jobs"] == 1
    assert ours["makespan_hours"] < rigid["makespan_hours"]
    code, out = cli("--pods", trace, "--nodes", "1x8", "--sizing", "alnair")
    assert "completion: mean, h" in out


@pytest.mark.parametrize(
    "wrong",
    [
        ("--experiment", "other"),
        ("--experiment", "elastic", "--loads", "0.5,x"),
        ("--experiment", "elastic", "--loads", "0"),
        ("--experiment", "elastic", "--nodes", "3x8"),
        ("--experiment", "elastic", "--policy", "fgd", "--policy", "alnair"),
        ("--nodes", "3x8", "--sizing", "other"),
    ],
)
def test_a_wrong_argument_ends_with_a_sentence(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    assert cli("--pods", philly_file(tmp_path), *wrong) == (2, "")
