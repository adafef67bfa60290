"""Readings of profilers: numbers where they are numbers, nothing where they are not, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alnair.state.readings import LONGEST_READING, UNREADABLE, Reading, card_read, node_read
from unit.readings import reading

NOTHING = (None, None, None)
K80 = (
    "{'mem_used': '11GB', 'mem_free': '1GB', 'process_cnt': 1, 'pid-mem': [(18477, '11094MB')], "
    "'cyclic_pattern': False, 'max_mem_bw_util': 66, 'max_gpu_util': 88}"
)


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        pytest.param(K80, (0.88, 0.66, 11 / 12), id="as the profiler writes it"),
        pytest.param('{"max_gpu_util": 88, "max_mem_bw_util": 6.5}', (0.88, 0.065, None), id="JSON"),
        pytest.param('{"max_gpu_util":0}', (0.0, None, None), id="idle is told, and is not nothing"),
        pytest.param('{"max_gpu_util":100.0}', (1.0, None, None), id="all of it"),
        pytest.param("{'max_gpu_util': 1e-05}", (1e-7, None, None), id="hardly any, as Python writes it"),
        pytest.param("{'max_gpu_util': np.float64(88.0)}", (0.88, None, None), id="as NumPy 2 writes it"),
        pytest.param("{'max_mem_util': 66}", (None, 0.66, None), id="the name in the first release"),
        pytest.param("{'max_mem_cpy_util': 66}", (None, 0.66, None), id="the name in its documents"),
        pytest.param("{'mem_used': '512MiB', 'mem_free': '1536 MiB'}", (None, None, 0.25), id="other units"),
        pytest.param("{'mem_used': '0GB', 'mem_free': '0GB'}", NOTHING, id="a card without memory"),
        pytest.param("{'mem_used': '1GB'}", NOTHING, id="half of the memory tells nothing"),
        pytest.param("{}", NOTHING, id="nothing is told"),
    ],
)
def test_what_a_card_tells(text: str, loads: tuple[float | None, ...]) -> None:
    read = card_read(text)
    assert read.loads == pytest.approx(loads)
    assert read.bad == ()


@pytest.mark.parametrize(
    "value",
    [
        "NaN", "nan", "Infinity", "-Infinity", "inf", "1e999", "-1", "-0.0", "100.01", "101", "1_0", "0x10", "1e3",
        "٣", "\uff18", "'88'", '"88"', "'88%'", "88%", "True", "true", "None", "null", "b'88'", "[88]", "(88,)", "{88}",
        "{'a': 88}", "'", "", " ", "88 88", "88;", "+88", ".5", "5e", "\x00", "88\x00", "\ud800", "np.float64(88",
        "np.float64('88')", "__import__('os')", "9" * 400, "[" * 900 + "]" * 900,
    ],
)  # fmt: skip
def test_what_is_no_per_cent_is_ignored_and_named_and_the_rest_counts(value: str) -> None:
    read = card_read(f"{{'max_mem_bw_util': 66, 'max_gpu_util': {value}}}")
    assert read.loads[0] is None
    assert read.loads[1] == 0.66
    assert read.bad == ("max_gpu_util",)


@pytest.mark.parametrize(
    "size", ["'NaN'", "11", "'11'", "'-11GB'", "'1e9GB'", "'11TB'", "'٣GB'", "'9999999999GB'"]
)
def test_what_is_no_size_is_ignored_and_named_and_the_rest_counts(size: str) -> None:
    read = card_read(f"{{'mem_used': {size}, 'mem_free': '1GB', 'max_gpu_util': 88}}")
    assert read == Reading((0.88, None, None), bad=("mem_used",))


def test_what_stands_there_twice_is_ignored_for_nobody_knows_which_is_true() -> None:
    assert card_read('{"max_gpu_util": 5, "max_mem_bw_util": 6, "max_gpu_util": 90}') == Reading(
        (None, 0.06, None), bad=("max_gpu_util",)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "88",
        "[]",
        "max_gpu_util: 88",
        "b\"{'max_gpu_util': 88}\"",
        "{'max_gpu_util': 88",
        "'max_gpu_util': 88}",
    ],
)
def test_what_is_no_mapping_tells_nothing(text: str) -> None:
    assert card_read(text).loads == NOTHING
    assert card_read(text).bad == ("it is no mapping",)


def test_a_text_of_256_kib_is_not_looked_at() -> None:
    text = K80[:-1] + " " * 256 * 1024 + "}"
    assert card_read(text) == Reading(NOTHING, bad=(f"it is longer than {LONGEST_READING} characters",))
    assert node_read(text).loads == (None, None)


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("1767225600", 1767225600.0),
        ("1767225600.25", 1767225600.25),
        ("'2026-01-01T00:00:00Z'", 1767225600.0),
        ("'2026-01-01T01:00:00.5+01:00'", 1767225600.5),
        ("'2026-01-01T00:00:00'", None),  # of which place?
        ("'2026-13-01T00:00:00Z'", None),
        ("'0000-01-01T00:00:00Z'", None),
        ("1767225600000", None),  # milliseconds
        ("-1", None),
        ("NaN", None),
        ("'now'", None),
    ],
)
def test_a_reading_may_say_when_it_was_made(value: str, at: float | None) -> None:
    read = card_read(f"{{'max_gpu_util': 88, 'time': {value}}}")
    assert read == Reading((0.88, None, None), at, () if at is not None else ("time",))


def test_a_node_tells_cpu_and_io() -> None:
    assert node_read('{"cpu_util": 40, "io_util": 5.5, "time": 12}') == Reading((0.4, 0.055), 12.0)
    assert node_read("{'cpu_util': 'much'}") == Reading((None, None), bad=("cpu_util",))


def test_a_cards_size_is_read_whatever_its_loads_are() -> None:
    assert card_read(reading(compute="?", memory=11)).mib == card_read(reading(memory=11)).mib != UNREADABLE


FRAGMENTS = st.sampled_from(
    ["{", "}", "'", '"', ":", ",", " ", "max_gpu_util", "mem_used", "mem_free", "time", "'max_gpu_util': ", "88",
     "1e999", "NaN", "11GB", "np.float64(", ")", "\\", "\x00", "\ud800", "٣", "-", "True", "2026-01-01T00:00:00Z", "b'"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=60).map("".join)))
@example("{'max_gpu_util': " + "[" * 10_000)
@example("{" + "'max_gpu_util'" * 1000 + "}")
def test_whatever_stands_there_it_is_a_load_between_idle_and_busy_or_none(text: str) -> None:
    for read in (card_read(text), node_read(text)):
        assert all(load is None or 0 <= load <= 1 for load in read.loads)
        assert read.at is None or 0 <= read.at < 1e10
        assert read.mib == UNREADABLE or read.mib.isdigit()


@given(st.integers(0, 100), st.floats(0, 100), st.integers(0, 24))
def test_whatever_is_written_is_read_back(compute: int, bandwidth: float, memory: int) -> None:
    read = card_read(reading(compute, bandwidth, memory))
    assert read.loads == pytest.approx((compute / 100, bandwidth / 100, memory / 24))
    assert read.bad == ()
