"""The chart's extender: nothing of it by default; with TLS only; whose pods the policies look at then."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import yaml

from alnair.api.config import parse_config
from alnair.api.extender import Extender
from chart.conftest import Helm

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
ON = {"enabled": True}


def of_kind(objects: list[Manifest], kind: str, name: str) -> Manifest:
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def expressions(objects: list[Manifest]) -> str:
    return "\n".join(
        yaml.safe_dump(each["spec"], width=100_000)
        for each in objects
        if each["kind"].endswith("AdmissionPolicy")
    )


def test_by_default_there_is_none_and_kube_schedulers_pods_are_not_spoken_of(render: Render) -> None:
    objects = render()
    assert not [each for each in objects if each["metadata"]["name"].endswith("-extender")]
    assert "default-scheduler" not in expressions(objects)
    (config,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert parse_config(config["data"]["config.yaml"], origin="chart").extender is None
    operator = of_kind(objects, "Deployment", "alnair")["spec"]["template"]["spec"]
    assert not any("extender" in argument for argument in operator["containers"][0]["args"])


def test_the_operator_reads_what_the_values_say(render: Render) -> None:
    values = {**ON, "profile": "alnair-cost-saving", "schedulerNames": ["default-scheduler", "two"]}
    (config,) = [each for each in render({"extender": values}) if each["kind"] == "ConfigMap"]
    said = parse_config(config["data"]["config.yaml"], origin="chart").extender
    assert said == Extender(scheduler_names=["default-scheduler", "two"], profile="alnair-cost-saving")


def test_it_listens_only_with_certificates_of_the_named_secret(render: Render) -> None:
    for given, secret in (({}, "alnair-extender"), ({"tls": {"secretName": "mine"}}, "mine")):
        operator = of_kind(render({"extender": {**ON, **given}}), "Deployment", "alnair")
        pod = operator["spec"]["template"]["spec"]
        (volume,) = [each for each in pod["volumes"] if each["name"] == "extender"]
        assert volume["secret"]["secretName"] == secret
        (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "extender"]
        arguments = pod["containers"][0]["args"]
        flags = dict(pairwise(arguments))
        assert flags["--extender-address"] == "0.0.0.0:8888"
        for flag, file in (("cert", "tls.crt"), ("key", "tls.key"), ("client-ca", "ca.crt")):
            assert flags[f"--extender-{flag}-file"] == f"{mount['mountPath']}/{file}"


def test_the_service_has_no_selector_and_the_operator_may_write_its_endpoints_and_no_others(
    render: Render,
) -> None:
    objects = render({"extender": ON})
    service = of_kind(objects, "Service", "alnair-extender")
    assert "selector" not in service["spec"]
    flags = of_kind(objects, "Deployment", "alnair")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert flags[flags.index("--extender-service") + 1] == "alnair-extender"
    limited, unlimited = of_kind(objects, "Role", "alnair-extender")["rules"]
    assert (limited["resourceNames"], limited["verbs"]) == (["alnair-extender"], ["get", "update", "delete"])
    assert unlimited == {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["create"],
    }


@pytest.mark.parametrize("whole", [False, True])
def test_the_policies_speak_of_what_kube_scheduler_sends(render: Render, whole: bool) -> None:
    said = expressions(render({"extender": {**ON, "wholeCards": whole}}))
    managed = ", ".join(f"'{each}'" for each in Extender(whole_cards=whole).managed_resources)
    assert f"[{managed}]" in said.replace("''", "'")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"profile": "nobody"}, 'extender.profile: "nobody" is none of the profiles'),
        ({"schedulerNames": ["alnair"]}, 'extender.schedulerNames: "alnair" is a profile of Alnair'),
        ({"schedulerNames": []}, "schedulerNames"),
        ({"port": 80}, "port"),
        ({"tls": {"insecure": True}}, "tls"),
    ],
)
def test_values_that_cannot_be_are_refused(
    helm: Helm, values_file: Callable[[Manifest], str], values: Manifest, why: str
) -> None:
    result = helm.template("--values", values_file({"extender": {**ON, **values}}))
    assert result.returncode != 0
    assert why in result.stderr
