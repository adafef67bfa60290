"""Reading openb traces, and the order in which their pods come."""

from __future__ import annotations

from pathlib import Path

import pytest

from alnair.simulate import openb
from alnair.simulate.arrivals import inflated, shuffled
from alnair.simulate.trace import BadTrace, Job, Machine, Trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nb,96000,393216,8,G2\na,8000,32768,1,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,12000,16384,1,1000,,LS,Running,0,60,0\n"
    "p1,6000,12288,1,460,G2|T4,LS,Running,10,,10\n"
    "p2,1000,1024,0,0,,BE,Running,20,30,20\n"
)


def written(folder: Path, text: str) -> Path:
    file = folder / "trace.csv"
    file.write_text(text)
    return file


def test_machines_and_pods_are_read_as_they_stand(tmp_path: Path) -> None:
    machines = openb.read_machines(written(tmp_path, NODES))
    assert machines == (Machine("b", 96_000, 393_216, 8, "G2"), Machine("a", 8_000, 32_768, 1, "T4"))
    whole, part, none = openb.read_jobs(written(tmp_path, PODS))
    assert (whole.cards, whole.gpu, whole.models, whole.lasts) == (1, 1000, (), 60.0)
    assert (part.gpu, part.models, part.arrives, part.lasts) == (460, ("G2", "T4"), 10.0, None)
    assert none.shape.gpu.demands == ()
    assert whole.shape.gpu.demands[0].whole
    assert part.shape.gpu.demands[0].memory_mib == 460


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,cpu_milli\np,1\n", "names no column memory_mib, num_gpu, gpu_milli"),
        (PODS.replace("6000", "-6000"), "line 3: cpu_milli '-6000' is no whole number"),
        (PODS.replace("460", "1460"), "line 3: gpu_milli '1460' is no whole number from 0 to 1000"),
        (PODS.replace("1,460", "1,0"), "num_gpu 1 and gpu_milli 0: both are 0, or none"),
        (PODS.replace("6000", "nan"), "cpu_milli 'nan' is no whole number"),
        (PODS.replace("p0,12000,16384,1", "p0,12000,16384,999"), "num_gpu '999' is no whole number"),
        (PODS.splitlines()[0] + "\n", "has no pods"),
        ("", "names no column"),
    ],
)
def test_a_pod_list_that_makes_no_sense_is_refused_with_its_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(BadTrace, match=complaint):
        openb.read_jobs(written(tmp_path, text))


def test_a_node_list_must_name_each_node_once(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="sn 'b' is empty or stands twice"):
        openb.read_machines(written(tmp_path, NODES + "b,1,1,1,T4\n"))
    with pytest.raises(BadTrace, match="cannot be read"):
        openb.read_machines(tmp_path / "missing.csv")


TRACE = Trace(
    tuple(Machine(f"m{number}", 96_000, 393_216, 8) for number in range(4)),
    tuple(Job(f"j{number:03}", 4_000, 1024, 1, 100 * (1 + number % 10)) for number in range(40)),
)


def test_the_same_seed_gives_the_same_order_and_another_another() -> None:
    assert shuffled(TRACE, 1) == shuffled(TRACE, 1)
    assert shuffled(TRACE, 1)[1] != shuffled(TRACE, 2)[1]
    assert sorted(job.name for job in shuffled(TRACE, 1)[1]) == [job.name for job in TRACE.jobs]


@pytest.mark.parametrize("ratio", [0.3, 1.0, 1.3, 2.0])
def test_pods_come_until_they_ask_for_so_many_times_all_cards(ratio: float) -> None:
    jobs = inflated(shuffled(TRACE, 7)[1], TRACE, ratio, 7)
    asked = sum(job.gpu_milli for job in jobs)
    assert ratio * TRACE.gpu_milli - 1000 < asked <= ratio * TRACE.gpu_milli
    assert len({job.name for job in jobs}) == len(jobs)


def test_a_trace_without_gpus_is_not_inflated_for_ever() -> None:
    trace = Trace(TRACE.machines, (Job("cpu", 1000, 1),))
    assert inflated(list(trace.jobs), trace, 1.3, 1) == list(trace.jobs)
