"""Whatever a file says: it is refused, or what comes of it can be run and leaves nothing of it unmentioned."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from alnair.api.config import parse_config
from alnair.scheduling.importing import Unreadable, import_profiles, written
from alnair.scheduling.importing.equivalents import NO_PRIORITY, PREDICATES, PRIORITIES
from alnair.scheduling.profile import build
from unit.scheduling.importing import samples

labels = st.sampled_from(["zone", "example.com/rack", "a", "b"])
predicates = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from([*PREDICATES, "OfMyOwn"])}),
    st.fixed_dictionaries(
        {
            "name": st.text(min_size=1, max_size=10),
            "argument": st.one_of(
                st.fixed_dictionaries(
                    {"serviceAffinity": st.fixed_dictionaries({"labels": st.lists(labels)})}
                ),
                st.fixed_dictionaries(
                    {
                        "labelsPresence": st.fixed_dictionaries(
                            {"labels": st.lists(labels), "presence": st.booleans()}
                        )
                    }
                ),
            ),
        }
    ),
)
weights = st.one_of(st.integers(1, 100), st.integers(1, 10**15))
priorities = st.one_of(
    st.fixed_dictionaries(
        {"name": st.sampled_from([*PRIORITIES, *NO_PRIORITY, "OfMyOwn"]), "weight": weights}
    ),
    st.fixed_dictionaries(
        {
            "name": st.text(min_size=1, max_size=10),
            "weight": weights,
            "argument": st.one_of(
                st.fixed_dictionaries({"serviceAntiAffinity": st.fixed_dictionaries({"label": labels})}),
                st.fixed_dictionaries(
                    {"labelPreference": st.fixed_dictionaries({"label": labels, "presence": st.booleans()})}
                ),
                st.just({"requestedToCapacityRatioArguments": {"shape": [{"utilization": 10, "score": 3}]}}),
            ),
        }
    ),
)
policies = st.fixed_dictionaries(
    {"kind": st.just("Policy"), "apiVersion": st.just("v1")},
    optional={
        "predicates": st.none() | st.lists(predicates, max_size=8),
        "priorities": st.none() | st.lists(priorities, max_size=8),
        "hardPodAffinitySymmetricWeight": st.integers(0, 100),
        "alwaysCheckAllPredicates": st.booleans(),
        "extenders": st.lists(st.fixed_dictionaries({"urlPrefix": st.text(max_size=9)}), max_size=2),
    },
)

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "predicates",
    "priorities",
    "extenders",
    "profiles",
    "plugins",
    "pluginConfig",
    "name",
    "weight",
    "argument",
]
bent = st.dictionaries(
    st.sampled_from(FIELDS),
    junk | st.lists(st.dictionaries(st.sampled_from(FIELDS), junk, max_size=3), max_size=2),
    max_size=4,
)


def run(text: str | bytes, *, exact: bool = False) -> None:
    """Refused with a message, or read, built and printed."""
    refusal = ""
    try:
        profiles = import_profiles(text, origin="f", exact=exact)
    except Unreadable as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith("f: ")
        return
    for profile in parse_config(written(profiles), origin="printed").profiles:
        build(profile)


@settings(max_examples=50, deadline=None)
@given(policies, st.booleans())
def test_a_right_policy_is_always_taken_and_nothing_of_it_goes_unmentioned(
    policy: dict[str, Any], exact: bool
) -> None:
    text = json.dumps(policy)
    run(text, exact=exact)
    (profile,) = import_profiles(text, origin="f", exact=exact)
    told = [remark.where for remark in profile.remarks]
    for number, predicate in enumerate(policy.get("predicates") or ()):
        assert predicate["name"] in profile.named or f"predicates[{number}] {predicate['name']}" in told
    scored = {origin for taken in profile.scorers for origin in taken.origins}
    for number, priority in enumerate(policy.get("priorities") or ()):
        assert priority["name"] in scored or f"priorities[{number}] {priority['name']}" in told
    assert sum(where.startswith("extenders") for where in told) == len(policy.get("extenders") or ())


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["Policy", "KubeSchedulerConfiguration"]), bent)
def test_a_bent_file_is_refused_with_a_message_or_can_be_run(kind: str, rest: dict[str, Any]) -> None:
    version = "v1" if kind == "Policy" else "kubescheduler.config.k8s.io/v1"
    run(json.dumps({"kind": kind, "apiVersion": version, **rest}))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200) | junk.map(json.dumps))
@example("\ufeff" + samples.CLASSIC)
@example(b"kind: !!python/object/apply:os.system [id]")
def test_junk_is_refused_with_a_message(content: str | bytes) -> None:
    run(content)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_is_refused_with_a_message_or_can_be_run(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([*samples.POLICIES, *samples.CONFIGURATIONS]))
    run(text[: data.draw(st.integers(0, len(text)))])
