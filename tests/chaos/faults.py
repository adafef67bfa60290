"""What can go wrong, in words: `7:kill-before` is a fault at the seventh counted call of a run.

A history is a scenario and such words: `gang-4 3:kill-after 7:answer=503`. The words are all that a run needs to be
repeated, and what is printed when one fails. What each of them does is in `meddling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

KILLS: Final = ("kill-before", "kill-after")
"""The crash points: SIGKILL before the call is forwarded; after it was applied, before its answer."""

OUTAGES: Final = {"end-apiserver": "kube-apiserver", "end-etcd": "etcd"}
"""Words for ends of the control plane's own programs. They meet every run of it, so none is drawn beside others."""

WORDS: Final[dict[str, tuple[int, ...]]] = {
    "kill-before": (),
    "kill-after": (),
    "kill-late": (0, 2),
    "pause": (),
    "drop": (),
    "drop-answer": (),
    "late": (1, 4),
    "slow": (1, 4),
    "twice": (),
    "answer": (401, 403, 409, 410, 422, 429, 500, 503, 504),
    "cut-watches": (),
    "hold-watches": (2, 5),
    "rewind-watches": (),
    "stale-pods": (),
    "stale-nodes": (),
    "delete-node": (0, 1),
    "cordon-node": (0, 1),
    "relabel-node": (0, 1),
    "delete-member": (0, 1, 2),
    "recreate-member": (0, 1, 2),
    "refuse-member": (0, 1, 2),
    "compete": (0, 1),
    "raise-least": (),
    "lower-least": (),
    **dict.fromkeys(OUTAGES, ()),
}
"""Each with the arguments that are drawn for it, where it takes one."""


class NoSuchFault(ValueError):
    """The words name no fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    at: int
    """The number of the call that it meets."""
    word: str
    argument: int = 0

    @property
    def what(self) -> str:
        """Without where: `answer=503`."""
        return self.word + (f"={self.argument}" if WORDS[self.word] else "")

    def __str__(self) -> str:
        return f"{self.at}:{self.what}"


@dataclass(frozen=True, slots=True)
class History:
    """A scenario's name and what befalls it."""

    scenario: str
    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.scenario, *map(str, self.faults)])

    def without(self, fault: Fault) -> History:
        return replace(self, faults=tuple(each for each in self.faults if each is not fault))


def parse(text: str) -> History:
    """`gang-4 3:kill-after 7:answer=503`."""
    scenario, *words = text.split()
    return History(scenario, tuple(map(_fault, words)))


def _fault(text: str) -> Fault:
    number, _, word = text.partition(":")
    word, _, argument = word.partition("=")
    if not number.isdigit() or word not in WORDS or bool(argument) != bool(WORDS[word]):
        known = ", ".join(f"{each}=n" if takes else each for each, takes in WORDS.items())
        raise NoSuchFault(f"{text!r} is no fault; they are written N:WORD, with one of {known}")
    return Fault(int(number), word, int(argument or 0))


def smaller(history: History) -> Sequence[History]:
    """The histories that lack one of its faults, for whoever looks for the smallest that still fails."""
    return [history.without(fault) for fault in history.faults]
