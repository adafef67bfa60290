"""What etcd's history says of one run, a line a revision: printed when it fails."""

from __future__ import annotations

from typing import Final

from witness.words import GROUPS, PODS, RECORDS, Change, Object

KINDS: Final = (PODS, RECORDS, GROUPS)


class Trail:
    """Kept by namespace, for those that are asked to be kept."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def keep(self, namespace: str) -> None:
        self._lines[namespace] = []

    def see(self, change: Change) -> None:
        if change.kind in KINDS and (lines := self._lines.get(change.key.partition("/")[0])) is not None:
            lines.append(f"revision {change.revision}: {change.kind} {change.key} {_said(change.object)}")

    def take(self, namespace: str) -> list[str]:
        return self._lines.pop(namespace, [])


def _said(manifest: Object | None) -> str:
    if manifest is None:
        return "is gone"
    meta, status = manifest["metadata"], manifest.get("status") or {}
    words = [meta["uid"][:8], str(status.get("phase") or "-")]
    if node := (manifest.get("spec") or {}).get("nodeName"):
        words.append(f"on {node}")
    if meta.get("deletionTimestamp"):
        words.append("terminating")
    if "pods" in status:
        words.append(f"epoch {status.get('epoch')}, pods {[each['uid'][:8] for each in status['pods']]}")
    fields = meta.get("managedFields") or []
    if fields:
        last = max(fields, key=lambda each: str(each.get("time") or ""))
        words.append(f"by {last.get('manager')}")
    return ", ".join(words)
