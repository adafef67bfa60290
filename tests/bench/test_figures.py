"""What follows from measured figures, with figures made up: medians, ratios, percentiles, the order of the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import plot
from bench.latency import Latency
from bench.order import Run, in_order
from bench.results import Results
from bench.shapes import EVERYBODY, WHOLE, BadShape, plans, shape
from bench.throughput import Outcome, percentile


def outcome(rate: float, *, peak: float = 50, rested: bool = True) -> Outcome:
    return Outcome(
        pods_per_second=rate,
        settled_pods_per_second=rate / 2 if rested else None,
        p50_ms=1,
        p99_ms=2,
        peak_mib=peak,
        cpu_ms_per_pod={"scheduler": 1, "apiserver": 1, "etcd": 1},
        others_share=0,
        tail_seconds=0,
    )


def results(rates: dict[tuple[str, str], list[float]]) -> Results:
    made = Results(seed=1)
    for (name, who), rounds in rates.items():
        for number, rate in enumerate(rounds, start=1):
            made.add(Run(shape(name), who, number, len(rounds)), outcome(rate))
    return made


def test_ratios_are_of_medians_against_the_rival_of_the_same_kind() -> None:
    said = results(
        {
            ("gang-625x8-1000n", "alnair"): [500, 900, 700],
            ("gang-625x8-1000n", "kube-gang"): [140, 100, 150],
            ("gang-625x8-1000n", "kube"): [1000],
            ("gang-625x8-1000n", "ceiling"): [1000],
            ("gang-625x8-5000n", "alnair"): [630],
            ("single-5000x1-1000n", "alnair"): [400],
            ("single-5000x1-1000n", "kube"): [200],
        }
    ).as_json()
    assert said["ratios"] == {"gang-625x8-1000n": 5.0, "single-5000x1-1000n": 2.0}
    assert said["settled_rates"]["single-5000x1-1000n"] == {"alnair": 200.0, "kube": 100.0}
    assert said["settled_ratios"]["single-5000x1-1000n"] == 2.0
    assert said["ceiling_fraction"] == 0.7
    assert said["scale_5000n"] == 0.9
    assert said["spread"]["gang-625x8-1000n"]["alnair"] == pytest.approx(400 / 700, abs=0.001)
    assert said["rounds"]["gang-625x8-1000n"] == 3


def test_what_was_not_measured_is_absent() -> None:
    said = results({("gang-625x8-5000n", "alnair"): [630]}).as_json()
    assert said["ratios"] == {}
    assert not {"ceiling_fraction", "scale_5000n", "rss_mib", "p99_idle_ms"} & said.keys()


def test_a_contestant_that_never_rests_has_no_settled_rate_and_no_settled_ratio() -> None:
    made = results({("gang-infeasible-1000n", "alnair"): [600]})
    made.add(Run(shape("gang-infeasible-1000n"), "kube-gang", 1, 1), outcome(100, rested=False))
    said = made.as_json()
    assert said["ratios"] == {"gang-infeasible-1000n": 6.0}
    assert said["settled_rates"] == {"gang-infeasible-1000n": {"alnair": 300.0}}
    assert said["settled_ratios"] == {}


def test_memory_is_the_peak_of_the_rss_shape_and_not_of_another() -> None:
    made = results({("gang-625x8-5000n", "alnair"): [630]})
    made.add(Run(shape("rss-20000p-5000n"), "alnair", 1, 1), outcome(600, peak=321.5))
    assert made.as_json()["rss_mib"] == 321.5


def test_the_idle_latency_is_that_of_the_largest_cluster() -> None:
    made = Results(seed=1)
    for name, p99 in (("latency-5000n", 200.0), ("latency-1000n", 90.0)):
        made.add(Run(shape(name), "alnair", 1, 1), Latency(p50_ms=1, p99_ms=p99, worst_ms=p99, gangs=100))
    assert made.as_json()["p99_idle_ms"] == 200.0


def test_the_picture_needs_two_sizes_of_both_figures(tmp_path: Path) -> None:
    rates = {(f"gang-625x8-{nodes}n", who): [100.0, 120.0] for nodes in (1000, 5000) for who in EVERYBODY}
    made = results(rates)
    assert not plot.worth_drawing(made)
    for name in ("latency-1000n", "latency-5000n"):
        made.add(Run(shape(name), "alnair", 1, 1), Latency(p50_ms=20, p99_ms=50, worst_ms=60, gangs=100))
    assert plot.worth_drawing(made)
    plot.draw(made, tmp_path / "deep" / "plot.svg")
    drawn = (tmp_path / "deep" / "plot.svg").read_text("utf-8")
    assert all(label in drawn for label, _ in plot.LOOKS.values())


@pytest.mark.parametrize(
    ("values", "per_cent", "expected"),
    [([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 99, 4), ([7], 50, 7), (list(range(1, 101)), 99, 99)],
)
def test_a_percentile_is_a_value_that_was_measured(
    values: list[float], per_cent: int, expected: float
) -> None:
    assert percentile(values, per_cent) == expected


def test_runs_are_shuffled_by_the_seed_within_each_number_of_nodes() -> None:
    work = plans(WHOLE, rounds=None, only=None)
    one, same, other = (in_order(work, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert sorted(map(str, one)) == sorted(map(str, other))
    assert [run.shape.nodes for run in one] == sorted(run.shape.nodes for run in one)


def test_every_fifth_gang_of_an_infeasible_shape_is_not_waited_for() -> None:
    assert shape("gang-infeasible-1000n").feasible == 500 * 8
    assert shape("gang-625x8-1000n").feasible == 5000


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gang-1000n",
        "gang-8-1000n",
        "single-4x2-5n",
        "gang-mixed-1x3-5n",
        "rss-5000n",
        "rss-4x2-4p-5n",
        "gang-6x8-5n",
    ],
)
def test_a_name_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(BadShape):
        shape(name)
