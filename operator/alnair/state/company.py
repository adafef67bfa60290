"""Who is where: for each question that rules ask about other pods, how many pods answer it on each node.

Two kinds of question. "How many pods of this set are on each node?" is counted from the moment that it is first asked,
then kept up to date pod by pod, so asking again costs nothing. "Who brought a host port, a disk or an anti-affinity
term to which node?" is kept from the start, because the newcomer does not know whom to ask.

What must never happen here: a pod that comes and goes under two different descriptions, which leaves a remainder in
some count. Whoever lets a pod come keeps the very `PodClass` and lets that one leave.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from alnair.state.selectors import Labels, Pods, PodTerm
from alnair.state.shapes import PodClass, PodShape

MOST_TALLIES = 1024  # sets of pods that are counted at once; the one asked for longest ago is forgotten

MOST_MEANT = 1024
MOST_WORDS_MEANT = 200_000  # terms and labels in all of these

NOTHING: Mapping[Hashable, Mapping[int, int]] = {}

Tally = NDArray[np.int64]
Meant = Sequence[tuple[Hashable, Mapping[int, int]]]


class Company:
    """Rows are those of the books. `everyone` lists the pods that are somewhere, for a set first asked about.

    `on_volumes` is told of pods with volumes: row, shape, +1 or -1.
    """

    def __init__(
        self,
        everyone: Callable[[], Iterable[tuple[int, PodClass]]],
        on_volumes: Callable[[int, PodShape, int], None] = lambda row, shape, sign: None,
    ) -> None:
        self._everyone = everyone
        self._on_volumes = on_volumes
        self._rows = 0
        self._tallies: OrderedDict[Pods, Tally] = OrderedDict()
        self._counted_in: defaultdict[str, set[Pods]] = defaultdict(set)  # namespace -> sets that look there
        self._counted_anywhere: set[Pods] = set()
        self._brought: defaultdict[str, dict[Hashable, dict[int, int]]] = defaultdict(dict)
        self._edition = 0  # grows with every thing that is new or gone
        self._editions: dict[str, int] = {}  # kind -> the edition of its last change
        self._keys: defaultdict[str, dict[str, int]] = defaultdict(dict)  # kind -> labels its terms look at
        self._meaning: dict[Hashable, tuple[int, Meant]] = {}
        self._meant = 0  # terms and labels in it, all told
        self._namespaces: dict[str, Labels] = {}
        self._visitors: list[tuple[int, PodClass]] = []
        self._away: list[tuple[int, PodClass]] = []

    # -- changes -------------------------------------------------------------------------------------------------

    def come(self, row: int, pod: PodClass) -> None:
        self._move(row, pod, +1)

    def leave(self, row: int, pod: PodClass) -> None:
        self._move(row, pod, -1)

    def visit(self, row: int, pod: PodClass) -> None:
        """A planner puts it there for a moment, or back there."""
        if (row, pod) in self._away:
            self._away.remove((row, pod))
        else:
            self._visitors.append((row, pod))
        self._move(row, pod, +1)

    def end_visit(self, row: int, pod: PodClass) -> None:
        """It goes again; or a planner takes away for a moment who is really there."""
        for position in range(len(self._visitors) - 1, -1, -1):
            if self._visitors[position] == (row, pod):
                del self._visitors[position]
                break
        else:
            self._away.append((row, pod))
        self._move(row, pod, -1)

    def _move(self, row: int, pod: PodClass, sign: int) -> None:
        if pod.shape.claims or pod.shape.disks:
            self._on_volumes(row, pod.shape, sign)
        for index in (self._counted_in.get(pod.namespace), self._counted_anywhere):
            for pods in index or ():
                if self.is_in(pods, pod):
                    self._tallies[pods][row] += sign
        for kind, thing in pod.shape.tags:
            where = self._brought[kind].get(thing)
            if where is None:
                where = self._brought[kind][thing] = {}
                self._new_edition(kind, thing, +1)
            left = where.get(row, 0) + sign
            if left:
                where[row] = left
            else:
                where.pop(row, None)
                if not where:
                    del self._brought[kind][thing]
                    self._new_edition(kind, thing, -1)
                    if not self._brought[kind]:
                        del self._brought[kind], self._editions[kind]
                        self._keys.pop(kind, None)

    def _new_edition(self, kind: str, thing: Hashable, sign: int) -> None:
        """A thing came that nobody had brought, or the last one of its kind is gone."""
        self._edition += 1
        self._editions[kind] = self._edition
        term = thing[1] if isinstance(thing, tuple) else thing
        if isinstance(term, PodTerm) and term.pods.selector is not None:
            keys = self._keys[kind]
            for requirement in term.pods.selector.requirements:
                keys[requirement.key] = keys.get(requirement.key, 0) + sign
                if not keys[requirement.key]:
                    del keys[requirement.key]

    def put_namespace(self, name: str, labels: Labels) -> None:
        if self._namespaces.get(name) != labels:
            self._namespaces[name] = dict(labels)
            self._forget_by_namespace()

    def drop_namespace(self, name: str) -> None:
        if self._namespaces.pop(name, None):
            self._forget_by_namespace()

    def _forget_by_namespace(self) -> None:
        self._forget_meanings()
        for pods in [pods for pods in self._tallies if pods.by_namespace_labels]:
            self._forget_tally(pods)

    def _forget_meanings(self) -> None:
        self._meaning.clear()
        self._meant = 0

    def _forget_tally(self, pods: Pods) -> None:
        del self._tallies[pods]
        for index in self._indices(pods):
            index.discard(pods)
        for namespace in pods.namespaces:
            if not self._counted_in.get(namespace, True):
                del self._counted_in[namespace]

    def _indices(self, pods: Pods) -> list[set[Pods]]:
        """Where the set is found by whoever may be in it."""
        if pods.by_namespace_labels:
            return [self._counted_anywhere]
        return [self._counted_in[namespace] for namespace in pods.namespaces]

    def resize(self, rows: int) -> None:
        self._rows = rows
        for pods, tally in self._tallies.items():
            self._tallies[pods] = np.concatenate([tally, np.zeros(rows - len(tally), dtype=np.int64)])

    # -- questions -----------------------------------------------------------------------------------------------

    def is_in(self, pods: Pods, pod: PodClass) -> bool:
        if pod.ghost or (pods.living and pod.terminating):
            return False
        return pods.has(pod.namespace, pod.labels, self._namespaces.get(pod.namespace, {}))

    def count(self, pods: Pods) -> Tally:
        """How many of them are on each node. Not to be written to."""
        tally = self._tallies.get(pods)
        if tally is None:
            tally = np.zeros(self._rows, dtype=np.int64)
            for row, pod in (*self._everyone(), *self._visitors):
                tally[row] += self.is_in(pods, pod)
            for row, pod in self._away:
                tally[row] -= self.is_in(pods, pod)
            self._tallies[pods] = tally
            for index in self._indices(pods):
                index.add(pods)
            if len(self._tallies) > MOST_TALLIES:
                self._forget_tally(next(iter(self._tallies)))
        else:
            self._tallies.move_to_end(pods)
        return tally

    def brought(self, kind: str) -> Mapping[Hashable, Mapping[int, int]]:
        """Everything of that kind that pods brought: thing -> node row -> by how many pods."""
        return self._brought.get(kind, NOTHING)

    def meaning(self, kind: str, pod: PodClass) -> Meant:
        """Of the terms of that kind that pods brought, those that mean this pod: (term or wish, row -> by how many).

        Remembered for all pods that the terms cannot tell apart: a thousand terms are not asked for each pod.
        """
        if kind not in self._brought:
            return ()
        labels = tuple(pod.labels.get(key) for key in self._keys[kind])
        key, edition = (kind, pod.namespace, labels), self._editions[kind]
        known = self._meaning.get(key)
        if known is None or known[0] != edition:
            if len(self._meaning) >= MOST_MEANT or self._meant > MOST_WORDS_MEANT:
                self._forget_meanings()
            found = tuple(
                (thing, rows)
                for thing, rows in self._brought[kind].items()
                if self.is_in(_term(thing).pods, pod)
            )
            known = self._meaning[key] = (edition, found)
            self._meant += len(found) + len(labels)
        return known[1]


def _term(thing: Hashable) -> PodTerm:
    """A wish is a term with its weight before it."""
    term = thing[1] if isinstance(thing, tuple) else thing
    assert isinstance(term, PodTerm)
    return term
