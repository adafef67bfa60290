"""The judge of all runs of a control plane: one checker sees every revision of etcd; its findings are told by run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from chaos.trail import Trail
from witness.checker import Checker
from witness.findings import Finding
from witness.history import History

UNCONVERGED: Final = "unconverged"


class Court:
    def __init__(self, history: History, schedulers: frozenset[str]) -> None:
        self.checker = Checker(schedulers, delivering=True)
        self.trail = Trail()
        self._history = history
        self._reading: asyncio.Task[None] | None = None
        self._claimed: set[int] = set()  # findings that a run has taken

    def open(self) -> None:
        self._reading = asyncio.create_task(self._read(), name="read the history")

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    @property
    def revisions(self) -> int:
        return self._history.count

    async def rests(self, namespace: str) -> None:
        """All is at rest there from now on, and nothing may be written."""
        await self.caught_up()
        self.checker.rests(namespace)

    async def stirs(self, namespace: str) -> None:
        await self.caught_up()
        self.checker.stirs(namespace)

    async def verdict(self, namespace: str, pool: str, wrong: list[str]) -> list[Finding]:
        """What is to be said against this run: what the checker found about it, and what it says itself."""
        await self.caught_up()
        self.checker.stirs(namespace)
        found = []
        for index, finding in enumerate(self.checker.findings):
            text = " ".join((*finding.objects, finding.what))
            if index not in self._claimed and (f"{namespace}/" in text or f".{pool}" in text):
                self._claimed.add(index)
                found.append(finding)
        revision = self._history.revision
        return found + [Finding(UNCONVERGED, revision, (namespace,), text) for text in wrong]

    def unclaimed(self) -> list[Finding]:
        """Findings about no run that can be told."""
        return [each for index, each in enumerate(self.checker.findings) if index not in self._claimed]

    async def caught_up(self) -> None:
        """Every revision until now has been judged."""
        target = await self._history.current()
        while self._history.revision < target:
            assert self._reading is not None
            if self._reading.done():
                self._reading.result()
            await asyncio.sleep(0.01)

    async def _read(self) -> None:
        async for change in self._history.changes():
            self.checker.see(change)
            self.trail.see(change)
