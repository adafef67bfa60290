"""Mixes of pods that nobody has published, made of openb's default trace: to see what a policy does with others.

    python -m bench.mixes --openb DIRECTORY --out DIRECTORY

writes one CSV for `alnair simulate --pods` each. The first four families follow the rules by which openb's own files
can be told to be made from its default one (cpu050, gpushare40 and gpushare100, multigpu20, gpuspec10), so what comes
of the same part in both is a check of the rules; the others go further away. The same files make the same mixes.

    cpu100        10 % of the pods ask for no GPU: all others stay, these are drawn
    gpushare60    60 % of the GPU is asked for in slices: as many pods as before, drawn among slices and whole cards
    multigpu30    30 % of the GPU is asked for by pods with several cards: more of them are drawn
    gpuspec20     20 % of the pods with a GPU say which model, as those of gpuspec10 do
    slices5       slices are 100, 250, 330, 500 or 660 thousandths, all alike
    slices12      60 % slices, of twelve sizes from 80 to 940
    heavy120      pods with one card or a slice ask for 1.2 times the cpu
    light50       for half of it
"""

from __future__ import annotations

import argparse
import csv
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
CARD = 1000
FEW_SIZES = (100, 250, 330, 500, 660)
MANY_SIZES = (80, 130, 190, 240, 310, 370, 420, 550, 610, 730, 880, 940)

Pod = dict[str, str]
Pods = list[Pod]


def read(path: Path) -> Pods:
    with path.open(newline="", encoding="utf-8") as file:
        return [{column: row.get(column) or "" for column in COLUMNS} for row in csv.DictReader(file)]


def write(path: Path, pods: Iterable[Pod]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({**pod, "name": f"pod-{number:05}"} for number, pod in enumerate(pods))


def cards(pod: Pod) -> int:
    return int(pod["num_gpu"])


def gpu(pod: Pod) -> int:
    """All that it asks of cards, in thousandths of one."""
    return cards(pod) * int(float(pod["gpu_milli"] or 0))


def is_slice(pod: Pod) -> bool:
    return 0 < gpu(pod) < CARD


def with_cpu_pods(pods: Pods, part: float, chance: random.Random) -> Pods:
    others = [pod for pod in pods if cards(pod)]
    alone = [pod for pod in pods if not cards(pod)]
    wanted = round(len(others) * part / (1 - part))
    if wanted <= len(alone):
        return others + chance.sample(alone, wanted)
    return others + alone + chance.choices(alone, k=wanted - len(alone))


def with_slices(pods: Pods, part: float, chance: random.Random) -> Pods:
    alone = [pod for pod in pods if not cards(pod)]
    slices, whole = [pod for pod in pods if is_slice(pod)], [pod for pod in pods if gpu(pod) >= CARD]
    small, large = (sum(map(gpu, each)) / len(each) for each in (slices, whole))
    count = len(slices) + len(whole)
    sliced = round(count * part * large / (small + part * (large - small)))
    return alone + chance.choices(slices, k=sliced) + chance.choices(whole, k=count - sliced)


def with_several_cards(pods: Pods, part: float, chance: random.Random) -> Pods:
    several = [pod for pod in pods if cards(pod) > 1]
    pods = list(pods)
    asked, total = sum(map(gpu, several)), sum(map(gpu, pods))
    while asked < part * total:
        pod = chance.choice(several)
        pods.append(pod)
        asked, total = asked + gpu(pod), total + gpu(pod)
    return pods


def with_models(pods: Pods, pattern: Pods, part: float, chance: random.Random) -> Pods:
    """Who says a model, and which, is as in the pattern: slices, single cards and several cards differ in both."""

    def kind(pod: Pod) -> int:
        return 0 if is_slice(pod) else min(cards(pod), 2)

    wishes: defaultdict[int, list[str]] = defaultdict(list)
    for pod in pattern:
        if cards(pod) and pod["gpu_spec"]:
            wishes[kind(pod)].append(pod["gpu_spec"])
    there = Counter(kind(pod) for pod in pods if cards(pod))
    more = part * sum(there.values()) / sum(map(len, wishes.values()))
    return [
        {**pod, "gpu_spec": chance.choice(wishes[kind(pod)])}
        if cards(pod) and chance.random() < more * len(wishes[kind(pod)]) / there[kind(pod)]
        else pod
        for pod in pods
    ]


def with_sizes(pods: Pods, sizes: Sequence[int], chance: random.Random) -> Pods:
    return [{**pod, "gpu_milli": str(chance.choice(sizes))} if is_slice(pod) else pod for pod in pods]


def with_cpu(pods: Pods, factor: float) -> Pods:
    return [
        {**pod, "cpu_milli": str(round(int(pod["cpu_milli"]) * factor))} if cards(pod) == 1 else pod
        for pod in pods
    ]


def mixes(default: Pods, pattern: Pods) -> dict[str, Callable[[random.Random], Pods]]:
    made: dict[str, Callable[[random.Random], Pods]] = {}
    made |= {f"cpu{each:02}0": partial(with_cpu_pods, default, each / 100) for each in (5, 10, 20, 25, 33)}
    made |= {f"gpushare{each}": partial(with_slices, default, each / 100) for each in (20, 40, 60, 80, 100)}
    made |= {f"multigpu{each}": partial(with_several_cards, default, each / 100) for each in (20, 30, 40, 50)}
    made |= {
        f"gpuspec{each:02}": partial(with_models, default, pattern, each / 100)
        for each in (5, 10, 20, 25, 33)
    }
    made["slices5"] = partial(with_sizes, default, FEW_SIZES)
    made["slices12"] = lambda chance: with_sizes(with_slices(default, 0.6, chance), MANY_SIZES, chance)
    made["light50"] = lambda _: with_cpu(default, 0.5)
    made["heavy120"] = lambda _: with_cpu(default, 1.2)
    made["heavy150"] = lambda _: with_cpu(default, 1.5)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Make mixes of pods of openb's default trace.")
    parser.add_argument(
        "--openb", type=Path, required=True, help="where openb_pod_list_default.csv and _gpuspec10.csv are"
    )
    parser.add_argument("--out", type=Path, required=True, help="where to write the mixes")
    options = parser.parse_args()
    default, pattern = (
        read(options.openb / f"openb_pod_list_{name}.csv") for name in ("default", "gpuspec10")
    )
    options.out.mkdir(parents=True, exist_ok=True)
    for name, make in mixes(default, pattern).items():
        write(options.out / f"{name}.csv", make(random.Random(name)))


if __name__ == "__main__":
    main()
