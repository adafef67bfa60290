"""The rooms depend one way, every file says what it is for, and none outgrows a few screens."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "operator").rglob("*.py"))
MOST_LINES = 600


def test_rooms_depend_one_way() -> None:
    """In a process of its own: import-linter disables every logger that there is."""
    program = Path(sys.executable).with_name("lint-imports")
    outcome = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 50


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_starts_with_what_it_is_for_and_fits_a_few_screens(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "say in a docstring what this file is for"
    assert text.count("\n") <= MOST_LINES, "one subject a file: divide it"
