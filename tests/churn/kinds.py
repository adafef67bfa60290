"""Every kind of GPU request that the churn draws: one entry of KINDS each, and nothing else to change for a new one.

A kind writes its request on a pod in one of the dialects, and says in the churn's own words what must come of it.
"""

from __future__ import annotations

from alnair.api import names
from churn import choices, staged
from churn.drawn import LARGEST_GIB, MAIN, MODELS, Drawn, Kind, Scene
from conformance.drawing.dice import Dice
from harness.builders import PodBuilder
from witness.requests import Ask, Asked


def _whole(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    cards = dice.weighted([(1, 5.0), (2, 3.0), (4, 1.0), (8, 0.3)])
    return pod.asking(gpu=cards), Asked((Ask(MAIN, cards, whole=True),))


def _whole_of_model(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    models = tuple(kind.model for kind in dice.some(MODELS, 1, 3))
    cards = dice.number(1, 2)
    return pod.asking(gpu=cards).of_model(*models), Asked((Ask(MAIN, cards, whole=True),), models=models)


def _gib(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size = dice.number(1, 20)
    return pod.slice(memory_gib=size), Asked((Ask(MAIN, memory_mib=1024 * size),))


def _gib_and_compute(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size, compute = dice.number(1, 16), dice.number(1, 100)
    return (
        pod.slice(memory_gib=size, compute=compute),
        Asked((Ask(MAIN, memory_mib=1024 * size, compute=compute),)),
    )


def _tiny(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    """So small that slots run out before memory does."""
    size = dice.number(1, 300)
    return pod.slice_by_annotation(f"{size}Mi"), Asked((Ask(MAIN, memory_mib=size),))


def _by_annotation(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size, compute, cards = dice.number(500, 16_000), dice.number(0, 60), dice.number(1, 3)
    return (
        pod.slice_by_annotation(f"{size}Mi", compute=compute, count=cards),
        Asked((Ask(MAIN, cards, memory_mib=size, compute=compute),)),
    )


def _of_model(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    models = tuple(kind.model for kind in dice.some(MODELS, 1, 2))
    size = dice.number(1, 12)
    return (
        pod.slice_by_annotation(f"{size}Gi").of_model(*models),
        Asked((Ask(MAIN, memory_mib=1024 * size),), models=models),
    )


def _hami(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size, cards = dice.number(256, 14_000), dice.number(1, 2)
    return (
        pod.asking(gpu=cards, resources={names.NVIDIA_GPUMEM: str(size)}),
        Asked((Ask(MAIN, cards, memory_mib=size),)),
    )


def _hami_cores(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size, cores = dice.number(256, 14_000), dice.number(1, 100)
    return (
        pod.asking(resources={names.NVIDIA_GPUMEM: str(size), names.NVIDIA_GPUCORES: str(cores)}),
        Asked((Ask(MAIN, memory_mib=size, compute=cores),)),
    )


def _hami_percentage(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    """Of whichever card it lands on. Compute alone has all of the card's memory, and shares it nevertheless."""
    cards, part, cores = dice.number(1, 2), dice.number(1, 100), dice.number(1, 40)
    asked = (
        {names.NVIDIA_GPUMEM_PERCENTAGE: str(part)}
        if dice.chance(0.8)
        else {names.NVIDIA_GPUCORES: str(cores)}
    )
    return (
        pod.asking(gpu=cards, resources=asked),
        Asked((Ask(MAIN, cards, percent=part),))
        if names.NVIDIA_GPUMEM_PERCENTAGE in asked
        else Asked((Ask(MAIN, cards, percent=100, compute=cores),)),
    )


def _whole_by_annotation(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    cards = dice.number(1, 2)
    return pod.annotated({names.GPU_COUNT: str(cards)}), Asked((Ask(MAIN, cards, whole=True),))


def _two_containers(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    first, second, compute = dice.number(1, 12), dice.number(1, 12), dice.number(0, 50)
    made = pod.slice(memory_gib=first).with_container("second").slice(memory_gib=second, compute=compute)
    asks = (Ask(MAIN, memory_mib=1024 * first), Ask("second", memory_mib=1024 * second, compute=compute))
    return made.with_container("log").asking(cpu="10m"), Asked(asks)


def _whole_and_slice(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    size = dice.number(1, 8)
    made = pod.asking(gpu=1).with_container("second").slice(memory_gib=size)
    return made, Asked((Ask(MAIN, whole=True), Ask("second", memory_mib=1024 * size)))


def _two_whole(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    made = pod.asking(gpu=1).with_container("second").asking(gpu=1)
    return made, Asked((Ask(MAIN, whole=True), Ask("second", whole=True)))


def _no_gpu(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    return pod.asking(cpu="100m"), Asked()


def _too_large(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    return pod.slice(memory_gib=LARGEST_GIB + dice.number(1, 100)), None


def _too_many(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    return pod.asking(gpu=dice.number(9, 16)), None


def _contradiction(dice: Dice, pod: PodBuilder, scene: Scene) -> Drawn:
    return dice.pick(
        [
            pod.asking(gpu=1, resources={names.VGPU_MEMORY: "4"}),
            pod.slice(memory_gib=4, compute=150),
            pod.slice_by_annotation("4000"),
            pod.slice_by_annotation("4Gi").asking(gpu=1),
            pod.slice_by_annotation("4Gi").of_model("NVIDIA-Nothing"),
            pod.asking(resources={names.VGPU_COMPUTE: "20"}),
            pod.slice_by_annotation("4Gi", count=2).annotated({names.GPU_UUID: "GPU-of-nobody"}),
            pod.slice(memory_gib=1).of_model("A").annotated({names.GPU_MODEL_NOT: "A"}),
            pod.asking(gpu=1).annotated({names.GPU_SHARING: names.SHARED}),
        ]
    ), None


KINDS = (
    Kind("whole", 12, _whole),
    Kind("whole-of-model", 5, _whole_of_model),
    Kind("gib", 10, _gib),
    Kind("gib-compute", 12, _gib_and_compute),
    Kind("tiny", 12, _tiny),
    Kind("annotation", 10, _by_annotation),
    Kind("annotation-model", 6, _of_model),
    Kind("hami", 6, _hami),
    Kind("hami-cores", 6, _hami_cores),
    Kind("hami-percentage", 6, _hami_percentage),
    Kind("whole-by-annotation", 3, _whole_by_annotation),
    *choices.KINDS,
    *staged.KINDS,
    Kind("two-containers", 6, _two_containers),
    Kind("whole-and-slice", 4, _whole_and_slice),
    Kind("two-whole", 3, _two_whole),
    Kind("no-gpu", 3, _no_gpu),
    Kind("too-large", 1, _too_large),
    Kind("too-many", 1, _too_many),
    Kind("contradiction", 2, _contradiction),
)
