"""What a container's environment will be, as its kubelet works it out: `env` with its field references resolved.

After the kubelet's own code (`makeEnvironmentVariables` and the package fieldpath): variables in order, later ones of
one name win, `$(NAME)` stands for an earlier one, and an annotation that is not there is an empty string.
"""

from __future__ import annotations

import re

from harness.api import Object

_SUBSCRIPTED = re.compile(r"^(metadata\.annotations|metadata\.labels)\['(.*)'\]$")
_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


def environment(pod: Object, container: str) -> dict[str, str]:
    """Variable -> value in that container, ordinary or init."""
    spec = pod["spec"]
    (found,) = (c for c in spec["containers"] + spec.get("initContainers", []) if c["name"] == container)
    values: dict[str, str] = {}
    for variable in found.get("env", []):
        source = variable.get("valueFrom")
        if source is None:
            values[variable["name"]] = _expanded(variable.get("value", ""), values)
        else:
            values[variable["name"]] = field(pod, source["fieldRef"]["fieldPath"])
    return values


def field(pod: Object, path: str) -> str:
    """One field path, as the kubelet reads it from the pod."""
    if subscripted := _SUBSCRIPTED.match(path):
        place, key = subscripted.groups()
        return str(pod["metadata"].get(place.removeprefix("metadata."), {}).get(key, ""))
    plain = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
    }
    return str(plain[path])


def _expanded(text: str, values: dict[str, str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return values.get(match[2], match[0])

    return _REFERENCE.sub(one, text)
