"""The wire types take what a real apiserver sends: a pod that they refuse would be missing from the books."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from alnair.state import wire
from unit.builders import decoded

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "db-0",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:01:00Z",
        "deletionGracePeriodSeconds": 30,
        "labels": {"app": "db"},
        "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}],
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    },
    "spec": {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ],
        "containers": [
            {
                "name": "db",
                "image": "db",
                "ports": [{"containerPort": 1, "hostPort": 1, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": 2}, "claims": [{"name": "gpu"}]},
            }
        ],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        },
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone"}],
        "schedulingGates": [{"name": "wait"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"memory": "64Mi"},
        "nodeName": "a",
        "schedulerName": "default-scheduler",
        "priority": -10,
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "qosClass": "Burstable"},
}  # fmt: skip


def test_a_pod_with_every_field_that_matters_is_read() -> None:
    pod = decoded(POD, wire.Pod)
    assert (pod.metadata.uid, pod.spec.node_name, pod.status.phase) == ("u", "a", "Running")
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required == wire.NodeSelector([wire.NodeSelectorTerm()])
    apart = pod.spec.affinity.pod_anti_affinity
    assert apart is not None
    assert apart.required_during_scheduling_ignored_during_execution == [wire.PodAffinityTerm("zone")]
    assert pod.spec.containers[0].ports == [wire.ContainerPort(host_port=1, protocol="TCP")]
    assert pod.spec.topology_spread_constraints == [wire.SpreadConstraint("zone", 1, "DoNotSchedule")]
    claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    assert [claim and claim.claim_name for claim in claims] == ["data-db-0", None, None]


def test_null_is_as_good_as_absent_for_a_rule() -> None:
    volume = decoded({"persistentVolumeClaim": None}, wire.Volume)
    assert volume.persistent_volume_claim is None
    affinity = decoded({"nodeAffinity": None, "podAffinity": None, "podAntiAffinity": None}, wire.Affinity)
    assert affinity == wire.Affinity()
    assert (
        decoded({"preferredDuringSchedulingIgnoredDuringExecution": []}, wire.PodAffinity)
        == wire.PodAffinity()
    )


def test_the_least_pod_and_the_least_node_are_read() -> None:
    assert decoded({"metadata": {"name": "p"}}, wire.Pod).spec.containers == []
    assert decoded({"metadata": {"name": "n"}}, wire.Node).status.allocatable == {}


@pytest.mark.parametrize("manifest", [{}, {"metadata": {}}, {"metadata": {"name": 1}}, [], "pod", None])
def test_what_is_no_object_is_refused(manifest: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(manifest, wire.Pod)
