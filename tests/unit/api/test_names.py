"""Names: what is written on objects is valid there, and two owners never share a record."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api.names import label_value, record_name

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
owner_names = st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253)


def test_a_record_is_named_by_owner_and_digits_of_its_uid() -> None:
    uid = "0c9be9d5-5b2e-4d38-a2a1-0d0f0a3a3f9a"
    assert record_name("team", uid) == "team-" + hashlib.sha256(uid.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    "name", ["a" * 253, "a" * 243 + "." + "b" * 9, "a" * 242 + ".b.c" + "d" * 7, "ab." * 84 + "c"]
)
def test_a_long_name_is_cut_and_the_digits_stay(name: str) -> None:
    record = record_name(name, "uid")
    assert len(record) <= 253
    assert SUBDOMAIN.fullmatch(record)
    assert record.endswith(record_name("x", "uid")[1:])


@given(owner_names, st.text(min_size=1))
def test_a_record_name_is_a_valid_object_name_and_always_the_same(name: str, uid: str) -> None:
    record = record_name(name, uid)
    assert len(record) <= 253
    assert SUBDOMAIN.fullmatch(record)
    assert record == record_name(name, uid)


@given(owner_names, st.uuids(), st.uuids())
def test_namesakes_have_records_of_their_own(name: str, one: object, other: object) -> None:
    assert (record_name(name, str(one)) == record_name(name, str(other))) == (one == other)


@given(st.text(max_size=300))
def test_a_label_value_is_valid_for_any_text(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert LABEL.fullmatch(value)


@given(st.from_regex(LABEL, fullmatch=True).filter(lambda text: len(text) <= 63))
def test_a_valid_label_value_stays_as_it_is(text: str) -> None:
    assert label_value(text) == text


def test_long_names_that_differ_at_the_end_get_two_labels() -> None:
    assert label_value("a" * 80 + "1") != label_value("a" * 80 + "2")


def test_a_lone_surrogate_makes_a_name_like_any_other() -> None:
    assert record_name("a", "\ud800") != record_name("a", "\udfff")
