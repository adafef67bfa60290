"""UtilSched: Basic, Utilization and Allocated, each by its formula, and none with the faults of the old one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alnair.api import names
from alnair.api.config import DEFAULT, parse_config
from alnair.scheduling.board import Boards
from alnair.scheduling.plugins.allocated import Allocated
from alnair.scheduling.plugins.basic import Basic
from alnair.scheduling.plugins.card_models import KNOWN
from alnair.scheduling.plugins.coolest import Coolest
from alnair.scheduling.plugins.utilization import Utilization
from alnair.scheduling.profile import Profile, build, build_all
from alnair.scheduling.search import Plan
from harness.builders import NodeBuilder, PodBuilder, node, pod
from unit.builders import GIB, PROFILES, Cluster, advertising, all_of, card, holds, part, scores, where
from unit.readings import of_cards, of_node, reading, tell

SLICE = pod("p").slice(memory_gib=6, compute=25)  # a quarter of an A10
WHOLE = pod("p").asking(gpu=1)
PLAIN = pod("p").asking(cpu="1")
UTILSCHED = PROFILES[names.PROFILE_UTILIZATION]


def cards(count: int = 1, **kind: object) -> NodeBuilder:
    return node("n").with_cards(count, **kind)  # type: ignore[arg-type]


def score(rule: str, cluster: Cluster, asking: PodBuilder, name: str = "n") -> float:
    found = scores(rule, cluster, asking)
    assert found is not None
    return found[name]


def given_out(cluster: Cluster, name: str, index: int, *, memory_gib: int, compute: int = 0) -> None:
    cluster.state.hold(f"on-{name}-{index}", holds(name, part(name, index, memory_gib * GIB, compute)))


def measured(cluster: Cluster, name: str, *texts: str | None, **more: object) -> None:
    tell(cluster, name, of_cards(*texts), **more)  # type: ignore[arg-type]


def uniformly(load: int) -> str:
    """All three readings of a 24 GB card at so many quarters of it."""
    return reading(compute=load * 25, bandwidth=load * 25, memory=load * 6)


# -- Basic -------------------------------------------------------------------------------------------------------


def test_basic_is_the_weighted_mean_of_its_five_strengths() -> None:
    """One A10 of 24 GiB on PCIe 4: sqrt(1/8), sqrt(125/2500), sqrt(24/192), sqrt(64/1800), and a neutral network."""
    expected = ((1 / 8) ** 0.5 + 2 * (125 / 2500) ** 0.5 + (24 / 192) ** 0.5 + (64 / 1800) ** 0.5 + 0.5) / 6
    assert score("Basic", Cluster(cards(1, model="A10", memory_mib=24 * GIB)), WHOLE) == pytest.approx(
        expected, abs=1e-5
    )


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        pytest.param(cards(1), cards(2), id="more cards"),
        pytest.param(cards(model="T4"), cards(model="NVIDIA-A100-SXM4-80GB"), id="a faster model"),
        pytest.param(
            cards(model="x", memory_mib=8 * GIB), cards(model="x", memory_mib=9 * GIB), id="more memory"
        ),
        pytest.param(cards(2, model="A100 PCIe"), cards(2, model="A100-SXM4-40GB"), id="a wider link"),
        pytest.param(
            cards(4).linked(lambda one, other: 10 if one // 2 == other // 2 else 40),
            cards(4).linked(lambda one, other: 10),
            id="more pairs that are near",
        ),
        pytest.param(
            cards(2).labelled({names.LINK_GBYTE: "64"}),
            cards(2).labelled({names.LINK_GBYTE: "900"}),
            id="told links",
        ),
        pytest.param(
            cards().labelled({names.NETWORK_GBIT: "10"}),
            cards().labelled({names.NETWORK_GBIT: "400"}),
            id="network",
        ),
        pytest.param(
            cards(), cards().labelled({names.NETWORK_GBIT: "400"}), id="a network that is told to be fast"
        ),
        pytest.param(cards().labelled({names.NETWORK_GBIT: "10"}), cards(), id="one that is told to be slow"),
    ],
)
def test_basic_likes_what_is_stronger(weaker: NodeBuilder, stronger: NodeBuilder) -> None:
    cluster = Cluster(weaker.named("weaker"), stronger.named("stronger"))
    assert score("Basic", cluster, WHOLE, "stronger") > score("Basic", cluster, WHOLE, "weaker")
    assert score("Basic", cluster, PLAIN, "stronger") < score("Basic", cluster, PLAIN, "weaker")


def test_a_pod_without_a_gpu_request_likes_a_node_without_cards_best() -> None:
    assert scores("Basic", Cluster(cards(), node("plain")), PLAIN)["plain"] == 1  # type: ignore[index]


@pytest.mark.parametrize("value", ["fast", "-1", "1e3", "٣", "9" * 30, "1.5", ""])
def test_a_bandwidth_that_cannot_be_read_is_neutral(value: str) -> None:
    told = Cluster(cards().labelled({names.NETWORK_GBIT: value, names.LINK_GBYTE: value}))
    assert score("Basic", told, WHOLE) == score("Basic", Cluster(cards()), WHOLE)


@pytest.mark.parametrize(
    ("told", "entry"),
    [
        ("Tesla K80", "K80"),
        ("NVIDIA-A100-SXM4-80GB", "A100 SXM4"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("TITAN X (Pascal)", "TITAN X"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA-H100-PCIe", "H100 PCIe"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("GeForce GTX 4", None),
        ("", None),
    ],
)
def test_a_model_is_found_by_its_words(told: str, entry: str | None) -> None:
    assert Basic()._catalogue.find(told) == (KNOWN[entry] if entry else None)


def test_the_table_of_models_is_extended_and_corrected_by_options() -> None:
    text = """{profiles: [{schedulerName: mine, picker: coolest, scorers: [{name: Basic, options: {models:
        {Acme 9000: {tflops: 2500}, T4: {tflops: 2500}}}}]}]}"""
    (profile,) = build_all(parse_config(text, origin="f")).values()
    cluster = Cluster(
        cards(model="acme-9000").named("a"),
        cards(model="Tesla-T4").named("b"),
        cards(model="A100").named("c"),
    )
    (scorer, _), draft, kind = profile.scorers[0], cluster.state.draft(), cluster.kind(WHOLE)
    a, b, c = (scorer.score(kind, draft)[cluster.row(name)] for name in "abc")
    assert a == pytest.approx(b)
    assert a > c


@pytest.mark.parametrize(
    "options",
    [
        "{models: {Acme: {tflops: 0}}}",
        "{models: {Acme: {}}}",
        "{compute: -1}",
        "{compute: .nan}",
        "{compute: fast}",
        "{no_such: 1}",
    ],
)
def test_options_that_make_no_sense_are_refused(options: str) -> None:
    text = f"{{profiles: [{{schedulerName: x, picker: coolest, scorers: [{{name: Basic, options: {options}}}]}}]}}"
    with pytest.raises(ValueError, match=r"scorers\[0\]\.options"):
        build_all(parse_config(text, origin="f"))


# -- Utilization -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "expected"),
    [(None, 0.5), (0, 0.9), (1, 0.7), (2, 0.5), (4, 0.1)],
    ids=["nobody tells: neutral", "idle", "a quarter", "half: as good as not knowing", "busy"],
)
def test_utilization_is_what_was_measured_idle(load: int | None, expected: float) -> None:
    """Cards count eight parts of ten, CPU and I/O, of which nobody tells, one each."""
    cluster = Cluster(cards())
    measured(cluster, "n", uniformly(load) if load is not None else None)
    assert score("Utilization", cluster, SLICE) == pytest.approx(expected)


def test_cpu_and_io_count_too_and_are_all_there_is_for_a_pod_without_cards() -> None:
    cluster = Cluster(cards())
    tell(cluster, "n", of_cards(uniformly(0), node=of_node(cpu=100, io=50)))
    assert score("Utilization", cluster, SLICE) == pytest.approx((8 * 1 + 0 + 0.5) / 10)
    assert score("Utilization", cluster, PLAIN) == pytest.approx((0 + 0.5) / 2)


def test_compute_counts_twice_as_much_as_either_memory_reading() -> None:
    cluster = Cluster(*(cards().named(name) for name in "abc"))
    for name, text in (("a", reading(compute=100)), ("b", reading(bandwidth=100)), ("c", reading(memory=24))):
        measured(cluster, name, text)
    found = scores("Utilization", cluster, SLICE)
    assert found == pytest.approx({"a": (4 + 1) / 10, "b": (6 + 1) / 10, "c": (6 + 1) / 10})


def test_the_cards_that_the_pod_would_get_count_and_not_those_beside_them() -> None:
    cluster = Cluster(cards(4))
    measured(cluster, "n", *map(uniformly, (4, 0, 2, 4)))
    assert score("Utilization", cluster, SLICE) == pytest.approx(0.9)
    assert score("Utilization", cluster, pod("p").asking(gpu=2)) == pytest.approx((8 * 0.75 + 1) / 10)


def test_a_card_that_is_taken_does_not_count_however_idle_it_is() -> None:
    cluster = Cluster(cards(2))
    cluster.state.hold("u", holds("n", all_of("n", 0, 24564)))
    measured(cluster, "n", uniformly(0), uniformly(4))
    assert score("Utilization", cluster, SLICE) == pytest.approx(0.1)


@pytest.mark.parametrize(("age", "expected"), [(60, 0.1), (120, 0.3), (180, 0.4), (300, 0.5)])
def test_stale_readings_count_less_and_less_and_then_not_at_all(age: float, expected: float) -> None:
    cluster = Cluster(cards())
    measured(cluster, "n", uniformly(4), now=0)
    cluster.state.loads.pass_time(age)
    assert score("Utilization", cluster, SLICE) == pytest.approx(expected)


def test_what_was_handed_out_since_the_reading_counts_as_load() -> None:
    """Otherwise everybody goes to the card that was idle half a minute ago."""
    cluster = Cluster(cards())
    measured(cluster, "n", uniformly(0))
    before = score("Utilization", cluster, SLICE)
    given_out(cluster, "n", 0, memory_gib=12, compute=50)
    assert score("Utilization", cluster, SLICE) < before
    measured(cluster, "n", reading(compute=1))  # and is in the next one
    assert score("Utilization", cluster, SLICE) == pytest.approx(before, abs=0.01)


def test_on_a_device_plugins_node_all_cards_count_for_nobody_knows_which_it_gives() -> None:
    cluster = Cluster(cards(2).owned_by("device-plugin"))
    measured(cluster, "n", uniformly(0), uniformly(4))
    assert score("Utilization", cluster, WHOLE) == pytest.approx(0.5)


def test_a_node_that_only_advertises_cards_is_neutral() -> None:
    cluster = Cluster(advertising(node("n"), names.NVIDIA_GPU, 8))
    assert score("Utilization", cluster, WHOLE) == 0.5
    assert 0 < score("Basic", cluster, WHOLE) < 1
    assert 0 < score("Allocated", cluster, WHOLE) < 1


# -- Allocated ---------------------------------------------------------------------------------------------------


def test_without_measurements_allocated_is_what_the_pod_leaves_on_paper() -> None:
    """A quarter of an idle card: compute and memory 0.75 each (2 + 2), CPU all free (1)."""
    assert score("Allocated", Cluster(cards(memory_mib=24 * GIB)), SLICE) == pytest.approx((4 * 0.75 + 1) / 5)


def test_a_card_given_out_to_80_per_cent_and_used_to_10_is_better_than_one_given_out_to_20_and_used_to_90() -> (
    None
):
    kind = cards(memory_mib=30 * GIB)
    cluster = Cluster(kind.named("idle"), kind.named("busy"))
    given_out(cluster, "idle", 0, memory_gib=24, compute=75)
    given_out(cluster, "busy", 0, memory_gib=6, compute=20)
    assert score("Allocated", cluster, SLICE, "idle") < score("Allocated", cluster, SLICE, "busy")  # on paper
    measured(cluster, "idle", reading(compute=10, bandwidth=10, memory=3, of=30))
    measured(cluster, "busy", reading(compute=90, bandwidth=90, memory=27, of=30))
    found = scores("Allocated", cluster, SLICE)
    assert found is not None
    # 0.8 * 0.1 + 0.2 * 0.8 = 0.24, and the pod's 0.25 and 0.2: measured, distrusted by a fifth
    assert found["idle"] == pytest.approx((2 * (1 - 0.24 - 0.25) + 2 * (1 - 0.24 - 0.2) + 1) / 5, abs=1e-3)
    assert found["idle"] > found["busy"]
    assert where(cluster.place(SLICE, profile=UTILSCHED)) == {"p": "idle"}


def test_the_measured_peak_of_its_like_goes_before_what_a_pod_asks_for() -> None:
    peaks = {names.PEAK_GPU_UTIL: "5", names.PEAK_GPU_MEMORY: "1Gi", names.PEAK_CPU: "32"}
    cluster = Cluster(cards(memory_mib=24 * GIB))
    modest = score("Allocated", cluster, SLICE.annotated(peaks))
    assert modest == pytest.approx((2 * 0.95 + 2 * (1 - 1 / 24) + 0.5) / 5, abs=1e-5)


@pytest.mark.parametrize("value", ["NaN", "-1", "101", "5%", "٣", "1e999", "", "x" * 100_000])
def test_a_peak_that_cannot_be_read_is_not_told(value: str) -> None:
    cluster = Cluster(cards())
    peaks = {names.PEAK_GPU_UTIL: value}
    assert score("Allocated", cluster, SLICE.annotated(peaks)) == score("Allocated", cluster, SLICE)


def test_pods_of_other_peaks_are_not_rated_alike() -> None:
    cluster = Cluster(cards())
    light, heavy = (cluster.kind(SLICE.annotated({names.PEAK_GPU_UTIL: peak})) for peak in ("1", "99"))
    assert light.shape != heavy.shape


def test_a_slice_without_compute_is_taken_to_use_as_much_of_it_as_of_the_memory() -> None:
    cluster = Cluster(cards(memory_mib=24 * GIB).named("a"), cards(memory_mib=24 * GIB).named("b"))
    given_out(cluster, "a", 0, memory_gib=12)
    given_out(cluster, "b", 0, memory_gib=12, compute=50)
    found = scores("Allocated", cluster, SLICE)
    assert found is not None
    assert found["a"] == found["b"]


def test_measured_cpu_goes_before_requested_cpu() -> None:
    cluster = Cluster(node("a"), node("b"))
    cluster.running(pod("hog").asking(cpu="60"), on="a")
    tell(cluster, "a", of_cards(node=of_node(cpu=5)))
    tell(cluster, "b", of_cards(node=of_node(cpu=95)))
    found = scores("Allocated", cluster, PLAIN)
    assert found is not None
    assert found["a"] > found["b"]


# -- the picker --------------------------------------------------------------------------------------------------


def picked(cluster: Cluster, asking: PodBuilder) -> list[str]:
    ((_, holding),) = cluster.place(asking, profile=UTILSCHED).placements
    return [each.card for share in holding.containers for each in share.slices]


def test_the_coolest_card_is_taken_though_another_has_more_left_on_paper() -> None:
    cluster = Cluster(cards(3))
    given_out(cluster, "n", 1, memory_gib=12, compute=50)
    measured(cluster, "n", uniformly(4), uniformly(0), uniformly(3))
    assert picked(cluster, SLICE) == [card("n", 1)]


def test_without_readings_the_card_with_most_left_is_taken() -> None:
    cluster = Cluster(cards(3))
    given_out(cluster, "n", 0, memory_gib=12)
    given_out(cluster, "n", 1, memory_gib=6)
    assert picked(cluster, SLICE) == [card("n", 2)]


def test_of_equally_cool_cards_links_decide() -> None:
    cluster = Cluster(cards(4).linked())
    given_out(cluster, "n", 3, memory_gib=24, compute=100)
    assert picked(cluster, WHOLE) == [card("n", 2)]  # its partner is gone


def test_the_keys_are_whole_numbers_and_smaller_is_cooler() -> None:
    cluster = Cluster(cards(2))
    measured(cluster, "n", uniformly(1), uniformly(0))
    draft, kind = cluster.state.draft(), cluster.kind(SLICE)
    keys = Coolest().keys(kind, kind.shape.gpu.demands[0], draft, cluster.row("n"), np.array([0, 1]))
    assert keys.dtype == np.int64
    assert keys[0] > keys[1]


# -- the profile -------------------------------------------------------------------------------------------------


def test_members_of_a_gang_do_not_all_pile_onto_the_coolest_node() -> None:
    cluster = Cluster(*(cards(2).named(name) for name in "abc"))
    for name, load in (("a", 0), ("b", 1), ("c", 4)):
        measured(cluster, name, *[uniformly(load)] * 2)
    placed = where(cluster.place(*(SLICE.named(f"m{number}") for number in range(6)), profile=UTILSCHED))
    assert set(placed.values()) == {"a", "b"}


def test_remembered_ratings_follow_the_loads_and_those_of_other_profiles_are_not_asked_again() -> None:
    cluster = Cluster(*(cards().named(name) for name in "ab"))
    boards, kind = Boards(), cluster.kind(SLICE)

    def rated(profile: Profile) -> float:
        return float(boards.rated(kind, profile, cluster.state.draft())[cluster.row("a")])

    before, packed = rated(UTILSCHED), rated(build(DEFAULT.profiles[1]))
    measured(cluster, "a", uniformly(4), now=0)
    busy = rated(UTILSCHED)
    assert busy < before
    for second in range(301):
        cluster.state.loads.pass_time(second)
    assert rated(UTILSCHED) == pytest.approx(before)
    assert rated(build(DEFAULT.profiles[1])) == packed


def test_the_example_in_the_docs_is_true() -> None:
    page = (Path(__file__).parents[3] / "docs" / "utilization.md").read_text().split("## An example")[1]
    kind = cards(model="NVIDIA A10", memory_mib=24 * GIB)
    asking = pod("p").annotated({names.GPU_MEMORY: "6Gi", names.GPU_COMPUTE: "25"})
    cluster = Cluster(kind.named("paper"), kind.named("truth"))
    for name, percent in (("paper", 25), ("truth", 75)):
        cluster.state.hold(name, holds(name, part(name, 0, 24 * GIB * percent // 100, percent)))
    for name, load in (("paper", 90), ("truth", 10)):
        measured(cluster, name, reading(load, load, load, of=100), now=0)
    cluster.state.loads.pass_time(20)
    sums = dict.fromkeys(("paper", "truth"), 0.0)
    for rule, weight in (("Basic", 1), ("Utilization", 2), ("Allocated", 1)):
        for name, found in (scores(rule, cluster, asking) or {}).items():
            assert f"**{round(found, 3):g}**" in page, (rule, name, found)
            sums[name] += weight * found
    assert f"= {sums['paper']:.3f}; `truth`" in page
    assert f"= **{sums['truth']:.3f}**" in page
    plan = cluster.try_([asking], profile=UTILSCHED)
    assert isinstance(plan, Plan)
    assert where(plan) == {"p": "truth"}
    cluster.state.loads.pass_time(300)
    assert scores("Utilization", cluster, asking) == {"paper": 0.5, "truth": 0.5}
    stale = scores("Allocated", cluster, asking) or {}
    assert f"(`paper` {stale['paper']:g} and\n`truth` {stale['truth']:g})" in page
    assert where(cluster.place(asking, profile=UTILSCHED)) == {"p": "paper"}


# -- the faults of the old one, by name --------------------------------------------------------------------------


def test_fault_byte_offsets_a_model_of_any_length_and_fields_in_any_order_are_read() -> None:
    static = "{'pcie_gen_width': '1x16', 'mem_size': '12GB', 'model': 'Tesla K80', 'count': '2'}"
    cluster = Cluster(node("n").annotated({names.GPU_STATIC: static}))
    measured(cluster, "n", "{'max_gpu_util': 88, 'mem_free': '6GB', 'mem_used': '6GB'}", uniformly(0))
    load = cluster.state.draft().load.cards[cluster.row("n"), 0]
    assert load.tolist() == [0.88, 0, 0.5]


def test_fault_integer_ratio_a_card_used_by_half_lies_between_idle_and_full() -> None:
    cluster = Cluster(*(cards().named(name) for name in "abc"))
    for name, used in (("a", 0), ("b", 12), ("c", 24)):
        measured(cluster, name, reading(memory=used))
    found = scores("Utilization", cluster, SLICE)
    assert found is not None
    assert found["a"] > found["b"] > found["c"]
    assert found["a"] - found["b"] == pytest.approx(found["b"] - found["c"])


def test_fault_unknown_models_score_0_they_are_judged_by_their_memory() -> None:
    small, large = (Cluster(cards(model="Acme 9000", memory_mib=gib * GIB)) for gib in (8, 80))
    assert 0 < score("Basic", small, WHOLE) < score("Basic", large, WHOLE)


def test_fault_the_last_node_is_skipped_it_counts_like_any_other() -> None:
    names_ = [f"n{number}" for number in range(5)]
    cluster = Cluster(*(cards().named(name) for name in names_))
    for name in names_:
        measured(cluster, name, uniformly(0 if name == names_[-1] else 4))
    assert where(cluster.place(SLICE, profile=UTILSCHED)) == {"p": names_[-1]}


def test_fault_busier_cards_are_preferred_the_idle_one_is() -> None:
    cluster = Cluster(cards().named("busy"), cards().named("idle"))
    measured(cluster, "busy", uniformly(4))
    measured(cluster, "idle", uniformly(0))
    assert where(cluster.place(SLICE, profile=UTILSCHED)) == {"p": "idle"}


# -- properties --------------------------------------------------------------------------------------------------

PER_CENT = st.integers(0, 100)


@settings(max_examples=60, deadline=None)
@given(PER_CENT, PER_CENT, PER_CENT, PER_CENT, st.floats(0, 400), st.integers(1, 24), st.integers(0, 24))
def test_the_busier_of_two_nodes_never_scores_better(
    compute: int, bandwidth: int, cpu: int, more: int, age: float, asks: int, taken: int
) -> None:
    cluster = Cluster(cards().named("a"), cards().named("b"))
    memory = min(taken, 20)
    for name, extra in (("a", 0), ("b", more)):
        text = reading(min(100, compute + extra), min(100, bandwidth + extra), memory)
        tell(cluster, name, of_cards(text, node=of_node(min(100, cpu + extra))), now=0)
    cluster.state.loads.pass_time(age)
    asking = pod("p").slice(memory_gib=asks)
    for rule in ("Utilization", "Allocated"):
        found = scores(rule, cluster, asking)
        assert found is not None
        assert 0 <= found["b"] <= found["a"] + 1e-9 <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=30),
    st.integers(1, 1 << 24),
    st.integers(1, 8),
    st.dictionaries(st.sampled_from([names.LINK_GBYTE, names.NETWORK_GBIT]), st.text(max_size=8)),
)
def test_basic_is_between_0_and_1_for_whatever_is_told(
    model: str, memory: int, count: int, labels: dict[str, str]
) -> None:
    cluster = Cluster(cards(count, model=model, memory_mib=memory).labelled(labels))
    for asking in (WHOLE, PLAIN):
        found = scores("Basic", cluster, asking)
        assert found is not None
        assert 0 < found["n"] <= 1


def test_scorers_without_any_weight_have_nothing_to_say() -> None:
    cluster, none = Cluster(cards()), 0.0
    draft, kind = cluster.state.draft(), cluster.kind(SLICE)
    assert not Basic(Basic.Options(cards=none, compute=none, memory=none, link=none, network=none)).concerns(
        kind, draft
    )
    silent = Utilization.Options(compute=none, memory_bandwidth=none, memory=none, cpu=none, io=none)
    assert not Utilization(silent).concerns(kind, draft)
    assert not Allocated(Allocated.Options(compute=none, memory=none, cpu=none)).concerns(kind, draft)
