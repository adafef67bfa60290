"""What a pod takes from its node, built in every way in which Kubernetes lets it be said.

`shape_request` is given what the whole pod shall take, and spreads it over containers, init containers, sidecars, the
overhead of a runtime class or the pod's own resources, so that the sum comes out as asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.drawing.dice import Dice
from conformance.drawing.quantities import written
from conformance.drawing.words import FPGA, GPU, OVERHEAD, PAGE, PAGES, Manifest
from conformance.drawing.world import Place, World

STEP = {PAGES: PAGE}
"""The smallest amount of a resource that can be asked for, where it is not 1."""

POD_LEVEL = ("cpu", "memory", PAGES)
WAYS = (
    ("plain", 0.25),
    ("init", 0.15),
    ("sidecar", 0.14),
    ("init after sidecar", 0.1),
    ("init before sidecar", 0.06),
    ("overhead", 0.2),
    ("pod level", 0.17),
)


EXISTING_WAYS = (*WAYS, ("overhead", 0.25), ("pod level", 0.1))

Ways = Sequence[tuple[str, float]]


def shape_request(dice: Dice, spec: Manifest, wanted: Mapping[str, int], ways: Ways = WAYS) -> None:
    """Makes the pod take exactly so much, as its way of counting goes."""
    rest = {name: amount for name, amount in wanted.items() if amount > 0 and name != GPU}
    way = dice.weighted(ways)
    if way == "overhead":
        way = "plain"
        fitting = [
            name
            for name, extra in OVERHEAD.items()
            if name != "picky" and all(rest.get(each, 0) >= amount for each, amount in extra.items())
        ]
        if fitting:
            runtime = dice.pick(fitting)
            spec["runtimeClassName"] = runtime
            rest = {name: amount - OVERHEAD[runtime].get(name, 0) for name, amount in rest.items()}
            way = dice.pick(("plain", "init", "pod level"))
    _WAYS[way](dice, spec, rest)
    if wanted.get(GPU, 0) > 0:
        ask_cards(dice, spec, wanted[GPU])


def ask_cards(dice: Dice, spec: Manifest, amount: int) -> None:
    """Whole cards. Init containers may ask for what the containers have anyway; for more we say that we cannot."""
    _plain(dice, spec, {GPU: amount})
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") != "Always" and dice.chance(0.3):
            _ask(dice, container, GPU, dice.number(1, amount))


def _plain(dice: Dice, spec: Manifest, rest: dict[str, int]) -> None:
    containers = spec["containers"]
    while len(containers) < 3 and dice.chance(0.35):
        containers.append({"name": f"c{len(containers)}", "image": "pause"})
    for name, amount in rest.items():
        step = STEP.get(name, 1)
        for container, share in zip(containers, dice.shares(amount // step, len(containers)), strict=True):
            _ask(dice, container, name, share * step)


def _init(dice: Dice, spec: Manifest, rest: dict[str, int]) -> None:
    """The largest moment counts: one init container takes it all, the containers take less."""
    _plain(dice, spec, {name: _part(dice, name, amount) for name, amount in rest.items()})
    inits = [_container(f"i{number}") for number in range(dice.number(1, 2))]
    big = dice.pick(inits)
    for name, amount in rest.items():
        for container in inits:
            _ask(dice, container, name, amount if container is big else _part(dice, name, amount))
    spec["initContainers"] = inits


def _sidecar(dice: Dice, spec: Manifest, rest: dict[str, int]) -> None:
    """Containers and sidecars add up."""
    sidecar = {**_container("side"), "restartPolicy": "Always"}
    for name, amount in rest.items():
        share = _part(dice, name, amount)
        _ask(dice, sidecar, name, share)
        rest[name] = amount - share
    spec["initContainers"] = [sidecar]
    _plain(dice, spec, rest)


def _init_after_sidecar(dice: Dice, spec: Manifest, rest: dict[str, int]) -> None:
    """An init container runs beside the sidecars that came before it."""
    sidecar, init = {**_container("side"), "restartPolicy": "Always"}, _container("then")
    for name, amount in rest.items():
        share = _part(dice, name, amount)
        _ask(dice, sidecar, name, share)
        _ask(dice, init, name, amount - share)
        rest[name] = _part(dice, name, amount - share)
    spec["initContainers"] = [sidecar, init]
    _plain(dice, spec, rest)


def _init_before_sidecar(dice: Dice, spec: Manifest, rest: dict[str, int]) -> None:
    """It is done before the sidecar starts, so it is counted alone."""
    init, sidecar = _container("first"), {**_container("side"), "restartPolicy": "Always"}
    for name, amount in rest.items():
        _ask(dice, init, name, amount)
        share = _part(dice, name, amount)
        _ask(dice, sidecar, name, share)
        rest[name] = _part(dice, name, amount - share)
    spec["initContainers"] = [init, sidecar]
    _plain(dice, spec, rest)


def _pod_level(dice: Dice, spec: Manifest, rest: dict[str, int]) -> None:
    whole = {name: amount for name, amount in rest.items() if name in POD_LEVEL and amount}
    # At least as much as the containers have together, says the apiserver.
    inside = {name: _part(dice, name, amount) if name in whole else amount for name, amount in rest.items()}
    _plain(dice, spec, inside)
    if not whole:
        return
    asked = {name: written(name, amount, dice) for name, amount in whole.items()}
    if PAGES in asked:
        asked.setdefault("cpu", "50m")
        spec["resources"] = {"requests": asked, "limits": {PAGES: asked[PAGES]}}
    elif dice.chance(0.25):
        spec["resources"] = {"limits": asked}
    else:
        spec["resources"] = {"requests": asked}


_WAYS = {
    "plain": _plain,
    "init": _init,
    "sidecar": _sidecar,
    "init after sidecar": _init_after_sidecar,
    "init before sidecar": _init_before_sidecar,
    "pod level": _pod_level,
}


def _container(name: str) -> Manifest:
    return {"name": name, "image": "pause"}


def _part(dice: Dice, name: str, amount: int) -> int:
    step = STEP.get(name, 1)
    return dice.number(0, amount // step) * step


def _ask(dice: Dice, container: Manifest, name: str, amount: int) -> None:
    if not amount:
        return
    resources = container.setdefault("resources", {})
    quantity = written(name, amount, dice)
    strict = name in (FPGA, GPU, PAGES)  # these cannot be promised twice: the limit is the request
    if strict or dice.chance(0.1):
        resources.setdefault("limits", {})[name] = quantity
    if not strict or dice.chance(0.5):
        resources.setdefault("requests", {})[name] = quantity
    if name == PAGES:
        # Huge pages need some ordinary memory or cpu beside them; next to nothing is enough.
        resources.setdefault("requests", {}).setdefault("cpu", "1m")


def take_some(world: World, spec: Manifest, place: Place) -> None:
    """An existing pod on that node: some of what is left there, and the books of the drawer say so."""
    dice = world.dice
    names = [name for name in place.left if name != "pods" and place.left[name] > 0]
    wanted = {name: amount_below(dice, name, place.left[name]) for name in dice.some(names, 0, 3)}
    if dice.chance(0.02):
        wanted["cpu"] = place.left["cpu"] + 500  # somebody bound more than there is
    shape_request(dice, spec, wanted, EXISTING_WAYS)
    place.left.subtract(wanted)


def amount_below(dice: Dice, name: str, most: int) -> int:
    step = STEP.get(name, 1)
    return max(dice.pick((most // 4, most // 2, most, dice.number(0, most))), step) // step * step


def at_the_edge(world: World, spec: Manifest) -> None:
    """A pod under test that fits some node exactly, or misses it by the smallest unit."""
    dice = world.dice
    promised = [place for place in world.places if place.promised]
    place = dice.pick(promised if promised and dice.chance(0.3) else world.places)
    names = [name for name in place.left if name != "pods"]
    if place.promised and dice.chance(0.7):
        names = list(place.promised)
    wanted: dict[str, int] = {}
    for name in dice.some(names, 1, 2):
        left = place.left[name] - (place.promised[name] if dice.chance(0.7) else 0)
        step = STEP.get(name, 1)
        wanted[name] = max(left + step * dice.pick((-1, 0, 0, 1, 1)), step)
    shape_request(dice, spec, wanted)
