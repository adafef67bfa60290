"""A node picker for Alnair that was trained in its simulator: a few numbers about each node, and how much each counts.

How much they count hangs on the kind of pod: one that wants no GPU, a slice of a card, or whole cards. The weights are
in weights.json; train.py makes them. A larger model takes the place of `LearnedPicker.value` and nothing else.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from alnair.scheduling.plugins.card_fractions import CARD, fitting, free_parts, idle, main_demand, requested
from alnair.scheduling.plugins.cards_that_fit import memory_wanted
from alnair.scheduling.plugins.interface import Floats
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass

KINDS = ("no GPU", "slice", "whole cards")
FEATURES = (
    "cpu left",
    "memory left",
    "GPU left",
    "GPU left without cpu",
    "cpu left without GPU",
    "left of the card",
    "breaks an idle card",
    "breaks an idle node",
    "idle cards",
    "scraps",
)

Row = Annotated[list[float], Field(min_length=len(FEATURES), max_length=len(FEATURES))]
Weights = Annotated[list[Row], Field(min_length=len(KINDS), max_length=len(KINDS))]


class LearnedPicker:
    """Of the nodes with the highest score, the one that the model values most."""

    name = "example.com/LearnedPicker"

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)
        weights: Weights | None = (
            None  # a row for each kind of pod; left out: those that came with the package
        )

    def __init__(self, options: Options) -> None:
        self._weights = np.array(options.weights if options.weights is not None else shipped()["weights"])

    def choose(self, pod: PodClass, draft: Draft, rows: Ints, scores: Floats) -> int:
        """What the profile's scorers say goes before: wishes of manifests, say. With Equal alone, all is left to us."""
        best = np.flatnonzero(scores == scores.max())
        return int(best[self.value(pod, draft)[rows[best]].argmax()])

    def value(self, pod: PodClass, draft: Draft) -> Floats:
        """N: of the node that gets the pod."""
        return np.asarray(features(pod, draft) @ self._weights[kind(pod)])


def shipped() -> dict[str, Any]:
    """What is in weights.json: the weights, and how they came to be."""
    found: dict[str, Any] = json.loads((files(__package__) / "weights.json").read_text())
    return found


def kind(pod: PodClass) -> int:
    """Which of KINDS the pod is."""
    demand = main_demand(pod.shape)
    return 0 if demand is None else 2 if demand.whole else 1


def features(pod: PodClass, draft: Draft) -> Floats:
    """N x FEATURES: what is left of each node with the pod on it, from 0 to 1. Nodes where it does not fit have
    numbers too, without a meaning."""
    parts, unused = free_parts(draft), idle(draft)
    cards = np.maximum((draft.card_memory > 0).sum(axis=1), 1)
    taken, sliced = np.zeros_like(parts), False
    if (demand := main_demand(pod.shape)) is not None:
        sliced = not demand.whole
        wanted = CARD * memory_wanted(demand, draft) // np.maximum(draft.card_memory, 1) if sliced else parts
        order = np.where(fitting(pod, demand, draft), parts, 2 * CARD)
        tightest = np.argsort(order, axis=1, kind="stable")[:, : demand.cards]  # which best-fit takes
        np.put_along_axis(taken, tightest, np.take_along_axis(wanted, tightest, axis=1), axis=1)
    after, touched = np.maximum(parts - taken, 0), taken > 0
    still_idle = unused & ~touched
    cpu, memory = (_left(pod, draft, resource) for resource in ("cpu", "memory"))
    gpu = after.sum(axis=1) / (CARD * cards)
    return np.stack(
        (
            cpu,
            memory,
            gpu,
            np.maximum(gpu - cpu, 0),
            np.maximum(cpu - gpu, 0),
            np.where(touched, after, 0).max(axis=1, initial=0) / CARD,
            (touched & unused).any(axis=1) & sliced,
            unused.sum(axis=1) == cards,
            still_idle.sum(axis=1) / cards,
            np.where(still_idle, 0, after).sum(axis=1) / (CARD * cards),
        ),
        axis=1,
        dtype=np.float64,
        casting="unsafe",
    )


def _left(pod: PodClass, draft: Draft, resource: str) -> Floats:
    """N: the part of the node's that is left."""
    column = draft.columns[resource]
    left = draft.free[:, column] - requested(pod.shape, resource)
    return np.asarray(np.clip(left / np.maximum(draft.allocatable[:, column], 1), 0, 1))
