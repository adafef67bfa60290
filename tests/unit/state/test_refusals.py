"""Kubelets that refused a pod: who keeps off, for how long, and that nobody does for ever."""

from __future__ import annotations

import gc
import weakref

import pytest

from alnair.api.peaks import Peak
from alnair.state.pods import Pod
from alnair.state.refusals import FIRST_SECONDS, LONGEST_SECONDS, MOST_SHAPES, Refusals, refused_by_kubelet
from alnair.state.shapes import with_peak
from harness.builders import node, pod
from unit.builders import Cluster, as_pod, where

WORKER = pod("worker").asking(cpu="2")


def failed(reason: str, sentence: object = WORKER, *, on: str = "a") -> Pod:
    each = as_pod(sentence, on=on, phase="Failed")  # type: ignore[arg-type]
    each.reason = reason
    return each


@pytest.mark.parametrize(
    ("reason", "is_one"),
    [
        ("OutOfcpu", True),
        ("OutOfnvidia.com/gpu", True),
        ("TopologyAffinityError", True),
        ("UnexpectedAdmissionError", True),
        ("Evicted", False),
        ("NodeShutdown", False),
        ("", False),
    ],
)
def test_only_a_pod_that_never_ran_was_refused(reason: str, is_one: bool) -> None:
    assert refused_by_kubelet(failed(reason)) is is_one
    running = as_pod(WORKER, on="a")
    running.reason = reason
    assert not refused_by_kubelet(running)


def test_its_like_keep_off_the_node_and_others_do_not() -> None:
    cluster = Cluster(node("a"), node("b").tainted("full"))
    cluster.state.refusals.note(failed("OutOfcpu"), now=0.0)
    assert (
        "1 has a kubelet that refused such a pod (OutOfcpu) and is left alone for a while"
        in cluster.refuses(WORKER)
    )
    assert where(cluster.place(pod("other").asking(cpu="1"))) == {"other": "a"}


def test_the_node_opens_again_and_whoever_waits_hears_of_it() -> None:
    cluster = Cluster(node("a"))
    state = cluster.state
    state.refusals.note(failed("OutOfcpu"), now=0.0)
    cluster.refuses(WORKER)
    freed = state.freed
    state.refusals.pass_time(FIRST_SECONDS - 1)
    assert state.freed == freed
    state.refusals.pass_time(FIRST_SECONDS)
    assert state.freed > freed
    assert where(cluster.place(WORKER)) == {"worker": "a"}


def test_each_refusal_in_a_row_closes_it_twice_as_long_up_to_a_limit() -> None:
    refusals, now, spans = Refusals(lambda *_: None), 0.0, []
    for _ in range(8):
        spans.append(refusals.note(failed("OutOfcpu"), now))
        now += spans[-1]
        refusals.pass_time(now)
    assert spans[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert spans[-1] == LONGEST_SECONDS


def test_what_was_not_refused_again_for_long_is_forgotten() -> None:
    refusals = Refusals(lambda *_: None)
    refusals.note(failed("OutOfcpu"), 0.0)
    refusals.pass_time(FIRST_SECONDS + LONGEST_SECONDS)
    assert refusals.note(failed("OutOfcpu"), 5000.0) == FIRST_SECONDS


def test_shapes_without_end_are_not_remembered_without_end() -> None:
    opened: list[str] = []
    refusals = Refusals(lambda name, open_: opened.append(name) if open_ else None)
    shapes = [pod("p").asking(cpu=f"{number}m") for number in range(1, MOST_SHAPES + 2)]
    for shape in shapes:
        refusals.note(failed("OutOfcpu", shape), 0.0)
    assert opened == ["a"]
    assert not refusals.of(as_pod(shapes[0]).shape)
    assert refusals.of(as_pod(shapes[-1]).shape)


def test_who_was_refused_last_is_remembered_longest() -> None:
    refusals = Refusals(lambda *_: None)
    shapes = [pod("p").asking(cpu=f"{number}m") for number in range(1, MOST_SHAPES + 1)]
    for shape in shapes:
        refusals.note(failed("OutOfcpu", shape), 0.0)
    assert refusals.note(failed("OutOfcpu", shapes[0]), 1.0) == 2 * FIRST_SECONDS
    refusals.note(failed("OutOfcpu", pod("p").asking(cpu="0")), 2.0)
    assert refusals.of(as_pod(shapes[0]).shape)
    assert not refusals.of(as_pod(shapes[1]).shape)


def test_who_is_known_by_what_its_like_used_keeps_off_too() -> None:
    refusals = Refusals(lambda *_: None)
    refused = failed("OutOfcpu")
    refusals.note(refused, 0.0)
    assert refusals.of(with_peak(refused.shape, Peak(cpu=1)))


def test_a_shape_goes_with_its_pods_though_it_was_refused_and_is_known_by_what_it_used() -> None:
    refusals = Refusals(lambda *_: None)
    refused = failed("OutOfcpu", pod("p").asking(cpu="7"))
    shape = weakref.ref(refused.shape)
    peaked = weakref.ref(with_peak(refused.shape, Peak(cpu=1)))
    refusals.note(refused, 0.0)
    assert peaked() is with_peak(refused.shape, Peak(cpu=1))
    del refused
    gc.collect()
    assert (shape(), peaked()) == (None, None)
