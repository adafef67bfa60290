"""The worked examples of rules that others ship: packages of their own, which pip installs and Alnair finds."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from alnair.api.config import parse_config
from alnair.scheduling.profile import Profile, build_all
from alnair.scheduling.registry import OURS, Offer, Registry
from harness.builders import PodBuilder, node, pod
from unit.builders import Cluster, where

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
LEARNED = (
    "{schedulerName: learned, scorers: [Equal], nodePicker: example.com/LearnedPicker, picker: best-fit}"
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    sources = [str(EXAMPLES / name) for name in ("quiet-rack", "learned-picker")]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(folder), *sources], check=True)
    return folder


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "jobs.jsonl"
    sizes = [(1, 50 + 37 * number % 900) for number in range(40)] + [(2, 1000), (4, 1000)]
    jobs = [
        {"job": {"name": f"j{number}", "cpu": 2000, "memoryMiB": 1024, "cards": cards, "gpu": gpu}}
        for number, (cards, gpu) in enumerate(sizes)
    ]
    path.write_text("\n".join(json.dumps(job) for job in jobs))
    return path


def run(packages: Path, *command: str) -> Any:
    """The last line of what it prints."""
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def alnair(packages: Path, *arguments: str) -> Any:
    return run(packages, str(Path(sys.executable).with_name("alnair")), *arguments)


def test_installed_packages_are_found(packages: Path) -> None:
    listed = alnair(packages, "profile", "list", "--json")
    theirs = {(each["point"], each["name"], each["package"]) for each in listed["rules"] if each["package"]}
    assert theirs == {
        ("scorers", "example.com/QuietRack", "alnair-quiet-rack"),
        ("nodePicker", "example.com/LearnedPicker", "alnair-learned-picker"),
    }
    assert listed["broken"] == {}


def test_the_learned_picker_is_a_policy_of_the_simulator(packages: Path, trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"profiles: [{LEARNED}]")
    assert alnair(packages, "profile", "check", str(config), "--json")["broken"] == {}
    asked = ["--pods", str(trace), "--nodes", "6x4", "--seeds", "1-2", "--json"]
    result = alnair(
        packages, "simulate", "--config", str(config), "--policy", "learned", "--policy", "random", *asked
    )
    learned, chance = (each["gpu_allocation_percent"] for each in result["policies"])
    assert chance < learned <= 100


def test_training_is_the_same_each_time_and_another_with_another_seed(
    packages: Path, trace: Path, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLES / "learned-picker", tmp_path / "copy")

    def trained(seed: int) -> Any:
        settings = [
            *("--generations", "2", "--population", "3", "--elite", "2"),
            *("--machines", "3", "--seeds", "0"),
        ]
        script = [sys.executable, str(tmp_path / "copy" / "train.py")]
        run(packages, *script, "--nodes", "6x4", "--pods", str(trace), "--seed", str(seed), *settings)
        return json.loads((tmp_path / "copy" / "learned_picker" / "weights.json").read_text())["weights"]

    first, again, other = trained(1), trained(1), trained(2)
    assert first == again != other


# -- what they decide ----------------------------------------------------------------------------------------------


@pytest.fixture
def quiet_rack(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES / "quiet-rack")
    return importlib.import_module("quiet_rack")


@pytest.fixture
def learned_picker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES / "learned-picker")
    return importlib.import_module("learned_picker")


def profile(rule: type[Any], point: str, text: str) -> Profile:
    offers = {**OURS.offers, point: {**OURS.offers[point], rule.name: Offer(rule, "example")}}
    return build_all(parse_config(f"profiles: [{text}]", origin="f"), Registry(offers))["mine"]


def test_a_pod_goes_to_the_rack_whose_cards_are_idle(quiet_rack: ModuleType) -> None:
    quiet = profile(
        quiet_rack.QuietRack,
        "scorers",
        "{schedulerName: mine, picker: best-fit, scorers: [{name: example.com/QuietRack, options: {label: rack}}]}",
    )
    cluster = Cluster(
        node("a1").with_cards(2).labelled(rack="a"),
        node("a2").with_cards(2).labelled(rack="a"),
        node("b1").with_cards(2).labelled(rack="b"),
        node("b2").with_cards(2).labelled(rack="b"),
        node("unracked").with_cards(2),
    )
    asking = pod("p").slice(memory_gib=1)
    cluster.place(*(asking.named(f"loud-{number}").selecting(rack="a") for number in range(2)))
    assert where(cluster.place(asking.named("first"), profile=quiet))["first"] == "b1"
    gang = [asking.named(f"m{number}").asking(gpu=1) for number in range(3)]
    places = set(where(cluster.place(*gang, profile=quiet)).values())
    assert "unracked" not in places
    assert places & {"a1", "a2"}, "racks fill evenly"


@pytest.mark.parametrize(
    ("feature", "weight", "expected"),
    [
        ("left of the card", -1, "fuller"),
        ("left of the card", 1, "emptier"),
        ("cpu left", -1, "busy"),
        ("scraps", -1, "cardless"),
    ],
)
def test_the_picker_goes_by_its_weights(
    learned_picker: ModuleType, feature: str, weight: int, expected: str
) -> None:
    weights = np.zeros((len(learned_picker.KINDS), len(learned_picker.FEATURES)))
    kind = "no GPU" if expected == "cardless" else "slice"
    weights[learned_picker.KINDS.index(kind), learned_picker.FEATURES.index(feature)] = weight
    text = LEARNED.replace("schedulerName: learned", "schedulerName: mine").replace(
        "nodePicker: example.com/LearnedPicker",
        f"nodePicker: {{name: example.com/LearnedPicker, options: {{weights: {weights.tolist()}}}}}",
    )
    picking = profile(learned_picker.LearnedPicker, "nodePicker", text)
    cluster = Cluster(
        *(node(name).with_cards(1) for name in ("emptier", "fuller")),
        node("busy").with_cards(1).holding(cpu="4"),
        node("cardless"),
    )
    sharer = pod("p").asking(cpu="1").slice(memory_gib=4)
    for number, name in enumerate(("fuller", "busy", "fuller", "emptier")):
        cluster.place(sharer.named(f"there-{number}").selecting({"kubernetes.io/hostname": name}))
    asking = sharer if kind == "slice" else pod("p").asking(cpu="1")
    assert where(cluster.place(asking, profile=picking)) == {"p": expected}


@pytest.mark.parametrize(
    ("asking", "breaks"),
    [(pod("p"), False), (pod("p").slice(memory_gib=4), True), (pod("p").asking(gpu=1), False)],
    ids=["no GPU", "slice", "whole card"],
)
def test_what_the_model_sees_is_from_0_to_1(
    learned_picker: ModuleType, asking: PodBuilder, breaks: bool
) -> None:
    cluster = Cluster(node("idle").with_cards(2), node("used").with_cards(2), node("cardless"))
    cluster.place(pod("there").slice(memory_gib=4).selecting({"kubernetes.io/hostname": "used"}))
    draft = cluster.state.draft()
    seen = learned_picker.features(cluster.kind(asking.asking(cpu="1")), draft)
    assert ((seen >= 0) & (seen <= 1)).all()
    column = seen[:, learned_picker.FEATURES.index("breaks an idle card")]
    assert dict(zip(draft.names, column.tolist(), strict=True)) | {"": 0} == {
        "idle": breaks,
        "used": 0,
        "cardless": 0,
        "": 0,
    }


def test_wishes_go_before_what_was_learned(learned_picker: ModuleType) -> None:
    text = LEARNED.replace("schedulerName: learned", "schedulerName: mine").replace("Equal", "LeastRequested")
    picking = profile(learned_picker.LearnedPicker, "nodePicker", text)
    cluster = Cluster(node("a"), node("b"))
    cluster.place(pod("there").asking(cpu="8").selecting({"kubernetes.io/hostname": "a"}))
    assert where(cluster.place(pod("p"), profile=picking)) == {"p": "b"}
