"""What kube-scheduler has to be told: its configuration, as `alnair extender config` prints it.

Three things in it are not a matter of taste. `ignorable: false`: a pod that the extender cannot answer for must wait,
and not be bound without cards. `ignoredByScheduler`: no node advertises these resources, so kube-scheduler would find
none. `percentageOfNodesToScore: 100`: in a large cluster it looks at some of the nodes only, and those with cards may
not be among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from alnair.api.extender import Extender


@dataclass(frozen=True, slots=True)
class Way:
    """How kube-scheduler reaches the extender; the files are on its own machine."""

    url: str
    secret: str = ""
    server_name: str = ""
    certificate: str = ""
    key: str = ""
    authority: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError(f"--url {self.url!r} is no http(s)://HOST:PORT")

    @property
    def prefix(self) -> str:
        if not self.secret:
            return self.url
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=f"alnair:{self.secret}@{parts.netloc}"))


def kube_scheduler_configuration(
    terms: Extender, way: Way, *, weight: int = 2, timeout: str = "30s"
) -> dict[str, Any]:
    extender: dict[str, Any] = {
        "urlPrefix": way.prefix,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": weight,
        "httpTimeout": timeout,
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [
            {"name": resource, "ignoredByScheduler": True} for resource in terms.managed_resources
        ],
    }
    if urlsplit(way.url).scheme == "https":
        files = {
            "serverName": way.server_name,
            "certFile": way.certificate,
            "keyFile": way.key,
            "caFile": way.authority,
        }
        extender |= {
            "enableHTTPS": True,
            "tlsConfig": {field: value for field, value in files.items() if value},
        }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in terms.scheduler_names],
        "extenders": [extender],
    }
