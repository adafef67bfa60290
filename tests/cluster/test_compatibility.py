"""Manifests written for scheduler-plugins: only the schedulerName is changed."""

from __future__ import annotations

import pytest
import yaml

from harness.api import Api, at
from harness.builders import node, nodes
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import bound_pods, record_of_group

# As its users write them: minResources in requests of the whole group, a bare pod and a Job joined by the label.
MANIFESTS = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: nginx
spec:
  scheduleTimeoutSeconds: 10
  minMember: 3
  minResources:
    cpu: 300m
    memory: 300Mi
---
apiVersion: batch/v1
kind: Job
metadata:
  name: nginx
spec:
  parallelism: 2
  completions: 2
  template:
    metadata:
      labels:
        app: nginx
        scheduling.x-k8s.io/pod-group: nginx
    spec:
      schedulerName: scheduler-plugins-scheduler
      restartPolicy: Never
      containers:
      - name: nginx
        image: nginx
        resources:
          limits: {cpu: 100m, memory: 100Mi, nvidia.com/gpu: 1}
          requests: {cpu: 100m, memory: 100Mi, nvidia.com/gpu: 1}
---
apiVersion: v1
kind: Pod
metadata:
  name: nginx-launcher
  labels:
    scheduling.x-k8s.io/pod-group: nginx
spec:
  schedulerName: scheduler-plugins-scheduler
  containers:
  - name: launcher
    image: nginx
    resources:
      requests: {cpu: 100m, memory: 100Mi}
"""


@pytest.mark.delivery(wholeCards="DevicePlugin")
async def test_a_podgroup_job_and_pod_written_for_scheduler_plugins_are_scheduled(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(*nodes("gpu", 2, node("gpu").with_cards(1).owned_by("device-plugin")))
    # The other tests' nodes are out of bounds, which is the test's own affair and no part of the manifests.
    text = MANIFESTS.replace("scheduler-plugins-scheduler", operator.scheduler)
    for manifest in yaml.safe_load_all(text):
        pod_spec = manifest["spec"].get("template", manifest).get("spec")
        if manifest["kind"] != "PodGroup":
            pod_spec["nodeSelector"] = fleet.selector
        await api.create(manifest, namespace=namespace)

    await bound_pods(api, namespace, 3)
    await record_of_group(api, namespace, "nginx", phase="Bound")
    shown = await api.until(
        at("podgroups", namespace, "nginx"), lambda it: it["status"]["phase"] in ("Scheduled", "Running")
    )
    assert shown["spec"]["minResources"] == {"cpu": "300m", "memory": "300Mi"}
