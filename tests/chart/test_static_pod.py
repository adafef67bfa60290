"""deploy/static-pod.yaml: in step with the chart, and something that a kubelet can start without an apiserver."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.static_pod import HOST_FOLDER, NotPossible, of_the_chart, static_pod
from deploy.static_pod import render as render_file

FILE = Path(__file__).parents[2] / "deploy" / "static-pod.yaml"
Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]


def deployment(objects: list[Manifest]) -> Manifest:
    (found,) = (each for each in objects if each["kind"] == "Deployment")
    return found


@pytest.fixture
def pod() -> Manifest:
    read: Manifest = yaml.safe_load(FILE.read_text())
    return read


def test_the_file_is_what_the_chart_says_today() -> None:
    assert FILE.read_text() == of_the_chart(), "run `make deploy`"


def test_it_refers_to_no_object_of_an_apiserver(pod: Manifest) -> None:
    text = json.dumps(pod["spec"])
    for reference in ("configMap", "secret", "serviceAccountName", "persistentVolumeClaim", "projected"):
        assert f'"{reference}' not in text
    assert pod["spec"]["automountServiceAccountToken"] is False
    (folder,) = (each["hostPath"] for each in pod["spec"]["volumes"] if "hostPath" in each)
    assert folder == {"path": HOST_FOLDER, "type": "Directory"}


def test_it_is_restricted_but_for_the_hosts_network_and_folder(pod: Manifest) -> None:
    spec = pod["spec"]
    assert spec["hostNetwork"] is True
    assert not {"hostPID", "hostIPC"} & spec.keys()
    (operator,) = spec["containers"]
    context = {**spec["securityContext"], **operator["securityContext"]}
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == 65532
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert all(mount.get("readOnly") for mount in operator["volumeMounts"] if mount["name"] != "tmp")


def test_nobody_outside_the_host_reaches_its_ports(pod: Manifest) -> None:
    (operator,) = pod["spec"]["containers"]
    arguments = operator["args"]
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1"
    ports = {port["name"]: port["containerPort"] for port in operator["ports"]}
    for probe, name in (("livenessProbe", "liveness"), ("readinessProbe", "metrics")):
        asked = operator[probe]["httpGet"]
        assert (asked["host"], asked["port"]) == ("127.0.0.1", name)
        assert arguments[arguments.index(f"--{name}-port") + 1] == str(ports[name])


def test_it_runs_as_the_deployment_does_otherwise(render: Render, pod: Manifest) -> None:
    theirs = deployment(render(namespace="alnair-system"))["spec"]["template"]["spec"]
    for field in ("securityContext", "terminationGracePeriodSeconds"):
        assert pod["spec"][field] == theirs[field]
    (ours,), (operator,) = pod["spec"]["containers"], theirs["containers"]
    for field in ("image", "command", "env", "resources", "securityContext"):
        assert ours[field] == operator[field]
    theirs_less_token = [each for each in operator["volumeMounts"] if each["name"] != "token"]
    assert ours["volumeMounts"] == theirs_less_token, "its kubeconfig stands in for the token"


def test_values_of_your_own_reach_it(render: Render) -> None:
    made = static_pod(
        deployment(render({"image": {"tag": "mine"}, "leaseDurationSeconds": 5}, release="blue"))
    )
    (operator,) = made["spec"]["containers"]
    assert operator["image"] == "alnair:mine"
    assert operator["args"][operator["args"].index("--lease-duration") + 1] == "5"
    assert operator["args"][operator["args"].index("--lease-name") + 1] == "blue-alnair"


def test_something_else_than_the_chart_is_refused() -> None:
    with pytest.raises(NotPossible, match="0 Deployments"):
        render_file("kind: Pod\n")


def test_what_a_static_pod_cannot_have_is_refused(render: Render) -> None:
    with pytest.raises(NotPossible, match="volume extender"):
        static_pod(deployment(render({"extender": {"enabled": True}})))
