"""Results in the words that scripts read: one JSON object a policy."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from alnair.simulate.filling import Filled


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
        "placements_per_second": round(placed / max(sum(run.seconds for run in runs), 1e-9), 1),
        "placements_per_cpu_second": round(placed / max(sum(run.cpu_seconds for run in runs), 1e-9), 1),
        "seconds": round(sum(run.seconds for run in runs), 2),
    }
