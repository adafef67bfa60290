"""ElasticHorovodJobs for tests: one as a sentence, what its discovery script lists, and its launcher's kubelet.

    horovod_job("train", low=2, high=5).by(operator.scheduler).on(fleet.selector)

kwok lets every pod of a Job succeed at once. So launchers ask for a node that is not there, and the test says what
becomes of them: `launcher_is(api, ns, "Running")`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

from alnair.api import names
from harness.api import Api, Object, at
from harness.builders import Built

LAUNCHERS = f"{names.HOROVOD_ROLE}={names.LAUNCHER}"
WORKERS = f"{names.HOROVOD_ROLE}={names.WORKER}"
_HOST = re.compile(r"^echo (\S+)$")


@dataclass(frozen=True)
class HorovodJobBuilder(Built):
    def by(self, scheduler: str) -> Self:
        return self.with_(lambda it: it["spec"].update(schedulerName=scheduler))

    def on(self, selector: dict[str, str]) -> Self:
        """Where the workers may be."""
        return self.with_(lambda it: it["spec"]["workersSpec"]["podSpec"].update(nodeSelector=selector))

    def aiming_at(self, replicas: int) -> Self:
        return self._workers(targetReplicas=replicas)

    def _workers(self, **fields: Any) -> Self:
        return self.with_(lambda it: it["spec"]["workersSpec"].update(fields))


def horovod_job(name: str, *, low: int, high: int) -> HorovodJobBuilder:
    nowhere = {"nodeSelector": {"alnair.test/of": "no-test"}, "terminationGracePeriodSeconds": 0}
    return HorovodJobBuilder(
        {
            "apiVersion": names.API_HOROVOD,
            "kind": names.KIND_HOROVOD,
            "metadata": {"name": name},
            "spec": {
                "launcherSpec": {
                    "image": "horovod",
                    "pythonCommand": ["python", "train.py", "--epochs", "3"],
                    "podSpec": nowhere,
                },
                "workersSpec": {
                    "image": "horovod",
                    "minReplicas": low,
                    "maxReplicas": high,
                    "podSpec": {"terminationGracePeriodSeconds": 0},
                },
            },
        }
    )


def listed_hosts(script: Object) -> list[str]:
    """The hosts that the script in this ConfigMap prints, in order."""
    first, *lines = script["data"]["discover_hosts.sh"].splitlines()
    assert first == "#!/bin/sh"
    hosts = [_HOST.match(line) for line in lines]
    assert all(hosts), f"a line that prints no host: {lines}"
    return [host[1] for host in hosts if host is not None]


async def hosts_listed(api: Api, namespace: str, name: str, hosts: list[str], *, timeout: float = 30) -> None:
    """Waits until the job's script prints exactly these."""
    await api.until(
        at("configmaps", namespace, f"{name}-discovery"),
        lambda it: listed_hosts(it) == hosts,
        timeout=timeout,
        what=f"the script of {name} to list {hosts}",
    )


async def launcher_is(api: Api, namespace: str, phase: str, *, timeout: float = 30) -> None:
    """The test is the kubelet of the namespace's one launcher."""
    (pod,) = await api.until_all(
        at("pods", namespace), lambda pods: len(pods) == 1, labels=LAUNCHERS, timeout=timeout
    )
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
    path = at("pods", namespace, pod["metadata"]["name"], "status")
    await api.patch(path, {"status": {"phase": phase, "conditions": [ready]}})
