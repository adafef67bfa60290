"""Records that say nothing any more, and whether anybody is there whom they could be for.

Between its creation and its commit a record is empty, and so is one whose pods were all given up; as long as a pod of
its owner lives, something may come of it. Once the last is gone it has outlived its pods, though it lists none.
"""

from __future__ import annotations


class Kin:
    """An owner is a PodGroup as `namespace/name`, or a pod's UID."""

    def __init__(self) -> None:
        self._living: dict[str, set[str]] = {}  # owner -> UIDs
        self._empty: dict[str, str] = {}  # record that holds nothing -> its owner
        self._since: dict[str, float] = {}  # of these, the deserted -> since when, the longest first

    def came(self, uid: str, group: str) -> None:
        for owner in (uid, group):
            self._living.setdefault(owner, set()).add(uid)
            for record in self._of(owner):
                self._since.pop(record, None)

    def went(self, uid: str, group: str, at: float) -> None:
        for owner in (uid, group):
            living = self._living.get(owner, set())
            living.discard(uid)
            if not living:
                self._living.pop(owner, None)
                for record in self._of(owner):
                    self._since.setdefault(record, at)

    def emptied(self, record: str, owner: str, at: float) -> None:
        """It is there and holds nothing."""
        self._empty[record] = owner
        if owner not in self._living:
            self._since.setdefault(record, at)

    def filled(self, record: str) -> None:
        """It holds something, or is gone."""
        self._empty.pop(record, None)
        self._since.pop(record, None)

    def deserted(self, *, before: float | None = None) -> dict[str, float]:
        """Records that nobody is there for, all or since before then, and since when."""
        return {record: since for record, since in self._since.items() if before is None or since < before}

    def _of(self, owner: str) -> list[str]:
        return [record for record, of in self._empty.items() if of == owner]
