"""ImageLocality: rather where the pod's images lie already, by their size.

An image that few nodes have counts for less: otherwise the first node that pulled it would get every pod of its
kind. So the score hangs on other nodes too, and the rule is asked anew each time.
"""

from __future__ import annotations

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

MIB = 1 << 20
NOTHING_TO_SPEAK_OF = 23 * MIB  # of all images together: as quick to pull as to look for
AS_GOOD_AS_IT_GETS = 1000 * MIB  # of each container's image


class ImageLocality:
    name = "ImageLocality"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(draft.image_column(name).nodes for name in (*pod.shape.images, *pod.shape.mounted_images))

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        shape = pod.shape
        nodes = max(int(draft.all_nodes().exists.sum()), 1)
        there = np.zeros(len(draft.names))
        for name in (*shape.images, *shape.mounted_images):
            spread = draft.image_column(name).nodes / nodes
            there += np.floor(draft.image(name) * spread)
        most = AS_GOOD_AS_IT_GETS * max(len(shape.images), 1)
        return np.asarray(((there - NOTHING_TO_SPEAK_OF) / (most - NOTHING_TO_SPEAK_OF)).clip(0, 1))
