"""Kinds of request that are choosy: by model, by card, and with whom a card is shared."""

from __future__ import annotations

from alnair.api import names
from churn.drawn import MAIN, MODELS, Drawn, Kind, Scene
from conformance.drawing.dice import Dice
from harness.builders import PodBuilder
from witness.requests import Ask, Asked


def _not_of_model(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    models = tuple(kind.model for kind in dice.some(MODELS, 1, 3))
    size = dice.number(1, 12)
    made = pod.slice(memory_gib=size).annotated({names.GPU_MODEL_NOT: ",".join(models)})
    return made, Asked((Ask(MAIN, memory_mib=1024 * size),), not_models=models)


def _hami_type(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    """Parts of models' names, whatever their case."""
    part = dice.pick(("a100", "TESLA", "nvidia-a10", "l4"))
    size = dice.number(256, 12_000)
    models = tuple(dict.fromkeys(kind.model for kind in MODELS if part.lower() in kind.model.lower()))
    others = tuple(dict.fromkeys(kind.model for kind in MODELS if kind.model not in models))
    wanted = dice.chance(0.5)
    made = pod.asking(gpu=1, resources={names.NVIDIA_GPUMEM: str(size)})
    made = made.annotated({names.HAMI_USE_TYPE if wanted else names.HAMI_NO_USE_TYPE: part})
    return made, Asked((Ask(MAIN, memory_mib=size),), models=models if wanted else others)


def _certain_cards(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    cards = tuple(dice.some(scene.cards, 3, 12))
    size = dice.number(1, 8)
    made = pod.slice(memory_gib=size).annotated({names.GPU_UUID: ",".join(cards)})
    return made, Asked((Ask(MAIN, memory_mib=1024 * size),), cards=cards)


def _not_certain_cards(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    cards = tuple(dice.some(scene.cards, 3, 12))
    made = pod.slice_by_annotation("3Gi").annotated({names.GPU_UUID_NOT: ",".join(cards)})
    return made, Asked((Ask(MAIN, memory_mib=3 * 1024),), not_cards=cards)


def _exclusive(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size, cards = dice.number(1, 40), dice.number(1, 2)
    made = pod.slice_by_annotation(f"{size}Gi", count=cards).annotated({names.GPU_SHARING: names.EXCLUSIVE})
    return made, Asked((Ask(MAIN, cards, memory_mib=1024 * size, whole=True),))


KINDS = (
    Kind("model-not", 4, _not_of_model),
    Kind("hami-type", 3, _hami_type),
    Kind("certain-cards", 5, _certain_cards),
    Kind("not-certain-cards", 2, _not_certain_cards),
    Kind("exclusive", 4, _exclusive),
)
