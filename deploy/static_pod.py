"""Makes a static pod of the chart's Deployment: `helm template … | python -m deploy.static_pod`.

A kubelet starts a static pod from a file before there is an apiserver to ask, so it may refer to no ConfigMap, Secret
or ServiceAccount: the config and the kubeconfig come from one folder of the host. Everything else is what the chart
says, so that the two never drift apart. A part of the chart that cannot be had this way is refused, never dropped in
silence.
"""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from alnair.sandbox.access import find_helm

Manifest = dict[str, Any]

CHART = Path(__file__).parents[1] / "charts" / "alnair"
HOST_FOLDER = "/etc/kubernetes/alnair"
"""On the host: `config.yaml` and `kubeconfig`, readable by the user 65532. A folder and not two files, so that a file
that is replaced is seen in the pod, too."""

METRICS_PORT, LIVENESS_PORT = 10290, 10291
"""On the host's loopback, beside those of the control plane (10257, 10259)."""

HEADER = """\
# Alnair as a static pod, for control-plane nodes: written by `make deploy` from the chart, do not edit. docs/install.md
# says what must be installed before, and what the folder {folder} of the host must hold.
"""

OF_SCHEDULERS_ONLY = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "imagePullSecrets",
)
"""A static pod is where its file is, whatever these say, and pull secrets are objects."""


class NotPossible(Exception):
    """The chart's pod has something that a static pod cannot have."""


def static_pod(deployment: Manifest) -> Manifest:
    """The pod of that Deployment, as a kubelet can run it without an apiserver."""
    template = copy.deepcopy(deployment["spec"]["template"])
    spec = template["spec"]
    (operator,) = spec["containers"]
    for field in OF_SCHEDULERS_ONLY:
        spec.pop(field, None)
    spec.pop("serviceAccountName")
    spec["automountServiceAccountToken"] = False
    # As kubeadm's: there before the network of pods is, and never put off for another pod.
    spec["hostNetwork"] = True
    spec["priorityClassName"] = "system-node-critical"
    _without_token(spec, operator)
    spec["volumes"] = [_volume(each) for each in spec["volumes"]]
    operator["args"] = _arguments(operator["args"])
    _to_loopback(operator)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": deployment["metadata"]["name"],
            "namespace": deployment["metadata"]["namespace"],
            # Not the Deployment's: the chart's Service reaches nobody on a loopback.
            "labels": {"component": "alnair", "tier": "control-plane"},
        },
        "spec": spec,
    }


def _without_token(spec: Manifest, operator: Manifest) -> None:
    """The kubeconfig stands in for the ServiceAccount's token."""
    tokens = [each["name"] for each in spec["volumes"] if "projected" in each]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] not in tokens]
    operator["volumeMounts"] = [each for each in operator["volumeMounts"] if each["name"] not in tokens]


def _volume(volume: Manifest) -> Manifest:
    if "configMap" in volume:
        return {"name": volume["name"], "hostPath": {"path": HOST_FOLDER, "type": "Directory"}}
    if "emptyDir" in volume:
        return volume
    (kind,) = volume.keys() - {"name"}
    raise NotPossible(
        f"volume {volume['name']}: a static pod cannot have one of kind {kind}; what needs it (extender, "
        "metrics.tlsSecretName) is had by the Deployment alone"
    )


def _arguments(arguments: list[str]) -> list[str]:
    """The kubeconfig beside the config; ports on the loopback only, which the whole host shares."""
    changed = list(arguments)
    for flag, value in (
        ("--host", "127.0.0.1"),
        ("--metrics-port", str(METRICS_PORT)),
        ("--liveness-port", str(LIVENESS_PORT)),
    ):
        changed[changed.index(flag) + 1] = value
    folder = Path(changed[changed.index("--config") + 1]).parent
    return [*changed, "--kubeconfig", str(folder / "kubeconfig")]


def _to_loopback(operator: Manifest) -> None:
    numbers = {"metrics": METRICS_PORT, "liveness": LIVENESS_PORT}
    for port in operator["ports"]:
        port["containerPort"] = port["hostPort"] = numbers[port["name"]]
        port["hostIP"] = "127.0.0.1"
    for probe in ("livenessProbe", "readinessProbe"):
        operator[probe]["httpGet"]["host"] = "127.0.0.1"


def render(objects: str) -> str:
    """The file, from the objects that `helm template` printed."""
    found = [each for each in yaml.safe_load_all(objects) if each and each["kind"] == "Deployment"]
    if len(found) != 1:
        raise NotPossible(f"{len(found)} Deployments in what was given; `helm template` of the chart has one")
    body = yaml.safe_dump(static_pod(found[0]), sort_keys=False, width=120)
    return HEADER.format(folder=HOST_FOLDER) + body


def of_the_chart() -> str:
    """The file as it lies in the repository: from the chart's own values."""
    template = ["template", "alnair", str(CHART), "--namespace", "alnair-system", "--kube-version", "1.36.3"]
    return render(subprocess.run([find_helm(), *template], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a static pod of what `helm template` prints.")
    parser.add_argument(
        "--write", type=Path, help="of the chart's own values, into this file; else standard input to output"
    )
    asked = parser.parse_args()
    try:
        if asked.write is not None:
            asked.write.write_text(of_the_chart(), "utf-8")
        else:
            sys.stdout.write(render(sys.stdin.read()))
    except NotPossible as problem:
        sys.exit(f"static_pod: {problem}")


if __name__ == "__main__":
    main()
