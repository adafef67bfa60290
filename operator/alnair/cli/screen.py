"""What a command that shows things prints: rules and bold lines in a terminal, plain lines elsewhere.

Output of other programs is printed as it came: never wrapped, coloured or read as markup.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.rule import Rule


class Screen:
    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Something smaller about the line above."""
        self.say(f"   {text}", style="dim")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A line when it begins, and how long it took when it ended well."""
        self.say(f"-> {title}", style="bold")
        began = time.monotonic()
        yield
        self.note(f"done in {time.monotonic() - began:.1f} s")

    def rule(self, title: str) -> None:
        if self.console.is_terminal:
            self.console.print(Rule(title, align="left"))
        else:
            self.say(f"== {title}")

    def command(self, command: list[str], output: str) -> None:
        """A command as the user would type it, and what it printed."""
        self.say("")
        self.rule(f"$ {shlex.join(command)}")
        self.say(output.rstrip())
