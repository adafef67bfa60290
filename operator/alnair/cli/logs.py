"""One line in the log is one happening, whoever's words are in it.

Names, annotations, messages of webhooks: much of what is logged was written by tenants. What must never happen: that a
line end in it makes a line that looks like one of ours. Tracebacks keep their lines, each of them indented.
"""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import TypeAlias

from alnair.api.text import one_line

LONGEST = 8192
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in the library
        record.message = one_line(record.message, most=LONGEST)
        return super().formatMessage(record)

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {one_line(line)}" for line in text.splitlines())


def set_up(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
