"""A scorer for Alnair: rather a rack whose cards are idle, because a rack's nodes share its power and its air."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass


class QuietRack:
    """Rather a rack whose cards are idle."""

    name = "example.com/QuietRack"
    scope = Scope.DOMAIN  # a pod on one node changes the score of all nodes of its rack

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)
        label: str = "topology.kubernetes.io/rack"

    def __init__(self, options: Options) -> None:
        self._label = options.label

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.gpu.demands)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        cluster = draft.all_nodes()  # the draft may be of a few nodes only, and a rack has others
        rack = cluster.label(self._label)  # -1: in none
        racked = rack >= 0
        cards = np.bincount(rack[racked], weights=(cluster.card_memory > 0).sum(axis=1)[racked])
        in_use = np.bincount(rack[racked], weights=(cluster.card_users > 0).sum(axis=1)[racked])
        score = np.zeros(len(rack))
        score[racked] = (1 - in_use / np.maximum(cards, 1))[rack[racked]]
        return score[draft.rows]
