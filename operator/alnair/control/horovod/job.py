"""One ElasticHorovodJob as it was read, with the names of its children.

A job that cannot be read is kept with the words that its author needs to put it right: nothing is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from alnair.api import horovod, names
from alnair.api.horovod import ElasticHorovodJobSpec
from alnair.api.quantity import shown

Manifest = dict[str, Any]
Key = tuple[str, str]  # namespace, name

# A StatefulSet's name and "-" and ten digits are a label of its pods, which may have 63 characters.
LONGEST_BASE = 63 - len("-workers") - 11


@dataclass(frozen=True)
class Identity:
    """Which job it is, and what its children are called: known also of one that cannot be read."""

    manifest: Manifest

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.manifest["metadata"]["uid"])

    # -- names of what it consists of ------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The PodGroup has the job's own name wherever that is not too long."""
        return names.dns_label(self.name, LONGEST_BASE)

    @property
    def workers(self) -> str:
        """The StatefulSet and its Service."""
        return f"{self.group}-workers"

    @property
    def discovery(self) -> str:
        return f"{self.group}-discovery"

    @property
    def launcher(self) -> str:
        return f"{self.group}-launcher"

    @property
    def going(self) -> bool:
        return bool(self.manifest["metadata"].get("deletionTimestamp"))

    @property
    def finalizers(self) -> list[str]:
        return list(self.manifest["metadata"].get("finalizers") or ())

    def labels(self) -> dict[str, str]:
        """On every child: our streams select by them."""
        return {names.HOROVOD_JOB: names.label_value(self.name), names.HOROVOD_JOB_UID: self.uid}

    def owner(self) -> Manifest:
        return {
            "apiVersion": names.API_HOROVOD,
            "kind": names.KIND_HOROVOD,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


@dataclass(frozen=True)
class Job(Identity):
    """A job that can be read."""

    spec: ElasticHorovodJobSpec


def read(manifest: Manifest) -> Job | str:
    """The job, or why it cannot be read: which field, what stands there, what is wrong with it."""
    try:
        return Job(manifest, ElasticHorovodJobSpec.model_validate(manifest.get("spec") or {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("spec", *first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("missing", "value_error"):
            return f"{where}: {said}"
        return f"{where}: {shown(first['input'])} is not valid: {said}"


def key_of(manifest: Mapping[str, Any]) -> Key:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def scheduler_of(manifest: Manifest) -> str:
    """Which profile a job is for, also of one that cannot be read."""
    spec = manifest.get("spec")
    named = spec.get("schedulerName") if isinstance(spec, dict) else None
    return named if isinstance(named, str) and named else names.PROFILE_DEFAULT


def finished(manifest: Manifest) -> str:
    """Complete or Failed, once it is recorded that the job has ended; empty before. It never starts again."""
    for condition in (manifest.get("status") or {}).get("conditions") or ():
        if condition.get("type") in (horovod.COMPLETE, horovod.FAILED) and condition.get("status") == "True":
            return str(condition["type"])
    return ""
