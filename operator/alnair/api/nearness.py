"""What a gang asks about being together: in one domain of the cluster (required), or in as few as possible (preferred).

It is said in the PodGroup's `spec.topology`, or by annotation on the PodGroup or on pods: ours, and those that Kueue's
and KAI's users write already. The value is a level's name as the config has it, or a node label (with a slash in it, or
a level's own). Where annotations require one and prefer another, what is required counts alone.

Nothing is judged where it is read: a level that does not exist becomes a sentence when the gang's turn comes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from alnair.api import names
from alnair.api.config import LABEL_PATTERN, Level
from alnair.api.quantity import shown

LONGEST: Final = 317  # of a label's key: 253 of its prefix, the slash, 63 of its name

_REQUIRED: Final = (names.TOPOLOGY_REQUIRED, names.KUEUE_REQUIRED_TOPOLOGY, names.KAI_REQUIRED_TOPOLOGY)
_PREFERRED: Final = (names.TOPOLOGY_PREFERRED, names.KUEUE_PREFERRED_TOPOLOGY, names.KAI_PREFERRED_TOPOLOGY)
_ALL: Final = frozenset(_REQUIRED + _PREFERRED)


class BadLevel(ValueError):
    """There is no such level. The message names the field, the value and what to do."""


@dataclass(frozen=True, slots=True)
class Wish:
    """`level` as it was written, in this field."""

    level: str
    required: bool
    field: str


def wish_in(annotations: Mapping[str, str]) -> Wish | None:
    """What annotations say. Asked of every pod that is read, so it is cheap where they say nothing."""
    if _ALL.isdisjoint(annotations):
        return None
    for key in _REQUIRED + _PREFERRED:
        if key in annotations:
            level = annotations[key][: LONGEST + 1]
            return Wish(level, key in _REQUIRED, f"metadata.annotations[{key}]")
    return None


def find_level(wish: Wish, levels: Sequence[Level]) -> tuple[str, str]:
    """(node label, what people call such a domain). Raises BadLevel."""
    for level in levels:
        if wish.level in (level.name, level.label):
            return level.label, level.name
    if "/" in wish.level and len(wish.level) <= LONGEST and re.fullmatch(LABEL_PATTERN, wish.level):
        return wish.level, f"domain of {wish.level}"
    there = f"there are {', '.join(level.name for level in levels)}" if levels else "there are none"
    raise BadLevel(
        f"{wish.field}: {shown(wish.level)} is no level of topology.levels ({there}); name one of those, or a node "
        "label such as topology.kubernetes.io/zone"
    )
