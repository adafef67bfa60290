"""One pod spec laid over another, as `kubectl patch` would: what a job's author adds to the pods that we make."""

from __future__ import annotations

from typing import Any, Final

# Lists whose items are told apart by a field; any other list is replaced whole.
KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
}
DEEP: Final = frozenset({"containers", "initContainers"})  # of one name they are merged; others are replaced


def overlaid(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Neither is changed. Something that is no pod spec ends up in the result, for the apiserver to refuse."""
    merged = dict(below)
    for field, value in above.items():
        there = merged.get(field)
        if isinstance(there, dict) and isinstance(value, dict):
            merged[field] = overlaid(there, value)
        elif isinstance(there, list) and field in KEYS and _told_apart(value, KEYS[field]):
            merged[field] = _by_key(there, value, KEYS[field], deep=field in DEEP)
        else:
            merged[field] = value
    return merged


def _told_apart(items: Any, key: str) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) and key in item for item in items)


def _by_key(
    below: list[dict[str, Any]], above: list[dict[str, Any]], key: str, *, deep: bool
) -> list[dict[str, Any]]:
    merged = {item[key]: item for item in below}
    for item in above:
        there = merged.get(item[key])
        merged[item[key]] = overlaid(there, item) if deep and there is not None else item
    return list(merged.values())
