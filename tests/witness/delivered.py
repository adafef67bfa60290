"""What the containers of a bound pod are told of their cards: their environment as a kubelet resolves it.

A variable that reads an annotation has its value, and an empty string where there is none.
"""

from __future__ import annotations

import re

from witness.uses import Given, Part
from witness.words import Object

VISIBLE, IDS, SM = "NVIDIA_VISIBLE_DEVICES", "ALNAIR_GPU_IDS", "CUDA_DEVICE_SM_LIMIT"
MEMORY = "CUDA_DEVICE_MEMORY_LIMIT_"
_ANNOTATION = re.compile(r"^metadata\.annotations\['(.*)'\]$")

Environment = dict[str, dict[str, str]]
"""Container -> variable -> value."""


def environment(manifest: Object) -> Environment:
    """Of the variables that speak of cards; containers without any are left out."""
    spec, annotations = manifest["spec"], manifest["metadata"].get("annotations") or {}
    found: Environment = {}
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        for variable in container.get("env") or []:
            name = variable["name"]
            if name in (VISIBLE, IDS, SM) or name.startswith(MEMORY):
                told = found.setdefault(container["name"], {})
                told[name] = _value(variable, annotations)
    return found


def _value(variable: Object, annotations: dict[str, str]) -> str:
    path = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
    if path is None:
        return str(variable.get("value", ""))
    key = _ANNOTATION.match(path)
    return annotations.get(key[1], "") if key else ""


def differs(told: Environment, held: Given) -> str:
    """What is wrong with what the containers are told; empty if nothing is."""
    parts = {part.container: part for part in held.parts}
    wrong = []
    for name in sorted(told.keys() | parts.keys()):
        wanted = _wanted(parts[name], held.node) if name in parts else {}
        for variable, value in told.get(name, {}).items():
            if wanted.get(variable) != value:
                wrong.append(f"{variable} of container {name} is {value!r}, not {wanted.get(variable)!r}")
        missing = sorted(_needed(parts[name]) - told.get(name, {}).keys()) if name in parts else []
        wrong += [f"container {name} is not told {variable}" for variable in missing]
    return "; ".join(wrong)


def _wanted(part: Part, node: str) -> dict[str, str]:
    # A card without a UUID is called NODE/INDEX, and NVIDIA's runtime knows it by the index.
    visible = [piece.card.removeprefix(f"{node}/") for piece in part.pieces]
    return {
        VISIBLE: ",".join(visible),
        IDS: ",".join(piece.card for piece in part.pieces),
        SM: str(part.pieces[0].compute_percent),
        **{f"{MEMORY}{place}": f"{piece.memory_mib}m" for place, piece in enumerate(part.pieces)},
    }


def _needed(part: Part) -> set[str]:
    if all(piece.whole for piece in part.pieces):
        return {VISIBLE}
    return {VISIBLE, SM, *(f"{MEMORY}{place}" for place in range(len(part.pieces)))}
