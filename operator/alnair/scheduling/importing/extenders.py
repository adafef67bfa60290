"""Extenders of an old file: other programs that kube-scheduler asked. Alnair asks nobody, so each is told as lost, with
what does its work here where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from alnair.api import names
from alnair.scheduling.importing.assembly import Assembly
from alnair.scheduling.importing.reading import Part

# By the start of a managed resource's name: what the extender was for.
SHARERS: Final = {
    "aliyun.com/gpu": f"gpushare's slices: ask for {names.VGPU_MEMORY} (GiB) or the annotation {names.GPU_MEMORY}",
    "nvidia.com/gpu": "HAMi's slices: pods that ask for them the same way get them from Alnair",
    "alnair/": "Alnair's own slices",
}


class ManagedResource(Part):
    name: Annotated[str, Field(max_length=317)]
    ignored_by_scheduler: bool = False


class Extender(Part):
    """As much of it as is told. Field names are taken in any case, as kube-scheduler took them."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    managed_resources: list[ManagedResource] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = {field.alias.lower(): field.alias for field in cls.model_fields.values() if field.alias}
        return {known.get(str(key).lower(), key): each for key, each in value.items() if each is not None}

    def points(self) -> list[str]:
        verbs = {
            "filter": self.filter_verb,
            "prioritize": self.prioritize_verb,
            "preempt": self.preempt_verb,
            "bind": self.bind_verb,
        }
        return [point for point, verb in verbs.items() if verb]


def tell_extenders(extenders: Sequence[Extender], assembly: Assembly) -> None:
    for number, extender in enumerate(extenders):
        asked = ", ".join(extender.points()) or "nothing"
        text = f"{extender.url_prefix or 'without a URL'} was asked to {asked}; Alnair asks no other program"
        for resource in extender.managed_resources:
            for start, instead in SHARERS.items():
                if resource.name.startswith(start):
                    text += f". For {resource.name}, {instead}"
        assembly.lose(f"extenders[{number}]", text)
