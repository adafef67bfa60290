"""What the kinds share: bounded field types, object metadata, conditions.

The models are for CRDs; pods and nodes never pass through them. They are strict (an integer is an integer)
and ignore fields they do not know: an object of a newer version is still read.

Text in `description` and the `x-kubernetes-*` extras end up in the generated CRDs.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

# What the apiserver takes for a quantity, Kubernetes' own signs and suffixes. Whether a number makes sense is
# judged by api.quantity, which can say why not.
QUANTITY_PATTERN = (
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$"
)


def _wire_name(name: str) -> str:
    # MiB is a unit and keeps its spelling: memory_mib is memoryMiB.
    return re.sub("Mib$", "MiB", to_camel(name))


def map_list(*keys: str) -> dict[str, Any]:
    """Schema extras of a list whose items are told apart by these fields, so that patches merge by item."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}  # a list that is written whole
ATOMIC_MAP: Final[dict[str, Any]] = {"x-kubernetes-map-type": "atomic"}  # an object that is written whole


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Schema extras of CEL rules, each with the sentence that its breaker reads."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


Count = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
LongCount = Annotated[int, Field(ge=0, le=2**63 - 1, json_schema_extra={"format": "int64"})]
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Uid = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Quantity = Annotated[
    int | str,
    Field(
        json_schema_extra={"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "maxLength": 64}
    ),
]


class Model(BaseModel):
    """A part of a Kubernetes object: camelCase on the wire, snake_case in Python."""

    model_config = ConfigDict(
        alias_generator=_wire_name,
        populate_by_name=True,
        strict=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    def wire(self) -> dict[str, Any]:
        """As JSON-ready dict for the apiserver: aliases, nothing that is unset or None."""
        return self.model_dump(by_alias=True, exclude_none=True)


class ObjectMeta(Model):
    """The metadata that Alnair reads. Never part of a generated schema: the apiserver owns it."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)


class Condition(Model):
    """One aspect of the object's state, in the form that all Kubernetes objects use."""

    type: Annotated[str, Field(max_length=316, pattern=r"^[A-Za-z0-9][A-Za-z0-9./_-]*$")]
    """What the condition is about, for example Scheduled."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: LongCount | None = None
    """The metadata.generation that the condition was set for."""
    last_transition_time: Timestamp
    """When the status last changed."""
    reason: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, in sentences for people."""


Conditions = Annotated[list[Condition], Field(max_length=32, json_schema_extra=map_list("type"))]
