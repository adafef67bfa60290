"""The chart's metrics: read by those whom the apiserver lets, by default; what is asked for is granted, and no more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from chart.conftest import Helm
from deploy.static_pod import NotPossible, static_pod

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
REVIEWS = {"tokenreviews", "subjectaccessreviews"}


def pod_of(objects: list[Manifest]) -> Manifest:
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    pod: Manifest = deployment["spec"]["template"]["spec"]
    return pod


def arguments(objects: list[Manifest]) -> list[str]:
    (operator,) = pod_of(objects)["containers"]
    words: list[str] = operator["args"]
    return words


def cluster_roles(objects: list[Manifest]) -> dict[str, list[Manifest]]:
    return {each["metadata"]["name"]: each["rules"] for each in objects if each["kind"] == "ClusterRole"}


def asked_for(roles: dict[str, list[Manifest]]) -> set[str]:
    return {each for rules in roles.values() for rule in rules for each in rule.get("resources", [])}


def test_by_default_readers_are_asked_who_they_are_and_there_is_a_role_for_them_bound_to_nobody(
    render: Render,
) -> None:
    objects = render(release="blue", namespace="gpu")
    assert not [word for word in arguments(objects) if "authenticate" in word]
    roles = cluster_roles(objects)
    reader = "alnair:gpu:blue:blue-alnair:metrics-reader"
    assert roles[reader] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert asked_for(roles) >= REVIEWS
    bindings = [each for each in objects if each["kind"] == "ClusterRoleBinding"]
    assert bindings
    assert reader not in [each["roleRef"]["name"] for each in bindings]


def test_where_nobody_is_asked_there_is_neither_right_nor_role(render: Render) -> None:
    objects = render({"metrics": {"authenticate": False}})
    assert "--no-metrics-authenticate" in arguments(objects)
    roles = cluster_roles(objects)
    assert len(roles) == 1
    assert not asked_for(roles) & REVIEWS


def test_the_audiences_of_the_values_reach_the_operator(render: Render) -> None:
    words = arguments(render({"metrics": {"audiences": ["alnair-metrics", "https://two.example"]}}))
    given = [value for flag, value in pairwise(words) if flag == "--metrics-audience"]
    assert given == ["alnair-metrics", "https://two.example"]


def test_with_a_certificate_the_kubelets_probe_speaks_tls_too(render: Render) -> None:
    for values, scheme in (({}, None), ({"metrics": {"tlsSecretName": "mine"}}, "HTTPS")):
        objects = render(values)
        (operator,) = pod_of(objects)["containers"]
        assert operator["readinessProbe"]["httpGet"].get("scheme") == scheme
        assert "scheme" not in operator["livenessProbe"]["httpGet"], "Kopf's port has none"
        mounts = {each["name"]: each["mountPath"] for each in operator["volumeMounts"]}
        secrets = {each["name"]: each["secret"] for each in pod_of(objects)["volumes"] if "secret" in each}
        flags = dict(pairwise(arguments(objects)))
        if scheme is None:
            assert not secrets
            assert not flags.keys() & {"--metrics-cert-file", "--metrics-key-file"}
        else:
            assert secrets["metrics"]["secretName"] == "mine"
            assert flags["--metrics-cert-file"] == f"{mounts['metrics']}/tls.crt"
            assert flags["--metrics-key-file"] == f"{mounts['metrics']}/tls.key"


def test_a_static_pod_has_no_secret_to_read_a_certificate_from(render: Render) -> None:
    objects = render({"metrics": {"tlsSecretName": "mine"}})
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    with pytest.raises(NotPossible, match=r"volume metrics.*metrics\.tlsSecretName"):
        static_pod(deployment)


@pytest.mark.parametrize(
    "values",
    [
        {"authenticate": "no"},
        {"audiences": "metrics"},
        {"audiences": [""]},
        {"audiences": ["a b"]},
        {"audiences": ["a", "a"]},
        {"tlsSecretName": "No Name"},
        {"anonymous": True},
    ],
    ids=str,
)
def test_values_that_cannot_be_are_refused(
    helm: Helm, values_file: Callable[[Manifest], str], values: Manifest
) -> None:
    result = helm.template("--values", values_file({"metrics": values}))
    assert result.returncode != 0
    assert "metrics" in result.stderr
