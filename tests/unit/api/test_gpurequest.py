"""GPU requests: each dialect means what the design says, and a contradiction is a sentence, never a guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api import names
from alnair.api.gpuchoice import CardChoice
from alnair.api.gpurequest import NO_GPU, BadRequest, CardDemand, GpuRequest, gpu_request

GPU, MEM, CORES = names.NVIDIA_GPU, names.NVIDIA_GPUMEM, names.NVIDIA_GPUCORES
PERCENTAGE = names.NVIDIA_GPUMEM_PERCENTAGE
OWN_MEM, OWN_COMPUTE = names.VGPU_MEMORY, names.VGPU_COMPUTE


def ask(
    *containers: dict[str, Any], init: Sequence[tuple[str, bool, dict[str, Any]]] = (), **annotations: str
) -> GpuRequest:
    """The request of containers a, b, … and annotations gpu_memory=… and so on; HAMi's as hami_use_gputype=…"""
    keys = {
        f"nvidia.com/{key.removeprefix('hami_').replace('_', '-')}"
        if key.startswith("hami_")
        else f"{names.PREFIX}{key.replace('_', '-')}": value
        for key, value in annotations.items()
    }
    return gpu_request(zip("abcdef", containers, strict=False), keys, init=init)


def whole_cards(container: str, cards: int) -> CardDemand:
    return CardDemand(container, cards, 0, 0, whole=True)


def slices(container: str, cards: int, memory_mib: int, compute: int = 0) -> CardDemand:
    return CardDemand(container, cards, memory_mib, compute, whole=False)


def of_memory(container: str, cards: int, percent: int, compute: int = 0) -> CardDemand:
    return CardDemand(container, cards, 0, compute, whole=False, memory_percent=percent)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"cpu": "4", "memory": "8Gi"}, [], id="no GPU"),
        pytest.param({GPU: "0"}, [], id="zero cards are none"),
        pytest.param({GPU: "0", CORES: "0"}, [], id="zero of everything is none"),
        pytest.param({GPU: "2"}, [whole_cards("a", 2)], id="whole cards"),
        pytest.param({GPU: 2}, [whole_cards("a", 2)], id="whole cards as a JSON number"),
        pytest.param({GPU: "1k"}, [whole_cards("a", 1000)], id="as the apiserver may spell 1000"),
        pytest.param(
            {GPU: "1", CORES: "0"}, [whole_cards("a", 1)], id="no compute limit beside a whole card"
        ),
        pytest.param(
            {GPU: "2", MEM: "3000"}, [slices("a", 2, 3000)], id="HAMi: a slice on each of two cards"
        ),
        pytest.param(
            {GPU: "1", MEM: "3000", CORES: "30"}, [slices("a", 1, 3000, 30)], id="HAMi: with compute"
        ),
        pytest.param({MEM: "3000"}, [slices("a", 1, 3000)], id="HAMi: memory alone is one card"),
        pytest.param(
            {GPU: "2", PERCENTAGE: "50"}, [of_memory("a", 2, 50)], id="HAMi: half of each of two cards"
        ),
        pytest.param(
            {GPU: "1", PERCENTAGE: "100", CORES: "30"},
            [of_memory("a", 1, 100, 30)],
            id="HAMi: all its memory",
        ),
        pytest.param({PERCENTAGE: "1"}, [of_memory("a", 1, 1)], id="HAMi: per cent alone is one card"),
        pytest.param(
            {GPU: "2", CORES: "50"}, [of_memory("a", 2, 100, 50)], id="HAMi: compute has all the memory"
        ),
        pytest.param({CORES: "50"}, [of_memory("a", 1, 100, 50)], id="HAMi: compute alone is one card"),
        pytest.param(
            {GPU: "1", MEM: "3000", PERCENTAGE: "50"},
            [slices("a", 1, 3000)],
            id="HAMi: MiB go before per cent",
        ),
        pytest.param(
            {GPU: "1", MEM: "0", PERCENTAGE: "50"}, [of_memory("a", 1, 50)], id="HAMi: no MiB, so per cent"
        ),
        pytest.param({OWN_MEM: "6"}, [slices("a", 1, 6144)], id="Alnair: GiB"),
        pytest.param(
            {OWN_MEM: 6, OWN_COMPUTE: 50}, [slices("a", 1, 6144, 50)], id="Alnair: GiB and per cent"
        ),
        pytest.param(
            {OWN_MEM: "6", OWN_COMPUTE: "0"}, [slices("a", 1, 6144)], id="Alnair: compute not counted"
        ),
        pytest.param({OWN_MEM: "6", GPU: "0"}, [slices("a", 1, 6144)], id="no whole card beside a slice"),
    ],
)
def test_a_container_asks_by_resource(resources: dict[str, Any], expected: list[CardDemand]) -> None:
    assert ask(resources).demands == tuple(expected)


def test_each_container_has_its_own_demand_in_order() -> None:
    request = ask({GPU: "1"}, {"cpu": "1"}, {OWN_MEM: "4", OWN_COMPUTE: "25"})
    assert request.demands == (whole_cards("a", 1), slices("c", 1, 4096, 25))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"gpu_memory": "6Gi"}, slices("a", 1, 6144)),
        ({"gpu_memory": "6000Mi"}, slices("a", 1, 6000)),
        ({"gpu_memory": "1Mi"}, slices("a", 1, 1)),
        ({"gpu_memory": "1.5Gi", "gpu_compute": "0"}, slices("a", 1, 1536)),
        ({"gpu_memory": "16G", "gpu_compute": "100"}, slices("a", 1, 15259, 100)),
        ({"gpu_memory": "6Gi", "gpu_compute": "40", "gpu_count": "4"}, slices("a", 4, 6144, 40)),
        ({"gpu_memory": "64Ti"}, slices("a", 1, 64 * 1024 * 1024)),
        ({"gpu_count": "2"}, CardDemand("a", 2, 0, 0, whole=True, named=True)),
        ({"gpu_memory": "6Gi", "gpu_container": "b"}, slices("b", 1, 6144)),
        ({"gpu_memory": "6Gi", "gpu_sharing": "shared"}, slices("a", 1, 6144)),
        (
            {"gpu_memory": "6Gi", "gpu_compute": "10", "gpu_sharing": "exclusive"},
            CardDemand("a", 1, 6144, 0, whole=True, named=True),
        ),
    ],
)
def test_the_annotations_ask_for_the_first_container(
    annotations: dict[str, str], expected: CardDemand
) -> None:
    assert ask({"cpu": "1"}, {"cpu": "2"}, **annotations).demands == (expected,)


def test_models_are_a_list_in_order_without_repeats() -> None:
    assert ask({GPU: "1"}, gpu_model="Tesla K80, A100,A100").choice.models == ("Tesla K80", "A100")


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({GPU: "2"}, whole_cards("a", 2), id="whole cards are so anyway"),
        pytest.param(
            {GPU: "2", MEM: "3000"},
            CardDemand("a", 2, 3000, 0, whole=True),
            id="a device plugin would hear of it",
        ),
        pytest.param({PERCENTAGE: "50"}, CardDemand("a", 1, 0, 0, whole=True, named=True), id="any card has half"),
        pytest.param({OWN_MEM: "6"}, CardDemand("a", 1, 6144, 0, whole=True, named=True), id="and here it would not"),
    ],
)  # fmt: skip
def test_exclusive_slices_are_whole_cards_of_that_size(
    resources: dict[str, Any], expected: CardDemand
) -> None:
    request = ask(resources, gpu_sharing="exclusive")
    assert request.demands == (expected,)
    assert request.from_plugin is not expected.named


def test_init_containers_come_first_and_say_what_they_are() -> None:
    request = ask(
        {GPU: "1"},
        {OWN_MEM: "2"},
        init=[("i", False, {GPU: "2"}), ("s", True, {MEM: "100"}), ("n", False, {})],
    )
    first, beside, one, two = request.demands
    assert [(each.container, each.stage) for each in request.demands] == [
        ("i", "Init"),
        ("s", "Sidecar"),
        ("a", ""),
        ("b", ""),
    ]
    assert request.moments == ((first,), (beside, one, two))


def test_the_annotation_may_mean_an_init_container() -> None:
    request = ask({}, init=[("i", False, {})], gpu_memory="6Gi", gpu_container="i")
    assert [(each.container, each.stage) for each in request.demands] == [("i", "Init")]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"gpu_model": "A10", "gpu_model_not": "T4"}, CardChoice(models=("A10",), models_not=("T4",))),
        ({"hami_use_gputype": "a100, V100"}, CardChoice(parts=("A100", "V100"))),
        ({"hami_nouse_gputype": "1080"}, CardChoice(parts_not=("1080",))),
        ({"gpu_uuid": "GPU-1,n/3", "hami_use_gpuuuid": "GPU-2"}, CardChoice(cards=("GPU-1", "n/3", "GPU-2"))),
        ({"gpu_uuid_not": "GPU-1", "hami_nouse_gpuuuid": "GPU-2"}, CardChoice(cards_not=("GPU-1", "GPU-2"))),
    ],
)
def test_which_cards_are_wanted(annotations: dict[str, str], expected: CardChoice) -> None:
    assert ask({GPU: "1"}, **annotations).choice == expected


@pytest.mark.parametrize(
    ("choice", "liked"),
    [
        pytest.param(CardChoice(), True, id="no wish"),
        pytest.param(CardChoice(models=("NVIDIA-A100-SXM4-40GB",)), True, id="the model"),
        pytest.param(CardChoice(models=("A100",)), False, id="ours is no part of a name"),
        pytest.param(CardChoice(models_not=("NVIDIA-A100-SXM4-40GB",)), False, id="not this model"),
        pytest.param(CardChoice(models_not=("A100",)), True, id="not another"),
        pytest.param(CardChoice(parts=("T4", "SXM4")), True, id="HAMi's is a part, one of several"),
        pytest.param(CardChoice(parts=("T4",)), False, id="another part"),
        pytest.param(CardChoice(parts=("A100",), parts_not=("40GB",)), False, id="such, but not of these"),
    ],
)
def test_which_models_are_liked(choice: CardChoice, liked: bool) -> None:
    assert choice.likes_model("NVIDIA-A100-SXM4-40GB") is liked


def test_a_part_of_a_model_is_found_whatever_its_case() -> None:
    assert ask({GPU: "1"}, hami_use_gputype="rTx").choice.likes_model("GeForce Rtx 3090")


@pytest.mark.parametrize(
    ("choice", "liked"),
    [
        pytest.param(CardChoice(cards=("GPU-1",)), True, id="by UUID"),
        pytest.param(CardChoice(cards=("n/3",)), True, id="by node and index"),
        pytest.param(CardChoice(cards=("GPU-2", "n/4")), False, id="others"),
        pytest.param(CardChoice(cards_not=("n/3",)), False, id="not this one"),
        pytest.param(CardChoice(cards_not=("GPU-2",)), True, id="not another"),
    ],
)
def test_which_cards_are_liked(choice: CardChoice, liked: bool) -> None:
    assert choice.likes_card("GPU-1", "n/3") is liked


def test_models_alone_ask_for_nothing() -> None:
    assert ask({"cpu": "1"}, gpu_model="A100") is NO_GPU


REFUSED = [
    pytest.param({GPU: "1", PERCENTAGE: "101"}, {}, PERCENTAGE, "0 to 100", id="per cent above 100"),
    pytest.param({GPU: "1", PERCENTAGE: "0"}, {}, PERCENTAGE, "no memory", id="zero per cent"),
    pytest.param({GPU: "0", PERCENTAGE: "5"}, {}, PERCENTAGE, "part of no card", id="per cent of no card"),
    pytest.param({GPU: "0", CORES: "5"}, {}, CORES, "part of no card", id="compute of no card"),
    pytest.param({PERCENTAGE: "5", OWN_MEM: "6"}, {}, PERCENTAGE, "one kind of slice", id="two dialects by per cent"),
    pytest.param({}, {"gpu_sharing": "alone"}, names.GPU_SHARING, "neither", id="sharing in other words"),
    pytest.param({}, {"gpu_count": "2", "gpu_sharing": "shared"}, names.GPU_SHARING, "whole cards", id="whole, shared"),
    pytest.param({}, {"gpu_memory": "6Gi", "gpu_container": "x"}, names.GPU_CONTAINER, "is no container", id="whose"),
    pytest.param({}, {"gpu_count": "2", "gpu_uuid": "GPU-1"}, names.GPU_UUID, "names 1 card", id="too few UUIDs"),
    pytest.param(
        {}, {"gpu_memory": "1Gi", "gpu_count": "3", "hami_use_gpuuuid": "a,b"}, names.HAMI_USE_UUID, "names 2 cards",
        id="too few UUIDs for slices",
    ),
    pytest.param({}, {"gpu_model": "A,B", "gpu_model_not": "B"}, names.GPU_MODEL, "denied", id="model both ways"),
    pytest.param({}, {"gpu_model": "A100", "hami_nouse_gputype": "a1"}, names.GPU_MODEL, "denied", id="by HAMi's list"),
    pytest.param(
        {}, {"hami_use_gputype": "A100", "hami_nouse_gputype": "a1"}, names.HAMI_USE_TYPE, "denied", id="HAMi's own"
    ),
    pytest.param({}, {"gpu_uuid": "x", "gpu_uuid_not": "x"}, names.GPU_UUID, "denied", id="card both ways"),
    pytest.param({}, {"hami_nouse_gputype": "A,"}, names.HAMI_NO_USE_TYPE, "empty entry", id="HAMi: empty entry"),
    pytest.param({}, {"gpu_uuid": "x" * 259}, names.GPU_UUID, "258", id="long card"),
    pytest.param({OWN_MEM: "6", OWN_COMPUTE: "101"}, {}, OWN_COMPUTE, "0 to 100", id="compute above 100"),
    pytest.param({GPU: "1", MEM: "1", CORES: "101"}, {}, CORES, "0 to 100", id="cores above 100"),
    pytest.param({OWN_COMPUTE: "50"}, {}, OWN_COMPUTE, "without memory", id="compute without memory"),
    pytest.param({OWN_MEM: "0"}, {}, OWN_MEM, "no memory", id="zero GiB"),
    pytest.param({GPU: "1", MEM: "0"}, {}, MEM, "no memory", id="zero MiB"),
    pytest.param({GPU: "0", MEM: "5"}, {}, MEM, "part of no card", id="memory on no card"),
    pytest.param({GPU: "1", OWN_MEM: "6"}, {}, GPU, "one kind of slice", id="whole card and slice"),
    pytest.param({GPU: "1", OWN_COMPUTE: "6"}, {}, GPU, "one kind of slice", id="whole card and own compute"),
    pytest.param({MEM: "5", OWN_MEM: "6"}, {}, MEM, "one kind of slice", id="two dialects"),
    pytest.param({CORES: "5", OWN_MEM: "6"}, {}, CORES, "one kind of slice", id="two dialects by compute"),
    pytest.param({GPU: "1025"}, {}, GPU, "1024", id="too many cards"),
    pytest.param({GPU: "500m"}, {}, GPU, "whole number", id="half a card"),
    pytest.param({OWN_MEM: "65537"}, {}, OWN_MEM, "65536", id="too many GiB"),
    pytest.param({MEM: "67108865"}, {}, MEM, "67108864", id="too many MiB"),
    pytest.param({GPU: "NaN"}, {}, GPU, "not a quantity", id="NaN"),
    pytest.param({GPU: "-1"}, {}, GPU, "negative", id="negative"),
    pytest.param({GPU: "1_000"}, {}, GPU, "not a quantity", id="underscore"),
    pytest.param({GPU: "٣"}, {}, GPU, "not a quantity", id="Arabic digit"),
    pytest.param({GPU: "1e999999999999"}, {}, GPU, "exponent", id="absurd exponent"),
    pytest.param({GPU: "1"}, {"gpu_memory": "6Gi"}, names.GPU_MEMORY, "container 'a'", id="both ways"),
    pytest.param({}, {"gpu_compute": "50"}, names.GPU_COMPUTE, names.GPU_MEMORY, id="compute, no memory"),
    pytest.param({}, {"gpu_memory": "6000"}, names.GPU_MEMORY, "unit", id="no unit"),
    pytest.param({}, {"gpu_memory": "6e9"}, names.GPU_MEMORY, "unit", id="an exponent is no unit"),
    pytest.param({}, {"gpu_memory": "9000000m"}, names.GPU_MEMORY, "unit", id="milli is no unit of bytes"),
    pytest.param({}, {"gpu_memory": "1023Ki"}, names.GPU_MEMORY, "1Mi", id="below 1Mi"),
    pytest.param({}, {"gpu_memory": "0Gi"}, names.GPU_MEMORY, "1Mi", id="zero"),
    pytest.param({}, {"gpu_memory": "65Ti"}, names.GPU_MEMORY, "most", id="more than any card"),
    pytest.param({}, {"gpu_memory": "-6Gi"}, names.GPU_MEMORY, "negative", id="negative memory"),
    pytest.param({}, {"gpu_memory": ""}, names.GPU_MEMORY, "not a quantity", id="empty memory"),
    pytest.param({}, {"gpu_memory": "6Gi", "gpu_compute": "101"}, names.GPU_COMPUTE, "0 to 100", id="compute 101"),
    pytest.param({}, {"gpu_memory": "6Gi", "gpu_compute": "50%"}, names.GPU_COMPUTE, "0 to 100", id="per cent sign"),
    pytest.param({}, {"gpu_memory": "6Gi", "gpu_count": "0"}, names.GPU_COUNT, "1 to 1024", id="count 0"),
    pytest.param({}, {"gpu_memory": "6Gi", "gpu_count": "1025"}, names.GPU_COUNT, "1 to 1024", id="count 1025"),
    pytest.param({}, {"gpu_model": ""}, names.GPU_MODEL, "empty entry", id="no model"),
    pytest.param({}, {"gpu_model": "A100,,V100"}, names.GPU_MODEL, "empty entry", id="empty model"),
    pytest.param({}, {"gpu_model": "A\n100"}, names.GPU_MODEL, "printable", id="newline in a model"),
    pytest.param({}, {"gpu_model": "Ä100"}, names.GPU_MODEL, "printable", id="model not ASCII"),
    pytest.param({}, {"gpu_model": "x" * 129}, names.GPU_MODEL, "128", id="long model"),
    pytest.param({}, {"gpu_model": ",".join(map(str, range(33)))}, names.GPU_MODEL, "32", id="33 models"),
    pytest.param({}, {"gpu_model": "x" * 262_144}, names.GPU_MODEL, "too long", id="256 KiB of model"),
]  # fmt: skip


@pytest.mark.parametrize(("resources", "annotations", "field", "advice"), REFUSED)
def test_a_contradiction_is_refused_by_field_value_and_advice(
    resources: dict[str, Any], annotations: dict[str, str], field: str, advice: str
) -> None:
    with pytest.raises(BadRequest) as refusal:
        ask(resources, **annotations)
    message = str(refusal.value)
    assert f"{field}: " in message
    assert advice in message
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 400
    assert ("container a: " in message) == bool(resources and not annotations)


def test_more_gpu_containers_than_a_record_lists_are_refused() -> None:
    many = [(f"i{number}", False, {GPU: "1"}) for number in range(128)]
    assert len(ask({}, init=many).demands) == 128
    with pytest.raises(BadRequest, match="128 is the most"):
        ask({GPU: "1"}, init=many)


def test_annotations_on_a_pod_without_containers_are_refused() -> None:
    with pytest.raises(BadRequest, match="without containers"):
        ask(gpu_memory="6Gi")


VALUES = st.one_of(
    st.integers(-2, 2000),
    st.integers(0, 2000).map(str),
    st.sampled_from(["1Gi", "5k", "10m", "NaN", "", "٣"]),
)
TEXTS = st.one_of(
    st.integers(0, 2000).map(str),
    st.integers(0, 99).map("{}Gi".format),
    st.sampled_from(["A100", "a,,b", "", "6Mi", "-1Gi", "exclusive", "shared", "a", "i"]),
)


@given(
    containers=st.lists(st.dictionaries(st.sampled_from(sorted(names.GPU_RESOURCES)), VALUES), max_size=3),
    init=st.lists(
        st.tuples(
            st.sampled_from("ijk"),
            st.booleans(),
            st.dictionaries(st.sampled_from(sorted(names.GPU_RESOURCES)), VALUES),
        ),
        max_size=2,
        unique_by=lambda each: each[0],
    ),
    annotations=st.dictionaries(
        st.sampled_from(
            [
                names.GPU_MEMORY,
                names.GPU_COMPUTE,
                names.GPU_COUNT,
                names.GPU_SHARING,
                names.GPU_CONTAINER,
                *sorted(names.CHOICE_ANNOTATIONS),
            ]
        ),
        TEXTS,
    ),
)
def test_whatever_is_asked_is_a_request_within_bounds_or_a_refusal(
    containers: list[dict[str, Any]],
    init: list[tuple[str, bool, dict[str, Any]]],
    annotations: dict[str, str],
) -> None:
    try:
        request = gpu_request(zip("abc", containers, strict=False), annotations, init=init)
    except BadRequest:
        return
    for demand in request.demands:
        assert 1 <= demand.cards <= 1024
        assert 0 <= demand.compute_percent <= 100
        if demand.whole:
            assert (demand.compute_percent, demand.memory_percent) == (0, 0)
        else:
            assert bool(demand.memory_mib) is not bool(demand.memory_percent)
        assert 0 <= demand.memory_mib <= 64 * 1024 * 1024
        assert 0 <= demand.memory_percent <= 100
        assert 0 <= demand.memory_on(81920) <= max(demand.memory_mib, 81920)
    assert {demand for moment in request.moments for demand in moment} == set(request.demands)
    assert len({demand.container for demand in request.demands}) == len(request.demands)
