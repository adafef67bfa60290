"""What Prometheus sees. Gauges are read from the books at scrape time, so they cannot go stale."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from alnair.state.cluster import ClusterState

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter(
            "alnair_api_calls", "Calls to the apiserver", ["verb", "resource", "code"], registry=self.registry
        )
        self.call_errors = Counter(
            "alnair_api_errors",
            "Calls to the apiserver that were refused or got no answer (code 0)",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.bind_seconds = Histogram(
            "alnair_gang_bind_seconds",
            "From a gang being complete to all of it being bound",
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.plan_seconds = Histogram(
            "alnair_plan_seconds", "Planning one gang in memory", buckets=BUCKETS, registry=self.registry
        )
        self.refusals = Counter(
            "alnair_refusals", "Times a gang was not placed, by reason", ["reason"], registry=self.registry
        )
        self.resizes = Counter(
            "alnair_resizes", "Elastic gangs that grew or shrank", ["direction"], registry=self.registry
        )
        self.sizing_seconds = Histogram(
            "alnair_sizing_seconds",
            "One look at all elastic gangs, in memory",
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.plan_errors = Counter(
            "alnair_plan_errors", "Plans that failed by a mistake of Alnair's", registry=self.registry
        )
        self.rule_failures = Counter(
            "alnair_rule_failures",
            "Calls of third parties' rules that raised, answered nonsense or took too long",
            ["rule", "point"],
            registry=self.registry,
        )
        self.events_dropped = Counter(
            "alnair_events_dropped", "Events not written because too many waited", registry=self.registry
        )
        self.config_good = Gauge(
            "alnair_config_good",
            "0 while the config file is wrong and an earlier one runs",
            registry=self.registry,
        )
        self.extender_requests = Counter(
            "alnair_extender_requests",
            "Questions of kube-scheduler to the extender, by what came of them",
            ["verb", "outcome"],
            registry=self.registry,
        )
        self.extender_seconds = Histogram(
            "alnair_extender_seconds",
            "Answering one of them, the wait for the Binding included",
            ["verb"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.leader = Gauge("alnair_leader", "1 while this replica leads", registry=self.registry)

    def observe_call(self, verb: str, resource: str, status: int) -> None:
        self.calls.labels(verb, resource, str(status)).inc()
        if status == 0 or status >= 400:
            self.call_errors.labels(verb, resource, str(status)).inc()

    def watch(self, state: ClusterState, gang_phases: Callable[[], Iterable[str]]) -> None:
        """Show the books too."""
        self.registry.register(_Books(state, gang_phases))


class _Books:
    def __init__(self, state: ClusterState, gang_phases: Callable[[], Iterable[str]]) -> None:
        self._state = state
        self._gang_phases = gang_phases

    def describe(self) -> Iterable[Metric]:
        return []  # told at scrape time; without this the registry would scrape at registration

    def collect(self) -> Iterable[Metric]:
        gangs = GaugeMetricFamily("alnair_gangs", "Gangs by phase", labels=["phase"])
        for phase, number in Tally(self._gang_phases()).items():
            gangs.add_metric([phase], number)
        yield gangs
        there, taken, slices = Tally[str](), Tally[str](), Tally[str]()
        for node, _, memory, used, users in self._state.card_usage():
            there[node] += memory
            taken[node] += used
            slices[node] += users
        for name, text, amounts in (
            ("alnair_node_gpu_memory_mib", "GPU memory on the node", there),
            ("alnair_node_gpu_memory_allocated_mib", "GPU memory given out on the node", taken),
            ("alnair_node_gpu_slices", "Slices and whole cards given out on the node", slices),
        ):
            family = GaugeMetricFamily(name, text, labels=["node"])
            for node, number in amounts.items():
                family.add_metric([node], number)
            yield family
