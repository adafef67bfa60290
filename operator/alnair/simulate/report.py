"""Results in the words that scripts read: one JSON object a policy."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from alnair.simulate.filling import Filled
from alnair.simulate.queueing import Served


def of_filling(policy: str, runs: Sequence[Filled]) -> dict[str, Any]:
    """Means over the seeds; `per_seed` has the allocation of each."""
    early = sum(run.early_multi for run in runs)
    lost = sum(run.early_multi_lost for run in runs)
    placed = sum(run.placed for run in runs)
    return {
        "policy": policy,
        "gpu_allocation_percent": round(fmean(run.allocation_percent for run in runs), 3),
        "per_seed": {str(run.seed): round(run.allocation_percent, 3) for run in runs},
        "arrived_percent": round(fmean(run.arrived_percent for run in runs), 2),
        "pods": sum(run.pods for run in runs),
        "placed": placed,
        "multi_gpu_before_90": early,
        "multi_gpu_lost_before_90": lost,
        "multi_gpu_lost_before_90_percent": round(100 * lost / early, 3) if early else 0.0,
        "multi_gpu_impossible": sum(run.early_multi_impossible for run in runs),
        "placements_per_second": round(placed / max(sum(run.seconds for run in runs), 1e-9), 1),
        "placements_per_cpu_second": round(placed / max(sum(run.cpu_seconds for run in runs), 1e-9), 1),
        "seconds": round(sum(run.seconds for run in runs), 2),
    }


def of_serving(policy: str, order: str, runs: Sequence[Served]) -> dict[str, Any]:
    """Means over the seeds, in seconds; quantiles are of all jobs of all seeds."""
    waits = sorted(wait for run in runs for wait in run.waits)
    spans = sorted(span for run in runs for span in run.spans)
    placed = sum(run.placed for run in runs)
    return {
        "policy": policy,
        "order": order,
        "gpu_allocation_percent": round(fmean(run.mean_allocation_percent for run in runs), 3),
        "per_seed": {str(run.seed): round(run.mean_allocation_percent, 3) for run in runs},
        "jobs": sum(run.jobs for run in runs),
        "never_started": sum(run.jobs - run.started for run in runs),
        "mean_wait_seconds": round(fmean(waits), 1) if waits else 0.0,
        "median_wait_seconds": round(quantile(waits, 0.5), 1),
        "p95_wait_seconds": round(quantile(waits, 0.95), 1),
        "mean_completion_seconds": round(fmean(spans), 1) if spans else 0.0,
        "p95_completion_seconds": round(quantile(spans, 0.95), 1),
        "last_end_seconds": round(max(run.last_end for run in runs), 1),
        "placed": placed,
        "placements_per_second": round(placed / max(sum(run.seconds for run in runs), 1e-9), 1),
        "placements_per_cpu_second": round(placed / max(sum(run.cpu_seconds for run in runs), 1e-9), 1),
        "seconds": round(sum(run.seconds for run in runs), 2),
    }


def quantile(ordered: Sequence[float], part: float) -> float:
    """Of sorted values, the one that so large a part is not above."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0
