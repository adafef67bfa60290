"""A cluster in use: who starts when, by each order, and the traces that tell of times."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.policies import POLICIES, Policy
from alnair.simulate.queueing import FOREVER, ORDERS, Served, serve
from alnair.simulate.reading import read_trace
from alnair.simulate.trace import BadTrace, Job, Machine, Trace

NODE = Machine("n", 64_000, 65_536, 8, "A100")


def whole(name: str, cards: int, arrives: float, lasts: float | None, **more: int) -> Job:
    return Job(name, 1_000, 1, cards, 1000, arrives=arrives, lasts=lasts, **more)


def served(jobs: Sequence[Job], *machines: Machine, order: str = "fifo", inflate: float = 1.0) -> Served:
    ticks = count()
    return serve(
        Trace(machines or (NODE,), tuple(jobs)),
        POLICIES["best-fit"],
        1,
        order=order,
        inflate=inflate,
        clocks=(lambda: next(ticks), lambda: next(ticks)),
        samples=4,
    )


QUEUE = [
    whole("now", 8, 0, 10),
    whole("long", 8, 1, 100),
    whole("short", 8, 2, 5),
    whole("small", 2, 3, 50),
]


@pytest.mark.parametrize(
    ("order", "waits"),
    [
        ("fifo", (0, 9, 108, 112)),  # now, long, short, small
        ("sjf", (0, 8, 12, 64)),  # now, short, small, long
        ("smallest", (0, 7, 59, 158)),  # now, small, long, short
        ("largest", (0, 9, 108, 112)),  # now, long, short, small
        ("least-work", (0, 8, 12, 64)),  # now, short, small, long
    ],
)
def test_who_is_first_in_the_queue_starts_first(order: str, waits: tuple[float, ...]) -> None:
    assert served(QUEUE, order=order).waits == waits


def test_a_small_job_goes_past_a_large_one_that_does_not_fit_yet() -> None:
    outcome = served([whole("half", 4, 0, 10), whole("all", 8, 1, 10), whole("rest", 4, 2, 3)])
    assert outcome.waits == (0, 0, 9)
    assert outcome.last_end == 20


def test_who_leaves_at_a_second_makes_room_for_who_comes_at_it() -> None:
    assert served([whole("a", 8, 0, 5), whole("b", 8, 5, 5)]).waits == (0, 0)


def test_a_gang_waits_for_all_of_its_cards() -> None:
    machines = (NODE, replace(NODE, name="m"))
    outcome = served([whole("one", 8, 0, 7), whole("gang", 8, 1, 1, pods=2)], *machines)
    assert outcome.waits == (0, 6)


def test_a_job_that_fits_nowhere_is_counted_and_does_not_block() -> None:
    outcome = served([whole("never", 9, 0, 1), whole("ever", 8, 1, None), whole("late", 1, 2, 1)])
    assert (outcome.jobs, outcome.started) == (3, 1)


def test_allocation_is_a_mean_over_time() -> None:
    # 8 cards for 4 s of the 8 s until the last job comes
    assert served([whole("a", 8, 0, 4), whole("b", 1, 8, 1)]).mean_allocation_percent == 50.0


def test_twice_as_fast_means_twice_as_early() -> None:
    assert served([whole("a", 8, 0, 5), whole("b", 8, 8, 5)], inflate=2.0).waits == (0, 1)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    machines = tuple(
        Machine(f"n{number}", 16_000, 1 << 20, cards)
        for number, cards in enumerate(draw(st.lists(st.sampled_from([2, 4]), min_size=1, max_size=3)))
    )
    jobs = draw(
        st.lists(
            st.tuples(
                st.sampled_from([(0, 0), (1, 300), (1, 500), (1, 1000), (2, 1000), (4, 1000)]),
                st.integers(0, 30),
                st.sampled_from([None, 1, 5, 20]),
                st.sampled_from([1, 1, 2]),
            ),
            min_size=1,
            max_size=25,
        )
    )
    return Trace(
        machines,
        tuple(
            Job(f"j{n:02}", 2_000, 64, cards, gpu, pods=pods, arrives=came, lasts=lasts)
            for n, ((cards, gpu), came, lasts, pods) in enumerate(jobs)
        ),
    )


def naive(trace: Trace, order: Callable[[Job], tuple[float, ...]]) -> list[float]:
    """The same by trying everybody, every second."""
    cluster = SimulatedCluster(trace.machines, Policy(POLICIES["best-fit"], trace, 1))
    coming = sorted(trace.jobs, key=lambda job: job.arrives)
    waiting: list[tuple[tuple[float, ...], int, Job]] = []
    running: list[tuple[float, Job]] = []
    waits = []
    for second in range(31 + 21 * len(coming)):
        for ends, job in [each for each in running if each[0] <= second]:
            cluster.end(job)
            running.remove((ends, job))
        while coming and coming[0].arrives <= second:
            job = coming.pop(0)
            cluster.arrived(job)
            waiting.append((order(job), len(trace.jobs) - len(coming), job))
        for each in sorted(waiting, key=lambda it: it[:2]):
            job = each[2]
            if cluster.start(job):
                waits.append(second - job.arrives)
                waiting.remove(each)
                if job.lasts is not None:
                    running.append((second + job.lasts, job))
    return sorted(waits)


@settings(max_examples=60, deadline=None)
@given(traces(), st.sampled_from(sorted(ORDERS)))
def test_the_queue_starts_whom_trying_everybody_would_start(trace: Trace, order: str) -> None:
    ticks = count()
    outcome = serve(
        trace, POLICIES["best-fit"], 1, order=order, clocks=(lambda: next(ticks), lambda: next(ticks))
    )
    assert list(outcome.waits) == naive(trace, ORDERS[order])
    assert outcome.last_end < FOREVER


# -- the files ---------------------------------------------------------------------------------------------------

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:00:10,66.0,1,66.0,11cb48\n"
    "2017-10-09 07:00:00,2951.0,16,2951.0,6214e9\n"
    "2017-10-09 07:01:00,10.0,12,120.0,6214e9\n"
    "2017-10-09 07:01:00,10.0,11,120.0,6214e9\n"
)


def test_philly_jobs_of_more_than_a_node_are_gangs_of_equal_pods(tmp_path: Path) -> None:
    file = tmp_path / "philly.csv"
    file.write_text(PHILLY)
    trace = read_trace(file, "30x8")
    assert len(trace.machines) == 30
    assert [(job.pods, job.cards, job.arrives, job.lasts) for job in trace.jobs] == [
        (1, 1, 10.0, 66.0),
        (2, 8, 0.0, 2951.0),
        (2, 6, 60.0, 10.0),
        (11, 1, 60.0, 10.0),
    ]


@pytest.mark.parametrize(
    ("text", "nodes", "complaint"),
    [
        (PHILLY, None, "tells of no nodes"),
        (PHILLY, "0x8", "at least one of each"),
        (PHILLY.replace("66.0,1", "nan,1"), "3x8", "duration 'nan' is no number of seconds"),
        (PHILLY.replace("2017-10-09 07:00:10", "soon"), "3x8", "timestamp 'soon' is no date"),
        ('{"job": {"cpu": -1}}', "3x8", "line 1: Expected `int` >= 0 - at `\\$.job.cpu`"),
        ('{"job": {"cpus": 1}}', "3x8", "unknown field `cpus`"),
        ('{"job": {}, "node": {"name": "a"}}', None, "line 1: is neither"),
        ('{"job": {"name": "a"}}\n{"job": {"name": "a"}}', "3x8", "line 2: job 'a' stands twice"),
        ('{"job": {}}', None, "has no nodes"),
        ('{"node": {"name": "a"}}', None, "has no jobs"),
        ('{"job": {}}\n{', "3x8", "line 2: "),
    ],
)
def test_a_trace_that_makes_no_sense_is_refused_with_a_sentence(
    tmp_path: Path, text: str, nodes: str | None, complaint: str
) -> None:
    file = tmp_path / "trace"
    file.write_text(text)
    with pytest.raises(BadTrace, match=complaint):
        read_trace(file, nodes)


def test_our_own_format_says_all_that_a_job_can_be(tmp_path: Path) -> None:
    lines = [
        {"node": {"name": "a", "cpu": 96_000, "memoryMiB": 1024, "cards": 8, "model": "A100"}},
        {
            "job": {
                "name": "j",
                "cpu": 4,
                "memoryMiB": 2,
                "cards": 2,
                "gpu": 500,
                "models": ["A100"],
                "pods": 3,
            }
        },
        {"job": {"arrives": 1.5, "lasts": 60}},
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    trace = read_trace(file, None)
    assert trace.machines == (Machine("a", 96_000, 1024, 8, "A100"),)
    assert trace.jobs == (
        Job("j", 4, 2, 2, 500, ("A100",), pods=3),
        Job("job-1", 0, 0, arrives=1.5, lasts=60.0),
    )
    assert read_trace(file, "2x4").machines[1].cards == 4
