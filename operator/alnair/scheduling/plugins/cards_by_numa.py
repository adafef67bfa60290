"""Which cards hang where the kubelet would put the pod.

The kubelet knows nothing of slices, so it aligns a pod's CPUs and memory without looking at its cards: the cards
have to follow. Under `single-numa-node` and `restricted` they must hang on the container's NUMA nodes; under
`best-effort` they do where enough of them fit there. A card of which nobody tells the NUMA node is as good as any.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.numa.node import likely_masks, standing, with_zones
from alnair.state.alignment import Alignment
from alnair.state.draft import Bools, Draft
from alnair.state.machine import BEST_EFFORT, NONE


def kept_by_numa(fitting: Bools, demand: CardDemand, alignment: Alignment, draft: Draft) -> Bools:
    """N x C: those of the fitting cards that are near enough."""
    names = [each.name for each in alignment.containers]
    if demand.container not in names:
        return fitting
    number = names.index(demand.container)
    kept = fitting.copy()
    there = standing(draft)
    for place, zones in with_zones(draft):
        numa = draft.card_numa[place]
        if zones.machine is None or zones.rules.policy == NONE or not draft.owned[place] or (numa < 0).all():
            continue
        found = likely_masks(alignment, zones, there.get(int(draft.rows[place]), []))
        masks = [each[number] for each in found if number < len(each)]
        if not masks or None in masks:
            continue  # nobody can tell, or it may be anywhere
        near = [number for mask in masks if mask is not None for number in zones.machine.numbers(mask)]
        close = fitting[place] & ((numa < 0) | np.isin(numa, near))
        if zones.rules.policy != BEST_EFFORT or close.sum() >= demand.cards:
            kept[place] = close
    return kept
