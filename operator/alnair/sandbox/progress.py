"""How a long build tells what it does: a live bar in a terminal, one plain line a step elsewhere.

Everything goes to standard error: standard output belongs to results.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of long work and what it takes on two cores with nothing cached."""

    name: str
    cold_seconds: int


class Reporter(Protocol):
    """Where progress goes. Tests pass one that collects, programs pass `Report`."""

    def say(self, sentence: str) -> None: ...

    def steps(self, title: str, steps: Sequence[Step]) -> AbstractContextManager[StepRunner]: ...


class StepRunner(Protocol):
    def step(self, step: Step) -> AbstractContextManager[None]: ...


def span(seconds: float) -> str:
    """`4 min 35 s`, `29 s`: for people, not for parsing."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


class Report:
    """Writes progress to standard error, as a bar where somebody can see one."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, soft_wrap=True)

    @contextmanager
    def steps(self, title: str, steps: Sequence[Step]) -> Iterator[StepRunner]:
        total = sum(step.cold_seconds for step in steps)
        began = time.monotonic()
        self.say(f"{title}: {len(steps)} programs, about {span(total)} on two cores if nothing is cached")
        if self.console.is_terminal:
            with _Bar(self.console, steps) as bar:
                yield bar
        else:
            yield _Lines(self, steps)
        self.say(f"{title}: done in {span(time.monotonic() - began)}")


class _Lines:
    def __init__(self, report: Report, steps: Sequence[Step]) -> None:
        self.report, self.todo, self.count = report, list(steps), len(steps)

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        number = self.count - len(self.todo) + 1
        left = span(sum(other.cold_seconds for other in self.todo))
        self.report.say(f"  {number} of {self.count}: {step.name} (at most about {left} to go)")
        yield
        self.todo.remove(step)


class _Bar(Progress):
    """A bar that moves with the clock along the known durations, and jumps when a step ends early.

    The compiler does not say how far it is, so a step that takes longer than known stands at its end.
    """

    def __init__(self, console: Console, steps: Sequence[Step]) -> None:
        self.count, self.ended = len(steps), 0
        self.total_seconds = sum(step.cold_seconds for step in steps)
        self.done_seconds = 0
        self.current: Step | None = None
        self.step_began = 0.0
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            refresh_per_second=4,
        )
        self.bar = self.add_task("", total=self.total_seconds, left="")

    def get_renderables(self) -> Iterable[RenderableType]:
        """Called at every refresh, so this is where the clock is read."""
        if self.current is not None and self.tasks:
            inside = min(time.monotonic() - self.step_began, self.current.cold_seconds)
            reached = self.done_seconds + inside
            left = (
                f"about {span(self.total_seconds - reached)} left"
                if reached < self.total_seconds
                else "finishing"
            )
            self.update(self.bar, completed=reached, left=left)
        yield from super().get_renderables()

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        self.current, self.step_began = step, time.monotonic()
        self.update(self.bar, description=f"{self.ended + 1} of {self.count}: {step.name}")
        yield
        self.current = None
        self.ended += 1
        self.done_seconds += step.cold_seconds
        self.update(self.bar, completed=self.done_seconds)
