"""Kinds of request with GPUs in init containers and sidecars: a pod takes the most of its moments, not the sum."""

from __future__ import annotations

from alnair.api import names
from churn.drawn import MAIN, Drawn, Kind, Scene
from conformance.drawing.dice import Dice
from harness.builders import IMAGE, PodBuilder
from witness.requests import Ask, Asked
from witness.uses import INIT, SIDECAR


def _before(pod: PodBuilder, name: str, resources: dict[str, str], *, sidecar: bool = False) -> PodBuilder:
    """One more init container; they start in the order in which they are added."""
    container = {"name": name, "image": IMAGE, "resources": {"requests": resources, "limits": resources}}
    if sidecar:
        container["restartPolicy"] = "Always"
    return pod.with_(lambda it: it["spec"].setdefault("initContainers", []).append(container))


def _gib(size: int) -> dict[str, str]:
    return {names.VGPU_MEMORY: str(size)}


def _init(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    first, later = dice.number(1, 14), dice.number(1, 14)
    made = _before(pod, "prepare", _gib(first)).slice(memory_gib=later)
    return made, Asked(
        (Ask("prepare", memory_mib=1024 * first, stage=INIT), Ask(MAIN, memory_mib=1024 * later))
    )


def _only_init(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size = dice.number(1, 14)
    return _before(pod, "prepare", _gib(size)), Asked((Ask("prepare", memory_mib=1024 * size, stage=INIT),))


def _whole_init(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    cards, size = dice.number(1, 2), dice.number(1, 8)
    made = _before(pod, "prepare", {names.NVIDIA_GPU: str(cards)}).slice(memory_gib=size)
    return made, Asked((Ask("prepare", cards, whole=True, stage=INIT), Ask(MAIN, memory_mib=1024 * size)))


def _whole_init_and_main(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    """A device plugin may give it: by number, the most of its moments."""
    first, later = dice.number(1, 2), dice.number(1, 2)
    made = _before(pod, "prepare", {names.NVIDIA_GPU: str(first)}).asking(gpu=later)
    return made, Asked((Ask("prepare", first, whole=True, stage=INIT), Ask(MAIN, later, whole=True)))


def _sidecar(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    side, first, later = dice.number(1, 6), dice.number(1, 12), dice.number(1, 10)
    made = _before(pod, "watch", _gib(side), sidecar=True)
    made = _before(made, "prepare", _gib(first)).slice(memory_gib=later)
    asks = (
        Ask("watch", memory_mib=1024 * side, stage=SIDECAR),
        Ask("prepare", memory_mib=1024 * first, stage=INIT),
        Ask(MAIN, memory_mib=1024 * later),
    )
    return made, Asked(asks)


KINDS = (
    Kind("init", 5, _init),
    Kind("only-init", 2, _only_init),
    Kind("whole-init", 2, _whole_init),
    Kind("whole-init-and-main", 2, _whole_init_and_main),
    Kind("sidecar", 4, _sidecar),
)
