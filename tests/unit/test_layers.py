"""The rooms depend one way, every file says what it is for, and none outgrows a few screens."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "operator").rglob("*.py"))
MOST_LINES = 600


def test_rooms_depend_one_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    outcome = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert outcome == 0, capsys.readouterr().out


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 50


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_starts_with_what_it_is_for_and_fits_a_few_screens(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "say in a docstring what this file is for"
    assert text.count("\n") <= MOST_LINES, "one subject a file: divide it"
