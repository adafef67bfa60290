"""Third parties' rules at arm's length: whatever they do wrong is one exception, `RuleFailed`, that names them.

They see the books sealed, their answers are looked at before anybody believes them (as many as there are nodes, of the
right kind, finite, in range), and a call that takes too long is ended, where the caller passes in who ends it. This is
against mistakes, not against malice: a package that is installed into the operator can do what the operator can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.interface import Floats, Scope, Waiting
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

T = TypeVar("T")

Limit = Callable[[], AbstractContextManager[Any]]
"""Made anew for each call; ends it by an exception when it takes too long."""


class RuleFailed(Exception):
    """A third party's rule raised, answered nonsense or took too long."""

    def __init__(self, rule: str, package: str, point: str, why: str) -> None:
        super().__init__(f"rule {rule} of package {package} failed to {point}: {why}")
        self.rule = rule
        self.point = point


class Nonsense(ValueError):
    """An answer that cannot be one."""


class Guarded:
    """Stands in for the rule at the points that are asked while planning."""

    def __init__(self, rule: Any, *, package: str, limit: Limit = nullcontext) -> None:
        self.name: str = rule.name
        scope = getattr(rule, "scope", Scope.DOMAIN)  # in doubt it is asked anew each time
        self.scope = scope if isinstance(scope, Scope) else Scope.DOMAIN
        self.reads_load = bool(getattr(rule, "reads_load", False))
        self.rule = rule
        self.package = package
        self._limit = limit

    def call(self, point: str, work: Callable[[], T]) -> T:
        try:
            return self.ask(work)
        except KeyboardInterrupt:
            raise  # a person's
        except BaseException as error:  # a rule that calls sys.exit ends itself and nobody else
            raise self.failed(point, error) from error

    def ask(self, work: Callable[[], T]) -> T:
        """In the time that there is; whatever it raises comes as it is."""
        with self._limit():
            return work()

    def failed(self, point: str, error: BaseException) -> RuleFailed:
        return RuleFailed(self.name, self.package, point, f"{type(error).__name__}: {error}"[:500])

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        if not hasattr(self.rule, "concerns"):
            return True
        return self.call("concerns", lambda: bool(self.rule.concerns(pod, draft.sealed())))

    def awaits(self, pod: PodClass, draft: Draft) -> bool:
        if not hasattr(self.rule, "awaits"):
            return self.concerns(pod, draft)
        return self.call("awaits", lambda: bool(self.rule.awaits(pod, draft.sealed())))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return self.call(
            "passes", lambda: _yes_or_no(self.rule.passes(pod, draft.sealed()), len(draft.names))
        )

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        if not hasattr(self.rule, "reasons"):
            return [(f"does not pass {self.name}", failed)]
        return self.call(
            "reasons", lambda: _phrases(self.rule.reasons(pod, draft.sealed(), failed.copy()), failed)
        )

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return self.call("score", lambda: _parts(self.rule.score(pod, draft.sealed()), len(draft.names)))

    def choose(self, pod: PodClass, draft: Draft, rows: Ints, scores: Floats) -> int:
        return self.call(
            "choose",
            lambda: _position(self.rule.choose(pod, draft.sealed(), rows.copy(), scores.copy()), len(rows)),
        )

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        return self.call(
            "keys",
            lambda: _whole_numbers(
                self.rule.keys(pod, demand, draft.sealed(), row, candidates.copy()), len(candidates)
            ),
        )

    def arrived(self, pod: PodClass) -> bool:
        return self.call("arrived", lambda: bool(self.rule.arrived(pod)))

    def rank(self, gang: Waiting) -> float:
        return self.call("rank", lambda: float(_numbers([self.rule.rank(gang)], 1)[0]))


def _shaped(answer: Any, count: int) -> Any:
    array = np.asarray(answer)
    if array.shape != (count,):
        raise Nonsense(f"{count} answers are asked for, one each; it gave an array of shape {array.shape}")
    return array


def _yes_or_no(answer: Any, count: int) -> Bools:
    array = _shaped(answer, count)
    if array.dtype != np.bool_:
        raise Nonsense(f"answers must be true or false; it gave {array.dtype}")
    return np.array(array)


def _numbers(answer: Any, count: int) -> Floats:
    array = _shaped(answer, count)
    if array.dtype.kind not in "iufb":
        raise Nonsense(f"answers must be numbers; it gave {array.dtype}")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise Nonsense("answers must be finite; one is not")
    return np.asarray(numbers)


def _parts(answer: Any, count: int) -> Floats:
    numbers = _numbers(answer, count)
    if count and not (numbers.min() >= 0 and numbers.max() <= 1):
        raise Nonsense(f"scores must be from 0 to 1; they are from {numbers.min():g} to {numbers.max():g}")
    return numbers


def _whole_numbers(answer: Any, count: int) -> Ints:
    numbers = _numbers(answer, count)
    if np.abs(numbers).max(initial=0) > 1 << 53 or (numbers != np.rint(numbers)).any():
        raise Nonsense("keys must be whole numbers")
    return numbers.astype(np.int64)


def _position(answer: Any, count: int) -> int:
    if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)) or not 0 <= answer < count:
        raise Nonsense(f"a position from 0 to {count - 1} is asked for; it gave {str(answer)[:50]!r}")
    return int(answer)


def _phrases(answer: Any, failed: Ints) -> list[tuple[str, Ints]]:
    told = [(_phrase(text), _rows(rows)) for text, rows in answer]
    spoken_of = sorted(row for _, rows in told for row in rows.tolist())
    if spoken_of != sorted(failed.tolist()):
        raise Nonsense("each node that failed has one reason, and no other node has; it gave others")
    return told


def _phrase(answer: Any) -> str:
    """People read it after a number: `3 have no GPUs`."""
    verb, _, rest = str(answer)[:200].partition(" ")
    if verb not in ("is", "has", "does") or not rest:
        raise Nonsense(f"a reason starts with is, has or does; it gave {str(answer)[:50]!r}")
    return f"{verb} {rest}"


def _rows(answer: Any) -> Ints:
    rows = np.asarray(answer)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise Nonsense(f"the nodes of a reason are an array of rows; it gave {str(answer)[:50]!r}")
    return rows.astype(np.int64)
