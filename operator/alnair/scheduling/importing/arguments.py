"""Arguments that both kinds of old files have, in the same shape."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, field_validator

from alnair.api.config import LabelKey
from alnair.scheduling.importing.reading import Part

Name = Annotated[str, Field(min_length=1, max_length=253)]
Labels = Annotated[list[LabelKey], Field(max_length=64)]


class ShapePoint(Part):
    utilization: Annotated[int, Field(ge=0, le=100)] = 0
    score: Annotated[int, Field(ge=0, le=10)] = 0


class ResourceWeight(Part):
    name: LabelKey
    weight: Annotated[int, Field(ge=0, le=100)] = 1  # 0 is not given, which is 1


Shape = Annotated[list[ShapePoint], Field(min_length=1, max_length=101)]
Resources = Annotated[list[ResourceWeight], Field(max_length=64)]


class RatioArguments(Part):
    """Which score which part of a resource's use gives, in straight lines between the points."""

    shape: Shape
    resources: Resources = Field(default_factory=list)

    @field_validator("shape")
    @classmethod
    def _rises(cls, shape: list[ShapePoint]) -> list[ShapePoint]:
        if any(one.utilization >= other.utilization for one, other in pairwise(shape)):
            raise ValueError("utilization must rise from point to point")
        return shape

    def options(self) -> dict[str, Any]:
        points = [{"utilization": point.utilization, "score": point.score} for point in self.shape]
        return {"shape": points} | resource_options(self.resources)


def resource_options(resources: list[ResourceWeight]) -> dict[str, Any]:
    if not resources:
        return {}
    return {"resources": [{"name": each.name, "weight": each.weight or 1} for each in resources]}
