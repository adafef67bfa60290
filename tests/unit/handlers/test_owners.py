"""Controllers are asked once what their pods used, and a pod never waits for one that does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from alnair.api import names
from alnair.api.peaks import Peak
from alnair.handlers.owners import KEPT_SECONDS, MOST_KEPT, Owners, controller_of
from alnair.kube import Refused, Unanswered
from alnair.state import wire
from unit.builders import HandClock, decoded

JOB = wire.OwnerReference("Job", "train", "u1", "batch/v1", True)
LIGHT = {names.PEAK_GPU_UTIL: "5"}


class Apiserver:
    """Answers with whatever is put down for it, after whoever asked has gone on."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def get(self, path: str, *, seconds: float) -> dict[str, Any]:
        self.asked.append(path)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def told(annotations: dict[str, str] | None, uid: str = "u1") -> dict[str, Any]:
    return {"metadata": {"name": "train", "uid": uid, "annotations": annotations}}


def owners(server: Apiserver, clock: HandClock | None = None) -> tuple[Owners, list[str]]:
    heard: list[str] = []
    return Owners(server, clock=clock or HandClock(), on_answer=heard.append), heard  # type: ignore[arg-type]


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_controller_is_asked_once_for_all_its_pods_and_its_word_is_kept_for_a_while() -> None:
    server, clock = Apiserver(told(LIGHT), told(None)), HandClock()
    asking, heard = owners(server, clock)
    assert asking.ask(JOB, "team")
    assert asking.ask(JOB, "team")  # the second pod waits for the same answer
    await settled()
    assert heard == ["u1"]
    assert server.asked == ["/apis/batch/v1/namespaces/team/jobs/train"]
    assert asking.peak("u1") == Peak(compute=0.05)
    assert not asking.ask(JOB, "team")
    clock.pass_(KEPT_SECONDS)
    assert asking.ask(JOB, "team")
    await settled()
    assert asking.peak("u1") is None


@pytest.mark.parametrize(
    "answer",
    [
        Refused(call="GET", status=404, reason="NotFound", message="gone"),
        Refused(call="GET", status=403, reason="Forbidden", message="no right"),
        Unanswered(call="GET", why="took too long"),
        told(LIGHT, uid="a successor's"),
        told({names.PEAK_GPU_UTIL: "NaN"}),
        told(None),
    ],
    ids=str,
)
async def test_no_answer_is_an_answer_too(answer: dict[str, Any] | Exception) -> None:
    asking, heard = owners(Apiserver(answer))
    assert asking.ask(JOB, "team")
    await settled()
    assert heard == ["u1"]
    assert asking.peak("u1") is None
    assert not asking.ask(JOB, "team")


async def test_what_is_kept_does_not_grow_for_ever() -> None:
    many = MOST_KEPT + 1
    asking, heard = owners(Apiserver(*(told(LIGHT, f"u{number}") for number in range(many))))
    for number in range(many):
        asking.ask(wire.OwnerReference("Job", "train", f"u{number}", "batch/v1", True), "team")
    await settled()
    assert len(heard) == many
    assert asking.peak("u0") is None
    assert asking.peak(f"u{MOST_KEPT}") is not None


@pytest.mark.parametrize(
    ("reference", "asked"),
    [
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, True),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet"}, False),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}, False),
        ({"apiVersion": "v1", "kind": "Node", "controller": True}, False),
    ],
)
def test_only_controllers_of_three_kinds_are_asked(reference: dict[str, Any], asked: bool) -> None:
    meta = {"name": "p", "ownerReferences": [{"name": "o", "uid": "u", **reference}]}
    assert (controller_of(decoded(meta, wire.Metadata)) is not None) is asked
