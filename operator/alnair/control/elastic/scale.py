"""The scale subresource of whatever an elastic gang's members are replicas of.

The number is written with the version that was read: whoever else changed the target since is seen, not overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from alnair.api.podgroup import TargetRef
from alnair.kube import Client, Refused

_EQUALITY = re.compile(r"[^=!,() ]+={1,2}[^=!,() ]*")  # of a selector: key=value


class NoTarget(Exception):
    """It cannot be scaled; the text says why, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """`selector`: what its replicas are known by, as text; empty if it does not say."""

    replicas: int
    version: str
    path: str
    selector: str = ""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is one of its replicas, as far as equalities tell."""
        pairs = (part.partition("=") for part in self.selector.split(",") if _EQUALITY.fullmatch(part))
        return all(labels.get(key) == value.removeprefix("=") for key, _, value in pairs)


class Scaler:
    """Raises NoTarget, or Unanswered where the apiserver does not answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._plurals: dict[tuple[str, str], str] = {}  # of (API version, kind)

    async def read(
        self, namespace: str, target: TargetRef, pods: Iterable[tuple[str, Mapping[str, str]]]
    ) -> Scale:
        """`pods`: the group's, by name, with their labels. A target that they are not replicas of is not touched:
        whoever may write PodGroups must not thereby scale what else there is in the namespace."""
        path = await self._path(namespace, target)
        try:
            scale = _scale(path, await self._client.get(path))
        except Refused as refused:
            if refused.status == 404:
                self._plurals.pop(
                    (target.api_version, target.kind), None
                )  # the kind may be served otherwise now
            raise NoTarget(_told(target, refused)) from refused
        if other := next((name for name, labels in pods if not scale.selects(labels)), None):
            raise NoTarget(
                f"spec.elastic.targetRef: pod {other} is no replica of {target.kind} {target.name}, which selects "
                f"{scale.selector}"
            )
        return scale

    async def write(self, target: TargetRef, scale: Scale, replicas: int) -> Scale | None:
        """None: somebody was faster, and it has to be read again."""
        body = {"metadata": {"resourceVersion": scale.version}, "spec": {"replicas": replicas}}
        try:
            return _scale(scale.path, await self._client.patch(scale.path, body))
        except Refused as refused:
            if refused.status == 409:
                return None
            raise NoTarget(_told(target, refused)) from refused

    async def _path(self, namespace: str, target: TargetRef) -> str:
        version = target.api_version
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = self._plurals.get((version, target.kind))
        if plural is None:
            plural = await self._plural(root, target)
            self._plurals[version, target.kind] = plural
        return f"{root}/namespaces/{namespace}/{plural}/{target.name}/scale"

    async def _plural(self, root: str, target: TargetRef) -> str:
        try:
            served = await self._client.get(root)
        except Refused as refused:
            raise NoTarget(
                f"spec.elastic.targetRef.apiVersion: {target.api_version} is not served by this cluster"
            ) from refused
        resources = [each for each in served.get("resources") or [] if isinstance(each, Mapping)]
        plural = next(
            (
                str(each["name"])
                for each in resources
                if each.get("kind") == target.kind and "/" not in str(each.get("name"))
            ),
            None,
        )
        if plural is None:
            raise NoTarget(f"spec.elastic.targetRef.kind: {target.api_version} has no kind {target.kind}")
        if not any(each.get("name") == f"{plural}/scale" for each in resources):
            raise NoTarget(f"spec.elastic.targetRef.kind: {target.kind} has no scale subresource")
        return plural


def _scale(path: str, answer: Mapping[str, Any]) -> Scale:
    try:
        replicas = (answer.get("spec") or {}).get("replicas") or 0
        version, status = answer["metadata"]["resourceVersion"], answer.get("status") or {}
        if type(replicas) is int and 0 <= replicas < 1 << 31:
            return Scale(replicas, version, path, str(status.get("selector") or ""))
    except (KeyError, TypeError, AttributeError):
        pass
    raise NoTarget(f"spec.elastic.targetRef: the answer of {path} is no Scale")


def _told(target: TargetRef, refused: Refused) -> str:
    what = f"{target.kind} {target.name}"
    if refused.status == 404:
        return f"spec.elastic.targetRef: {what} does not exist"
    if refused.status == 403:
        return f"Alnair may not scale {what}: list its kind in the chart's value elastic.targets ({refused})"
    return f"{what} cannot be scaled: {refused}"
