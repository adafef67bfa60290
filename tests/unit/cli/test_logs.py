"""The log: one line a happening, whoever's words are in it."""

from __future__ import annotations

import io
import logging

from alnair.cli.logs import FORMAT, LONGEST, OneLine


def logged(message: str, *arguments: object, fails: Exception | None = None) -> list[str]:
    paper = io.StringIO()
    handler = logging.StreamHandler(paper)
    handler.setFormatter(OneLine(FORMAT))
    log = logging.Logger("alnair.x")  # noqa: LOG001 - one that nobody else hears
    log.addHandler(handler)
    if fails is None:
        log.warning(message, *arguments)
    else:
        try:
            raise fails
        except Exception:
            log.exception(message, *arguments)
    return paper.getvalue().splitlines()


def test_a_name_with_a_line_end_writes_no_line_of_its_own() -> None:
    forged = "pod\n2026-01-01 00:00:00,000 INFO    alnair: all is well\r\x1b[2K\u2028\x85"
    (line,) = logged("pod %s is refused", forged)
    assert "pod\\n2026-01-01" in line
    assert "\\x1b[2K" in line
    assert line.isprintable()


def test_half_a_character_does_not_end_the_log() -> None:
    (line,) = logged("pod %s", "\ud800")
    assert line.endswith("pod \\ud800")


def test_a_novel_is_cut() -> None:
    (line,) = logged("%s", "x" * 262_144)
    assert len(line) < LONGEST + 100


def test_a_traceback_keeps_its_lines_and_none_of_them_looks_like_ours() -> None:
    first, *rest = logged(
        "it failed", fails=ValueError("a\n2026-01-01 00:00:00,000 INFO    alnair: all is well")
    )
    assert first.endswith("ERROR   alnair.x: it failed")
    assert len(rest) > 2
    assert all(line.startswith("    ") for line in rest)
