"""A profile as YAML that people go on editing: each rule with what it was, each remark as a comment at the top."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import yaml

from alnair.scheduling.importing.assembly import Imported, Taken, one_line

WIDTH: Final = 46  # column at which comments start, where they can


def written(profiles: Sequence[Imported]) -> str:
    """A whole config file. parse_config takes it."""
    lines = [f"# From {one_line(profiles[0].origin)}, by alnair profile import."]
    lost = [remark for profile in profiles for remark in profile.remarks if remark.lost]
    others = [remark for profile in profiles for remark in profile.remarks if not remark.lost]
    if lost:
        lines += ["#", "# Not taken over:", *(f"#   {remark}" for remark in lost)]
    if others:
        lines += ["#", "# To be known:", *(f"#   {remark}" for remark in others)]
    lines.append("profiles:")
    for profile in profiles:
        lines += _profile(profile)
    return "\n".join(lines) + "\n"


def _profile(profile: Imported) -> list[str]:
    lines = [f"  - schedulerName: {_scalar(profile.scheduler_name)}"]
    filters = [*_filters(profile)]
    if filters:
        lines += ["    filters:", *filters]
    lines.append("    scorers:")
    lines += [_line(f"      - {_flow(taken, weighted=True)}", taken.origins) for taken in profile.scorers]
    lines.append(_line(f"    picker: {_flow(profile.picker)}", profile.picker.origins))
    return lines


def _filters(profile: Imported) -> list[str]:
    lines: list[str] = []
    if profile.only is not None:
        lines.append("      only:" if profile.only else "      only: []")
        return lines + [_line(f"        - {_flow(taken)}", taken.origins) for taken in profile.only]
    lines += [f"      # {one_line(old)}: {', '.join(ours)}" for old, ours in profile.named.items()]
    for field, taken in (("enable", profile.enable), ("disable", profile.disable)):
        if taken:
            lines.append(f"      {field}:")
            note = "no {}" if field == "disable" else "{}"
            lines += [
                _line(f"        - {_flow(each)}", [note.format(old) for old in each.origins])
                for each in taken
            ]
    return lines if profile.enable or profile.disable else []


def _flow(taken: Taken, *, weighted: bool = False) -> str:
    """A rule on one line: JSON is YAML, and JSON's strings cannot end a line."""
    entry: dict[str, Any] = {"name": taken.name}
    if weighted:
        entry["weight"] = taken.weight
    if taken.options:
        entry["options"] = dict(taken.options)
    if len(entry) == 1:
        return _scalar(taken.name)
    parts = [
        f"{key}: {_scalar(value) if key == 'name' else json.dumps(value)}" for key, value in entry.items()
    ]
    return "{" + ", ".join(parts) + "}"


def _scalar(text: str) -> str:
    """Bare where YAML reads it as that text, else quoted."""
    return text if yaml.safe_load(text) == text else json.dumps(text)


def _line(text: str, origins: Sequence[str]) -> str:
    return f"{text.ljust(WIDTH)}  # {one_line(', '.join(origins))}"
