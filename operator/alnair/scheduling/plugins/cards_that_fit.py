"""Which cards could serve a demand: what the filter, the picker and the exact search all ask."""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand, GpuRequest
from alnair.scheduling.plugins.cards_by_numa import kept_by_numa
from alnair.state.alignment import Alignment
from alnair.state.draft import Bools, Draft


def of_allowed_model(gpu: GpuRequest, draft: Draft) -> Bools:
    """N x C: the card is of a model that the pod allows."""
    if not gpu.models:
        return draft.card_memory > 0
    allowed = np.array([model in gpu.models for model in draft.models], dtype=np.bool_)
    return np.asarray(allowed[draft.card_model], dtype=np.bool_) & (draft.card_memory > 0)


def candidates(
    demand: CardDemand, gpu: GpuRequest, draft: Draft, alignment: Alignment | None = None
) -> Bools:
    """N x C: the card could serve this demand as things stand in the draft. `alignment`: the pod's, if its cards are
    to be near the CPUs and memory that the kubelet will give it."""
    fitting = _fitting(demand, gpu, draft)
    if alignment is not None and draft.zones.nodes:
        return kept_by_numa(fitting, demand, alignment, draft)
    return fitting


def _fitting(demand: CardDemand, gpu: GpuRequest, draft: Draft) -> Bools:
    usable = draft.card_usable & of_allowed_model(gpu, draft)
    if demand.whole:
        return np.asarray(usable & (draft.card_users == 0))
    return np.asarray(
        usable
        & (draft.card_exclusive == 0)
        & (draft.card_free_memory >= demand.memory_mib)
        & (draft.card_free_compute >= demand.compute_percent)
        & (draft.card_free_slots >= 1)
    )
