"""What one process of the operator is told by its command line."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from alnair.api.config import Config
from alnair.extender.door import Door
from alnair.kube import Connection
from alnair.scheduling.registry import Registry


@dataclass(frozen=True, slots=True)
class RunSettings:
    connection: Connection
    config: Config
    config_path: Path | None
    registry: Registry
    lease_namespace: str
    lease_name: str
    lease_seconds: float = 15.0
    host: str = "127.0.0.1"
    metrics_port: int = 9090
    metrics_authenticate: bool = True  # on other addresses than loopback; else everybody may read them
    metrics_audiences: tuple[str, ...] = ()  # that readers' tokens must be for; () = the apiserver's own
    metrics_tls: ssl.SSLContext | None = None  # None = in the clear
    liveness_port: int = 0  # 0 = no liveness endpoint
    door: Door | None = None  # of the extender; None = there is none
    service: str = ""  # the Service of the extender that leads to the leader; empty = none does
    address: str = ""  # by which others reach this replica
    horovod_jobs: bool = True  # whether ElasticHorovodJobs are ours to reconcile
    config_map: str = ""  # in the lease's namespace, that the config file is mounted from; "" = none
