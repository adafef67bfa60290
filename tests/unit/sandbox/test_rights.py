"""The comparison of what is granted with what was used: it must be able to fail, in both ways."""

from __future__ import annotations

from typing import Any

from harness.rights import AFTER_A_CONFLICT, ASKED_BY_OTHERS, Used, findings, of_objects, of_rules

NODES = of_rules([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}])
EXCEPTED = set(ASKED_BY_OTHERS)


def entry(
    verb: str, resource: str, *, user: str = "system:serviceaccount:x:alnair", **more: Any
) -> dict[str, Any]:
    about = {
        "resource": resource,
        **{key: more.pop(key) for key in ("subresource", "apiGroup") if key in more},
    }
    uri = f"/api/v1/{resource}"
    return {"user": {"username": user}, "verb": verb, "objectRef": about, "requestURI": uri, **more}


def used(*entries: dict[str, Any]) -> Used:
    return Used.of_entries(entries)


def test_all_that_is_granted_and_used_is_no_finding() -> None:
    assert findings(NODES | EXCEPTED, used(entry("list", "nodes"), entry("watch", "nodes"))) == []


def test_a_right_that_nobody_used_is_one() -> None:
    (only,) = findings(NODES, used(entry("list", "nodes")))
    assert only.startswith("granted and never used: watch nodes (core)")


def test_what_others_use_is_not_the_operators_use() -> None:
    others = (entry(verb, "nodes", user="system:serviceaccount:x:tenant") for verb in ("list", "watch"))
    assert len(findings(NODES, used(*others))) == 2


def test_a_question_that_rbac_denied_is_a_finding_and_no_use() -> None:
    denied = entry("watch", "nodes", annotations={"authorization.k8s.io/decision": "forbid"})
    said = findings(NODES, used(entry("list", "nodes"), denied))
    assert [each.split(":")[0] for each in said] == ["granted and never used", "used and not granted"]


def test_a_role_that_came_a_moment_late_is_no_denial() -> None:
    denied = {"annotations": {"authorization.k8s.io/decision": "forbid"}}
    both = entry("list", "nodes"), entry("watch", "nodes")
    assert findings(NODES, used(entry("watch", "nodes", **denied), *both)) == []
    other = entry("watch", "nodes", user="system:serviceaccount:y:alnair", **denied)
    assert len(findings(NODES, used(other, *both))) == 1


def test_what_a_policy_refused_was_granted() -> None:
    allowed = entry("watch", "nodes", annotations={"authorization.k8s.io/decision": "allow"})
    assert findings(NODES, used(entry("list", "nodes"), allowed)) == []


def test_a_subresource_is_a_right_of_its_own() -> None:
    status = {("ai.centaurus.io", "gpuallocations/status", "update")}
    asked = entry("update", "gpuallocations", subresource="status", apiGroup="ai.centaurus.io")
    assert findings(status, used(asked)) == []
    assert len(findings(status, used(entry("update", "gpuallocations", apiGroup="ai.centaurus.io")))) == 1


def test_an_exception_that_is_none_any_more_is_a_finding() -> None:
    (group, resource, verb), *_ = ASKED_BY_OTHERS
    asked = entry(verb, resource.partition("/")[0], subresource=resource.partition("/")[2], apiGroup=group)
    (only,) = findings(EXCEPTED, used(asked))
    assert only.startswith("needs no exception")


def test_notes_of_other_planes_add_up() -> None:
    first = used(entry("list", "nodes"))
    first.add(Used.from_json(used(entry("watch", "nodes")).to_json()))
    assert findings(NODES, first) == []


def test_what_only_a_conflict_needs_may_be_used_or_not() -> None:
    for group, resource, verb in AFTER_A_CONFLICT:
        right = {(group, resource, verb)}
        assert findings(right, used()) == findings(right, used(entry(verb, resource, apiGroup=group))) == []


def test_only_roles_that_are_bound_to_the_operator_are_its_rights() -> None:
    def role(name: str, rule: dict[str, list[str]]) -> dict[str, Any]:
        return {"kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}

    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "its"},
        "subjects": [{"kind": "ServiceAccount", "name": "alnair", "namespace": "x"}],
    }
    its = role("its", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]})
    others = role("others", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    assert of_objects([its, others, binding]) == NODES
