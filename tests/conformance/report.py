"""A disagreement as manifests that reproduce it: the cluster, the pod, and what each side said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from conformance.compare import Disagreement
from conformance.drawing.words import Manifest
from conformance.kinds import SCENARIO_KINDS

NOISE = ("managedFields", "resourceVersion", "creationTimestamp", "generation", "uid")


def written(found: Disagreement, *, seed: int) -> str:
    """Comments first, then the objects as YAML documents, the judged pod last."""
    lines = [
        f"# Scenario {found.scenario.name} of seed {seed}, pod {_of(found.pod)}.",
        f"# kube-scheduler: {found.answer.reason}: {found.answer.message}",
    ]
    if found.opinion.problem:
        lines.append(f"# ours cannot read the pod: {found.opinion.problem}")
    for node, fits in found.nodes.items():
        ours = found.opinion.reasons.get(node) or ", ".join(found.opinion.deciders(node)) or "no reason"
        theirs = "fits" if fits else "does not fit"
        mine = "does not fit" if fits else "fits"
        lines.append(f"#   {node}: kube-scheduler says it {theirs}; ours says it {mine} ({ours})")
    objects = [*_cluster(found), found.pod]
    return "\n".join(lines) + "\n" + yaml.safe_dump_all(_plain(each) for each in objects)


def _cluster(found: Disagreement) -> list[Manifest]:
    kinds = ("Namespace", *reversed(SCENARIO_KINDS))
    return [each for kind in kinds for each in found.world[kind] if not _is_system(each)]


def _is_system(thing: Manifest) -> bool:
    name: str = thing["metadata"]["name"]
    return thing["kind"] == "Namespace" and name.startswith(("kube-", "default"))


def _plain(thing: Manifest) -> Manifest:
    """A copy without what only the apiserver knows, so that it can be applied and so that YAML has no anchors."""
    copied: Manifest = _copy(thing)
    for field in NOISE:
        copied["metadata"].pop(field, None)
    if thing["kind"] == "Namespace":
        return {key: copied[key] for key in ("apiVersion", "kind", "metadata")}
    return copied


def _copy(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {key: _copy(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_copy(each) for each in thing]
    return thing


def _of(pod: Manifest) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def save(found: Disagreement, folder: Path, *, seed: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}-{found.pod['metadata']['name']}.yaml"
    path.write_text(written(found, seed=seed), "utf-8")
    return path
