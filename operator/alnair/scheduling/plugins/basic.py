"""Basic: how strong a node is, whatever goes on there.

    strength(x, most) = sqrt(min(1, x / most))            so that twice as much is not twice as good

    Basic = weighted mean of   cards     strength(cards, 8)
                               compute   mean over cards of strength(TFLOPS, 2500)
                               memory    mean over cards of strength(GiB, 192)
                               link      strength(GB/s between cards, 1800) * (1 + share of pairs that are nearest) / 2
                               network   strength(Gbit/s, 400)

What nobody tells is neutral (0.5) and never 0. A model that is in no table counts 2 TFLOPS a GiB of its memory, less
than most known cards of that size have. The link is that of the table's model, or of the label `link-gbyte`; the share
of pairs is told by whoever publishes how far cards are from each other (1 where nobody does). The network is the label
`network-gbit`. `pcie_gen_width` of the profiler is not looked at: an idle card lowers its own link.

A pod that asks for no card goes to the weakest node: its score is 1 - Basic where there are cards, else 1.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from alnair.api import names
from alnair.api.profiles import Part
from alnair.scheduling.plugins.card_models import CardModel, Catalogue
from alnair.scheduling.plugins.gpu_cards import advertised
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.scheduling.plugins.measured import NEUTRAL, mean_over
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

MOST_CARDS, MOST_TFLOPS, MOST_GIB, MOST_LINK, MOST_NETWORK = 8, 2500.0, 192.0, 1800.0, 400.0
TFLOPS_A_GIB = 2.0

Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class Model(Part):
    """A card of your own, or what you know better about one."""

    tflops: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
    link_gbyte: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 64.0


class Basic:
    name = "Basic"
    scope = Scope.FIXED

    class Options(Part):
        cards: Weight = 1.0
        compute: Weight = 2.0
        memory: Weight = 1.0
        link: Weight = 1.0
        network: Weight = 1.0
        models: dict[str, Model] = Field(default_factory=dict, max_length=256)

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self._weights = (options.cards, options.compute, options.memory, options.link, options.network)
        self._catalogue = Catalogue(
            {name: CardModel(each.tflops, each.link_gbyte) for name, each in options.models.items()}
        )

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(self._weights)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        parts = (self._cards(draft), *self._of_cards(draft), self._network(draft))
        total = sum(weight * part for weight, part in zip(self._weights, parts, strict=True))
        score = np.asarray(total / sum(self._weights))
        if pod.shape.gpu.demands:
            return score
        return np.where(_count(draft) > 0, 1 - score, 1.0)

    def _cards(self, draft: Draft) -> Floats:
        return strength(_count(draft), MOST_CARDS)

    def _of_cards(self, draft: Draft) -> tuple[Floats, Floats, Floats]:
        """Compute, memory, link."""
        there = draft.card_memory > 0
        gib = draft.card_memory / 1024
        models = [self._catalogue.find(model) for model in draft.models]
        known = np.array([model.tflops if model else 0.0 for model in models])[draft.card_model]
        tflops = np.where(known > 0, known, TFLOPS_A_GIB * gib)
        links = np.array([model.link_gbyte if model else 0.0 for model in models])[draft.card_model]
        wide = np.where(links > 0, strength(links, MOST_LINK), NEUTRAL)
        link = mean_over(wide, there, default=NEUTRAL)
        told = _numbers(names.LINK_GBYTE, draft)
        link = np.where(told > 0, strength(told, MOST_LINK), link) * (1 + draft.nearest_pairs) / 2
        return (
            mean_over(strength(tflops, MOST_TFLOPS), there, default=NEUTRAL),
            mean_over(strength(gib, MOST_GIB), there, default=NEUTRAL),
            link,
        )

    def _network(self, draft: Draft) -> Floats:
        told = _numbers(names.NETWORK_GBIT, draft)
        return np.where(told > 0, strength(told, MOST_NETWORK), NEUTRAL)


def strength(amount: Floats, most: float) -> Floats:
    return np.sqrt(np.minimum(amount / most, 1.0))


def _count(draft: Draft) -> Floats:
    return np.asarray(np.maximum((draft.card_memory > 0).sum(axis=1), advertised(draft)), dtype=np.float64)


def _numbers(label: str, draft: Draft) -> Floats:
    """N: the label's value as a number; 0 where there is none, or none that can be read."""
    column = draft.label_column(label)
    values = np.array([*(_number(value) for value in column.values), 0.0])
    return np.asarray(values[column.codes[draft.rows]])  # -1, no such label: the last one


def _number(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0.0
