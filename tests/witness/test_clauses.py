"""The checker's own tests leave no clause out: three ways to break each, and one that only nearly does."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest

from witness.clauses import CLAUSES

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "chaos.md"
WAYS_TO_BREAK = 3


def histories(mark: str) -> Counter[str]:
    """Clause -> histories with that mark, in all test modules beside this one; each case of a table is one."""
    found: Counter[str] = Counter()
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"witness.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                found += _of(getattr(test, "pytestmark", []), mark)
    return found


def _of(marks: list[pytest.Mark], wanted: str) -> Counter[str]:
    tables = [each.args[1] for each in marks if each.name == "parametrize"]
    cases = prod(len(table) for table in tables)
    found: Counter[str] = Counter()
    for mark in marks:
        if mark.name == wanted:
            found[mark.args[0]] += cases
    for table in tables:
        for case in table:
            for mark in _marks_of(case):
                if mark.name == wanted:
                    found[mark.args[0]] += cases // len(table)
    return found


def _marks_of(case: Any) -> list[pytest.Mark]:
    """Those of a `pytest.param`."""
    return [getattr(each, "mark", each) for each in getattr(case, "marks", ())]


def test_every_mark_names_a_clause() -> None:
    assert (histories("breaks") | histories("spares")).keys() <= CLAUSES.keys()


def test_every_clause_is_broken_in_three_ways_and_spared_in_one() -> None:
    broken, spared = histories("breaks"), histories("spares")
    assert {clause: broken[clause] for clause in CLAUSES if broken[clause] < WAYS_TO_BREAK} == {}
    assert [clause for clause in CLAUSES if not spared[clause]] == []


def test_the_table_in_the_docs_says_how_many_there_are() -> None:
    broken, spared = histories("breaks"), histories("spares")
    rows = [f"| {clause} | {broken[clause]} | {spared[clause]} |" for clause in CLAUSES]
    told = re.findall(r"^\| [1-6]: .* \|$", TABLE.read_text(), re.MULTILINE)
    assert told == rows, "the table should be\n" + "\n".join(rows)
