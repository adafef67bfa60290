"""What was measured, and what follows from it: medians of the rounds, ratios, the last line."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.latency import Latency
from bench.order import Run
from bench.shapes import Shape
from bench.throughput import Outcome

SMALL, LARGE = "gang-625x8-1000n", "gang-625x8-5000n"


@dataclass
class Results:
    """Filled run by run. A figure that was not measured is absent, never zero."""

    seed: int
    outcomes: dict[Shape, dict[str, list[Outcome]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    latencies: dict[Shape, dict[str, Latency]] = field(default_factory=lambda: defaultdict(dict))
    failures: list[str] = field(default_factory=list)

    def add(self, run: Run, measured: Outcome | Latency) -> None:
        if isinstance(measured, Latency):
            self.latencies[run.shape][run.contestant] = measured
        else:
            self.outcomes[run.shape][run.contestant].append(measured)

    def rate(self, shape: str, contestant: str) -> float | None:
        """Pods a second, the median of the rounds."""
        for measured, by_name in self.outcomes.items():
            if measured.name == shape and by_name.get(contestant):
                return median(each.pods_per_second for each in by_name[contestant])
        return None

    def others_share(self) -> float:
        """The most that others took of the CPU in any run."""
        rounds = [
            each for by_name in self.outcomes.values() for several in by_name.values() for each in several
        ]
        return max((each.others_share for each in rounds), default=0.0)

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "seed": self.seed,
            "ratios": {},
            "rates": {},
            "settled_ratios": {},
            "settled_rates": {},
            "spread": {},
            "rounds": {},
        }
        for shape, by_name in self.outcomes.items():
            if shape.kind == "rss":
                said["rss_mib"] = round(max(each.peak_mib for each in by_name["alnair"]), 1)
                continue
            self._add_shape(said, shape, by_name)
        if self.latencies:
            said["latency_ms"] = {
                shape.name: {
                    who: {"p50": round(it.p50_ms, 1), "p99": round(it.p99_ms, 1)} for who, it in each.items()
                }
                for shape, each in self.latencies.items()
            }
        self._add_summary(said)
        said["others_cpu"] = round(self.others_share(), 3)
        said["failures"] = self.failures
        return said

    def _add_shape(self, said: dict[str, Any], shape: Shape, by_name: dict[str, list[Outcome]]) -> None:
        name = shape.name
        rates = {who: [each.pods_per_second for each in rounds] for who, rounds in by_name.items()}
        settled = {
            who: [each.settled_pods_per_second for each in rounds if each.settled_pods_per_second is not None]
            for who, rounds in by_name.items()
        }
        rival = "kube" if shape.kind == "single" else "kube-gang"
        for prefix, measured in (("", rates), ("settled_", settled)):
            middle = {who: median(each) for who, each in measured.items() if len(each) == len(rates[who])}
            said[f"{prefix}rates"][name] = {who: round(each, 1) for who, each in middle.items()}
            if rival in middle and "alnair" in middle:
                said[f"{prefix}ratios"][name] = round(middle["alnair"] / middle[rival], 2)
        said["spread"][name] = {
            who: round((max(each) - min(each)) / median(each), 3) for who, each in rates.items()
        }
        said["rounds"][name] = max(len(each) for each in rates.values())

    def _add_summary(self, said: dict[str, Any]) -> None:
        own, ceiling, large = (
            self.rate(SMALL, "alnair"),
            self.rate(SMALL, "ceiling"),
            self.rate(LARGE, "alnair"),
        )
        if own is not None and ceiling is not None:
            said["ceiling_fraction"] = round(own / ceiling, 3)
        if own is not None and large is not None:
            said["scale_5000n"] = round(large / own, 3)
        idle = [
            each["alnair"]
            for shape, each in self.latencies.items()
            if shape.nodes == self._most_nodes() and "alnair" in each
        ]
        if idle:
            said["p99_idle_ms"] = round(idle[0].p99_ms, 1)

    def _most_nodes(self) -> int:
        return max(shape.nodes for shape in self.latencies)
