"""Small random clusters, each with a random gang before it, as manifests: every placement rule in mixture."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from alnair.sandbox.fleet import card_uuid
from harness.builders import Manifest, NodeBuilder, PodBuilder, line, node, pod, term
from unit.scheduling import oracle
from unit.scheduling.oracle import Card, Standing, World

APPS = ("red", "blue", "green")
HOST, ZONE = "kubernetes.io/hostname", "zone"
GPUS = ("none", "none", "none", "whole", "slice", "slice", "several", "hami", "two", "beside")
T4, A10 = ("T4", 16384), ("A10", 24576)


@dataclass(frozen=True)
class Case:
    """`sentences`: the nodes as our books get them; `world`: the same, as the oracle sees it."""

    sentences: Sequence[NodeBuilder]
    world: World
    gang: Sequence[PodBuilder]
    needed: int


def draw(dice: random.Random) -> Case:
    """Most are cut to measure: the nodes hold just what some placement needs, so that only few others are possible."""
    tight = dice.random() < 0.65
    gang = _gang(dice)
    names = [f"n{number}" for number in range(dice.choice((2, 3, 4, 4, 5, 5)))]
    sentences = [_node(dice, each) if tight else _with_cards(dice, _node(dice, each)) for each in names]
    world = _world(sentences, {each.name for each in sentences if dice.random() < 0.03})
    crowd = {each.body["metadata"]["labels"]["app"] for each in gang} if dice.random() < 0.3 else APPS
    for number in range(dice.choice((0, 2, 3, 4, 4))):
        _move_in(dice, f"tenant-{number}", dice.choice(sorted(crowd)), world, quietly=tight)
    if tight:
        home = _home(dice, gang, world)
        sentences = [
            _cut(dice, each, [pod for pod, where in zip(gang, home, strict=True) if where == each.name])
            for each in sentences
        ]
        running = world.running
        world = _world(sentences, world.unready)
        world.running.extend(running)
    needed = len(gang) if dice.random() < 0.75 else dice.randint(1, len(gang))
    return Case(sentences, world, gang, needed)


def draw_alike(dice: random.Random) -> Case:
    """More nodes than members, many of them alike but for their domains: the search leaves most of them out."""
    kinds = [pod(f"k{number}").in_namespace("team").labelled(app=APPS[number]) for number in range(2)]
    kinds = [_with_gpu(dice, each, dice.choice(("none", "whole", "slice"))) for each in kinds]
    kinds = [each.asking(cpu=dice.choice(("0", "2", "4"))) for each in kinds]
    gang = []
    for number in range(dice.choice((2, 3, 3))):
        kind = number % 2 if number < 2 else dice.randrange(2)
        gang.append(kinds[kind].named(f"k{kind}-{number}"))
    for rule in (_near, _apart, _spread):
        changed = {f"k{dice.randrange(2)}"} if dice.random() < 0.7 else set()
        more = dice.getstate()
        for position, each in enumerate(gang):
            if each.body["metadata"]["name"].partition("-")[0] in changed:
                dice.setstate(more)  # the same for all of its kind
                gang[position] = rule(dice, each)
    like = [_with_cards(dice, _node(dice, "like")) for _ in range(2)]
    sentences = [
        dice.choice(like).named(f"n{number}").labelled({ZONE: dice.choice("abc"), "rack": dice.choice("12")})
        for number in range(9)
    ]
    world = _world(sentences, set())
    for number in range(dice.choice((0, 1, 2, 4))):
        _move_in(dice, f"tenant-{number}", dice.choice(APPS[:2]), world, quietly=dice.random() < 0.5)
    return Case(sentences, world, gang, len(gang))


def _world(sentences: Sequence[NodeBuilder], unready: set[str]) -> World:
    nodes, topologies = {}, {}
    for each in sentences:
        made, *rest = each.manifests()
        nodes[each.name] = made
        topologies.update((each.name, one) for one in rest)
    return World(nodes, topologies, unready, [])


def _home(dice: random.Random, gang: Sequence[PodBuilder], world: World) -> list[str]:
    """A node for each member that breaks no rule, room and cards aside, if a few guesses find one."""
    manifests = [each.manifest() for each in gang]
    home: list[str] = []
    for _ in range(60):
        home = [dice.choice(list(world.nodes)) for _ in gang]
        if not oracle.rules_broken([Standing(*each) for each in zip(manifests, home, strict=True)], world):
            break
    return home


def _node(dice: random.Random, name: str) -> NodeBuilder:
    sentence = node(name).holding(cpu=str(dice.randint(1, 7)), pods=dice.choice((1, 2, 10, 10, 10, 10)))
    sentence = sentence.labelled({"disk": dice.choice(("ssd", "hdd")), "rack": str(dice.randint(1, 3))})
    if dice.random() < 0.94:
        sentence = sentence.labelled({ZONE: dice.choice("ab")})
    if dice.random() < 0.2:
        effect = dice.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
        sentence = sentence.tainted("team", dice.choice(("a", "b")), effect=effect)
    if dice.random() < 0.05:
        sentence = sentence.cordoned()
    return sentence


def _with_cards(dice: random.Random, sentence: NodeBuilder) -> NodeBuilder:
    cards = [dice.choice((T4, A10)) for _ in range(dice.choice((0, 1, 2, 2, 3, 3)))]
    if dice.random() < 0.6:
        cards = cards[:1] * len(cards)
    for model, memory in cards:
        sentence = sentence.with_cards(1, model=model, memory_mib=memory)
    if cards and len(set(cards)) == 1 and dice.random() < 0.4:
        return sentence.owned_by("device-plugin")
    if cards and dice.random() < 0.1:
        return sentence.holding(
            **{"nvidia.com/gpu": str(dice.randint(1, len(cards)))}
        )  # Alnair's, and advertised too
    return sentence


def _cut(dice: random.Random, sentence: NodeBuilder, pods: Sequence[PodBuilder]) -> NodeBuilder:
    """With room for these pods, and little more."""
    manifests = [each.manifest() for each in pods]
    cpu = sum(oracle.requests(each).get("cpu", 0) for each in manifests) + dice.choice((0, 0, 0, 500))
    sentence = sentence.holding(cpu=f"{cpu}m", pods=dice.choice((len(pods) + 1, 10, 10)))
    cards: list[tuple[tuple[str, int], int, int]] = []  # kind, MiB and per cent left
    for each in manifests:
        allowed = [kind for kind in (T4, A10) if oracle.right_model(kind[0], each)]
        for demand in sorted(oracle.demands(each), key=lambda demand: demand.stage == "Init"):
            left = demand.cards
            for position, (kind, memory, compute) in enumerate(cards):
                size, share = demand.takes(Card("", *kind, ""))
                if demand.stage == "Init":
                    left -= bool(left) and kind in allowed and kind[1] >= size  # what is there anyway
                elif left and not demand.whole and memory >= size and compute >= share and kind in allowed:
                    cards[position] = (kind, memory - size, compute - share)
                    left -= 1
            for _ in range(left):
                kind = dice.choice(allowed)
                size, share = demand.takes(Card("", *kind, ""))
                cards.append((kind, kind[1] - size, 100 - share))
    for (model, memory), *_ in cards[:4]:
        sentence = sentence.with_cards(1, model=model, memory_mib=memory)
    plugin = cards and all(
        demand.from_plugin and demand.whole for each in manifests for demand in oracle.demands(each)
    )
    one_kind = len({kind for kind, *_ in cards}) == 1
    return sentence.owned_by("device-plugin") if plugin and one_kind and dice.random() < 0.8 else sentence


def _move_in(dice: random.Random, name: str, app: str, world: World, *, quietly: bool) -> None:
    """A pod that runs there already, whatever rules it breaks. `quietly`: it takes no room."""
    where = dice.choice(list(world.nodes))
    sentence = pod(name).in_namespace(dice.choice(("team", "team", "team", "other"))).labelled(app=app)
    sentence = sentence.with_(lambda it: it["metadata"].update(uid=f"uid-{name}"))
    if not quietly and dice.random() < 0.5:
        sentence = sentence.asking(cpu="1")
    if dice.random() < 0.3:
        sentence = sentence.apart_from({"app": dice.choice(APPS)}, key=dice.choice((HOST, ZONE)))
    if dice.random() < 0.15:
        sentence = _with_port(dice, sentence)
    if dice.random() < 0.1:
        stamp = "2026-01-01T00:00:00Z"
        sentence = sentence.with_(lambda it: it["metadata"].update(deletionTimestamp=stamp))
    if not quietly and world.cards(where) and world.owned(where) and dice.random() < 0.5:
        sentence = _holding(dice, sentence, where, world)
    manifest = sentence.manifest()
    manifest["spec"]["nodeName"] = where
    world.running.append(Standing(manifest, where))


def _holding(dice: random.Random, sentence: PodBuilder, where: str, world: World) -> PodBuilder:
    """It holds a part of a card there, if there is room."""
    card = dice.choice(world.cards(where))
    held = oracle.held_on(where, world.running, world)[card.id]
    whole = dice.random() < 0.3
    size, share = (card.memory, 100) if whole else (1024 * dice.randint(2, 14), dice.choice((0, 30, 60)))
    least = 0 if whole else size
    if not oracle.serves(card, oracle.Demand(1, least, share, whole), {"metadata": {}}, held):
        return sentence
    piece = {"gpu": card.id, "memoryMiB": size, "computePercent": share, **({"whole": True} if whole else {})}
    text = json.dumps([{"name": "main", "slices": [piece]}])
    return sentence.annotated({"ai.centaurus.io/gpu-slices": text, "ai.centaurus.io/node": where})


def _gang(dice: random.Random) -> list[PodBuilder]:
    members = dice.randint(2, 5)
    gpus = ("whole", "whole", "wholes") if dice.random() < 0.12 else GPUS
    kinds = [_kind(dice, number, gpus) for number in range(min(members, dice.choice((1, 1, 2, 2, 3))))]
    sizes = [1] * len(kinds)
    for _ in range(members - len(kinds)):
        sizes[dice.randrange(len(kinds))] += 1
    return [
        kind.named(f"k{number}-{index}")
        for number, kind in enumerate(kinds)
        for index in range(sizes[number])
    ]


def _kind(dice: random.Random, number: int, gpus: Sequence[str]) -> PodBuilder:
    sentence = pod(f"k{number}").in_namespace("team").labelled(app=dice.choice(APPS), kind=f"k{number}")
    sentence = _with_gpu(dice, sentence, dice.choice(gpus))
    if dice.random() < 0.6:
        sentence = sentence.asking(cpu=dice.choice(("500m", "1", "1", "2")))
    if dice.random() < 0.12:
        sentence = _with_port(dice, sentence)
    if dice.random() < 0.4:
        sentence = sentence.tolerating("team", dice.choice(("a", "b", None)))
    elif dice.random() < 0.05:
        sentence = sentence.with_(lambda it: it["spec"].update(tolerations=[{"operator": "Exists"}]))
    if dice.random() < 0.1:
        sentence = sentence.selecting(disk=dice.choice(("ssd", "hdd")))
    if dice.random() < 0.15:
        sentence = sentence.on_nodes(*(_node_term(dice) for _ in range(dice.choice((1, 1, 2)))))
    if dice.random() < 0.25:
        sentence = _near(dice, sentence)
    if dice.random() < 0.32:
        sentence = _apart(dice, sentence)
    if dice.random() < 0.3:
        for _ in range(dice.choice((1, 1, 1, 2))):
            sentence = _spread(dice, sentence)
    return sentence


def _apart(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    for _ in range(dice.choice((1, 1, 2))):
        sentence = sentence.apart_from(_meant(dice), key=_key(dice))
    return sentence


def _key(dice: random.Random) -> str:
    return dice.choice((HOST, ZONE, ZONE, "rack"))


def _meant(dice: random.Random) -> dict[str, str] | None:
    chance = dice.random()
    if chance < 0.04:
        return None
    if chance < 0.08:
        return {}
    return {"kind": dice.choice(("k0", "k1"))} if chance < 0.3 else {"app": dice.choice(APPS)}


def _near(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    for _ in range(dice.choice((1, 1, 1, 2))):
        more = {"namespaces": ["team", "other"]} if dice.random() < 0.15 else {}
        sentence = sentence.near_to(_meant(dice), key=_key(dice), **more)
    return sentence


def _spread(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    more: Manifest = {}
    if dice.random() < 0.5:
        more["minDomains"] = dice.randint(1, 3)
    if dice.random() < 0.2:
        more["nodeAffinityPolicy"] = dice.choice(("Honor", "Ignore"))
    if dice.random() < 0.3:
        more["nodeTaintsPolicy"] = dice.choice(("Honor", "Ignore"))
    own = {"app": sentence.body["metadata"]["labels"]["app"]}
    meant = own if dice.random() < 0.6 else _meant(dice)
    return sentence.spread_over(_key(dice), meant, max_skew=dice.choice((1, 1, 2)), **more)


def _node_term(dice: random.Random) -> Manifest:
    lines = (
        line(ZONE, "In", "a"),
        line(ZONE, "Exists"),
        line(ZONE, "DoesNotExist"),
        line("disk", "NotIn", "hdd"),
        line("rack", "Gt", "1"),
        line("rack", "Lt", "3"),
        line("rack", "In", "1", "2"),
    )
    fields = [line("metadata.name", "In", f"n{dice.randint(0, 4)}")]
    if dice.random() < 0.15:
        return term(fields=fields)
    return term(*dice.sample(lines, dice.choice((1, 1, 2))))


def _with_port(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    return sentence.on_host_port(
        dice.choice((80, 81)),
        protocol=dice.choice((None, "TCP", "UDP")),
        ip=dice.choice((None, None, "10.0.0.1", "10.0.0.2")),
    )


def _with_gpu(dice: random.Random, sentence: PodBuilder, way: str) -> PodBuilder:
    sentence = _asking(dice, _choosing(dice, sentence), way)
    if way not in ("none", "several"):
        for _ in range(dice.choice((0, 0, 0, 0, 1, 1, 2))):
            sentence = _with_init(dice, sentence)
    return sentence.exclusively() if dice.random() < 0.18 else sentence


def _choosing(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    """A choice of cards, in one of all the ways to say it; the nodes are called n0 to n4, or more."""
    if dice.random() < 0.15:
        sentence = sentence.of_model(*dice.sample(("T4", "A10"), dice.choice((1, 1, 2))))
    elif dice.random() < 0.12:
        key = dice.choice(
            ("ai.centaurus.io/gpu-model-not", "nvidia.com/use-gputype", "nvidia.com/nouse-gputype")
        )
        sentence = sentence.annotated(
            {key: dice.choice(("T4", "A10") if key.startswith("ai") else ("t4", "a1"))}
        )
    if dice.random() < 0.15:
        cards = [(f"n{dice.randint(0, 4)}", dice.randint(0, 2)) for _ in range(dice.choice((3, 5)))]
        called = [card_uuid(*each) if dice.random() < 0.5 else f"{each[0]}/{each[1]}" for each in cards]
        key = dice.choice(("ai.centaurus.io/gpu-uuid", "ai.centaurus.io/gpu-uuid-not"))
        if len(set(called)) >= 3:  # fewer would be refused where three cards are asked for
            sentence = sentence.annotated({key: ",".join(called)})
    return sentence


def _with_init(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    """One more init container or sidecar with cards."""
    number = len(sentence.body["spec"].get("initContainers", []))
    asked = dice.choice(
        (
            {"nvidia.com/gpu": "1"},
            {"alnair/vgpu-memory": str(dice.randint(2, 16))},
            {"alnair/vgpu-memory": str(dice.randint(2, 14)), "alnair/vgpu-compute": "60"},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": str(dice.choice((30, 50, 100)))},
        )
    )
    return sentence.with_init(f"init-{number}", asked, sidecar=dice.random() < 0.35)


def _asking(dice: random.Random, sentence: PodBuilder, way: str) -> PodBuilder:
    match way:
        case "whole":
            return sentence.asking(gpu=dice.choice((1, 1, 2)))
        case "wholes":
            return sentence.asking(gpu=1).with_container("second").asking(gpu=1)
        case "slice":
            return _slice(dice, sentence)
        case "several":
            if dice.random() < 0.2:
                return sentence.annotated({"ai.centaurus.io/gpu-count": str(dice.randint(1, 2))})
            memory = f"{dice.randint(2, 12)}Gi"
            return sentence.slice_by_annotation(
                memory, compute=dice.choice((None, 40)), count=dice.randint(1, 3)
            )
        case "hami":
            asked = {"nvidia.com/gpu": str(dice.randint(1, 2))}
            asked |= dice.choice(
                (
                    {"nvidia.com/gpumem": str(1000 * dice.randint(2, 14))},
                    {"nvidia.com/gpumem-percentage": str(dice.choice((30, 33, 50, 70)))},
                    {"nvidia.com/gpucores": "50"},
                )
            )
            return sentence.asking(resources=asked)
        case "two":
            return _slice(dice, _slice(dice, sentence).with_container("second"))
        case "beside":
            return _slice(dice, sentence).with_container("second").asking(gpu=1)
    return sentence


def _slice(dice: random.Random, sentence: PodBuilder) -> PodBuilder:
    return sentence.slice(memory_gib=dice.randint(2, 14), compute=dice.choice((None, None, 20, 50, 70)))
