"""RequestedToCapacityRatio: a score for each part of a resource's use, in straight lines between points of your own.

Use is what pods were promised, with this one, as a part of what the node has. Resources count by weight, and one that
the node has none of does not count. Rising lines fill nodes, falling ones spread.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from alnair.api.config import LabelKey
from alnair.api.profiles import Part
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

BEST_SCORE = 10  # as in kube-scheduler's files


class Point(Part):
    utilization: Annotated[int, Field(ge=0, le=100)]
    score: Annotated[int, Field(ge=0, le=BEST_SCORE)]


class Resource(Part):
    name: LabelKey
    weight: Annotated[int, Field(ge=1, le=100)] = 1


FILLING = (Point(utilization=0, score=0), Point(utilization=100, score=BEST_SCORE))
USUAL = (Resource(name="cpu"), Resource(name="memory"))


class RequestedToCapacityRatio:
    name = "RequestedToCapacityRatio"
    scope = Scope.ROW

    class Options(Part):
        shape: Annotated[list[Point], Field(min_length=1, max_length=101)] = Field(
            default_factory=lambda: list(FILLING)
        )
        resources: Annotated[list[Resource], Field(min_length=1, max_length=64)] = Field(
            default_factory=lambda: list(USUAL)
        )

        @field_validator("shape")
        @classmethod
        def _rises(cls, shape: list[Point]) -> list[Point]:
            if any(one.utilization >= other.utilization for one, other in pairwise(shape)):
                raise ValueError("utilization must rise from point to point")
            return shape

    def __init__(self, options: Options | None = None) -> None:
        options = options or self.Options()
        self._resources = options.resources
        self._uses = np.array([point.utilization / 100 for point in options.shape])
        self._scores = np.array([point.score / BEST_SCORE for point in options.shape])

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        requests = dict(pod.shape.requests)
        total, weights = np.zeros(len(draft.names)), np.zeros(len(draft.names))
        for resource in self._resources:
            column = draft.column(resource.name)
            if column is None:
                continue
            there = draft.allocatable[:, column]
            left = draft.free[:, column] - requests.get(resource.name, 0)
            used = 1 - (left / np.maximum(there, 1)).clip(0, 1)
            weight = np.where(there > 0, float(resource.weight), 0.0)
            total += weight * np.interp(used, self._uses, self._scores)
            weights += weight
        return np.asarray(total / np.maximum(weights, 1))
