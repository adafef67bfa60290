"""Host ports: few of them, so that they collide; on containers, sidecars and init containers."""

from __future__ import annotations

from conformance.drawing.dice import Dice
from conformance.drawing.words import Manifest

ADDRESSES = ("", "", "0.0.0.0", "10.0.0.1", "10.0.0.1", "10.0.0.2", "::")


def host_ports(dice: Dice, pod: Manifest) -> None:
    spec = pod["spec"]
    used: set[tuple[int, str]] = set()
    for _ in range(dice.weighted(((1, 0.75), (2, 0.25)))):
        port = _port(dice)
        if (port["hostPort"], port.get("protocol", "TCP")) in used:
            continue  # the apiserver refuses a pod that collides with itself
        used.add((port["hostPort"], port.get("protocol", "TCP")))
        where = dice.weighted((("container", 0.75), ("sidecar", 0.15), ("init", 0.1)))
        _bearer(spec, where).setdefault("ports", []).append(port)
    if dice.chance(0.08) and not any(
        port.get("hostIP") for each in _all(spec) for port in each.get("ports", ())
    ):
        # On the host's network every port of a container is the host's, said or not.
        spec["hostNetwork"] = True
        for container in _all(spec):
            for port in container.get("ports", ()):
                port["containerPort"] = port.pop("hostPort")


def has_ports(pod: Manifest) -> bool:
    return any("ports" in each for each in _all(pod["spec"]))


def drop_ports(pod: Manifest) -> None:
    for container in _all(pod["spec"]):
        container.pop("ports", None)


def _port(dice: Dice) -> Manifest:
    port: Manifest = {"containerPort": 80, "hostPort": dice.pick((8080, 8080, 9090))}
    protocol = dice.pick(("", "TCP", "TCP", "UDP", "SCTP"))
    address = dice.pick(ADDRESSES)
    if protocol:
        port["protocol"] = protocol
    if address:
        port["hostIP"] = address
    return port


def _bearer(spec: Manifest, where: str) -> Manifest:
    if where == "container":
        first: Manifest = spec["containers"][0]
        return first
    bearer: Manifest = {"name": f"port-{where}", "image": "pause"}
    if where == "sidecar":
        bearer["restartPolicy"] = "Always"
    inits: list[Manifest] = spec.setdefault("initContainers", [])
    for each in inits:
        if each["name"] == bearer["name"]:
            return each
    inits.append(bearer)
    return bearer


def _all(spec: Manifest) -> list[Manifest]:
    return [*spec["containers"], *spec.get("initContainers", ())]
