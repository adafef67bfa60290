"""Every "no" in words that a person can act on.

Nodes are counted once, under the first rule that they fail, in the order of the profile's filters. The draft is the
one the search ended with, so the sentences speak of the members that found no place beside those that did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.scheduling.cards import pick
from alnair.scheduling.plugins.gpu_cards import beyond_any_card, describe
from alnair.scheduling.plugins.interface import Filter, without
from alnair.scheduling.profile import Profile
from alnair.scheduling.words import agree, amount, count, sentence
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass, PodShape

LONGEST = 1000  # of an event's note; conditions allow more, but one text is told everywhere


@dataclass(frozen=True, slots=True)
class ClassShortfall:
    """Of `members` equal pods, `missing` found no place."""

    pod: PodClass
    members: int
    missing: int


def why_not(short: Sequence[ClassShortfall], *, fit: int, gang: int, profile: Profile, draft: Draft) -> str:
    text = "" if gang == 1 else f"{fit} of {gang} members fit."
    for lack in short:
        if len(text) > LONGEST:
            break  # nobody reads further
        missing = min(
            lack.missing, gang - fit
        )  # members beyond those that the gang needs are not what it waits for
        who = "1 more needs" if missing == 1 else f"{missing} more each need"
        if gang == 1:
            who = "The pod needs"
        needs = requirement(lack.pod.shape)
        if in_vain := beyond_any_card(lack.pod.shape.gpu, draft):
            needs += f", {in_vain}"
        text += " " + sentence(f"{who} {needs}, but {node_reasons(lack.pod, profile, draft)}")
    return shortened(text.strip())


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def requirement(shape: PodShape) -> str:
    """What a pod of this shape asks for, the GPU first."""
    parts = [describe(shape.gpu)] if shape.gpu.demands else []
    requests = dict(shape.requests)
    parts += [
        f"{amount(resource, requests[resource])} {resource}"
        for resource in ("cpu", "memory")
        if resource in requests
    ]
    return " and ".join(", ".join(parts).rsplit(", ", 1)) or "a place"


def node_reasons(pod: PodClass, profile: Profile, draft: Draft) -> str:
    """`of 6 nodes: 3 …; 2 …; 1 …`: how many nodes failed for which first reason."""
    candidates = np.flatnonzero(draft.exists)
    if not len(candidates):
        return "there are no nodes"
    failed = list(first_reasons(pod, profile.filters, draft, candidates))
    left = without(candidates, np.concatenate([candidates[:0], *(rows for *_, rows in failed)]))
    reasons = [(phrase, len(rows)) for _, phrase, rows in failed]
    reasons += _beyond_rules(pod, profile, draft, left)
    told = "; ".join(agree(number, reason) for reason, number in reasons)
    return f"of {count(len(candidates), 'node')}: {told}"


def first_reasons(
    pod: PodClass, filters: Iterable[Filter], draft: Draft, rows: Ints
) -> Iterator[tuple[Filter, str, Ints]]:
    """Those of the rows that fail, each under the first rule that it fails: the rule, what it says, of which rows."""
    for rule in filters:
        if not rule.concerns(pod, draft):
            continue
        passed = rule.passes(pod, draft)[rows]
        failed, rows = rows[~passed], rows[passed]
        if len(failed):
            yield from ((rule, phrase, told) for phrase, told in rule.reasons(pod, draft, failed))


def _beyond_rules(pod: PodClass, profile: Profile, draft: Draft, rows: Ints) -> list[tuple[str, int]]:
    """Nodes that pass every rule. A single GPU container always finds its cards there; several may not, together."""
    several = len(pod.shape.gpu.demands) > 1
    crowded = sum(pick(pod, draft, int(row), profile.picker) is None for row in rows) if several else 0
    reasons = [("has no cards that fit all containers of the pod together", crowded)]
    reasons.append(("has room, but the pod there would break a rule of another member", len(rows) - crowded))
    return [(phrase, number) for phrase, number in reasons if number]
