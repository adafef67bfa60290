"""What the sandbox runs, with which flags: etcd, kube-apiserver, kube-controller-manager, kwok, kube-scheduler.

One folder holds everything, so that any number of sandboxes live on one machine, for any user. The only
network port is the apiserver's, on the loopback address; it is held for the sandbox's whole life, so that an
apiserver that is killed comes back at the same address. Nothing here speaks to any other cluster.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alnair.sandbox.access import Access, RequestFailed
from alnair.sandbox.binaries import Binaries
from alnair.sandbox.credentials import (
    User,
    audit_policy,
    authority,
    kubeconfig,
    new_user,
    signing_key,
    token_file,
    write_private,
)
from alnair.sandbox.processes import Child, ChildFailed

SOCKET_PATH_LIMIT = 107
"""The kernel's limit for the path of a Unix socket, in bytes."""

STOP_ORDER = ("kube-scheduler", "kwok", "kube-controller-manager", "kube-apiserver", "etcd")

POD_RANGE = "10.128.0.0/9"
SERVICE_RANGE = "10.96.0.0/16"

# A loaded machine must not make healthy nodes look dead: kwok renews a node's Lease every quarter of its
# duration, and only ten missed renewals make the controller-manager doubt the node.
NODE_LEASE_SECONDS = 120
NODE_GRACE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Options:
    """What differs between sandboxes. The defaults are what tests and the demo use."""

    scheduler: bool = False
    scheduler_config: Path | None = None
    """A KubeSchedulerConfiguration as JSON, without `clientConnection`: the sandbox fills it in."""
    controller_manager: bool = True
    """Without it nothing binds volumes, taints nodes or makes ServiceAccounts: what is written stays as written."""
    kwok: bool = True
    audit: bool = True
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    apiserver_flags: Sequence[str] = ()
    stages: Sequence[Path] | None = None
    """Stage files for kwok instead of the fast ones, which finish a Job's pods as soon as they run."""
    node_lease_seconds: int = NODE_LEASE_SECONDS


class ControlPlane:
    """etcd -> kube-apiserver -> kube-controller-manager, kwok and perhaps kube-scheduler.

    Children die with the thread that called `start` or `start_program`: call them from the main thread.
    """

    def __init__(self, directory: Path, binaries: Binaries, options: Options | None = None) -> None:
        self.directory = directory.absolute()
        self.binaries = binaries
        self.options = options or Options()
        self.etcd_socket = self.directory / "etcd.sock"
        if len(str(self.etcd_socket).encode()) > SOCKET_PATH_LIMIT:
            raise ValueError(
                f"the folder {self.directory} has too long a path for etcd's socket: choose one of at most"
                f" {SOCKET_PATH_LIMIT - len('/etcd.sock')} bytes"
            )
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs = self.directory / "logs"
        self.logs.mkdir(exist_ok=True)
        self.access = Access(
            directory=self.directory,
            kubeconfig=self.directory / "admin.kubeconfig",
            audit_log=self.logs / "audit.log",
            kubectl_program=binaries["kubectl"],
        )
        self.users: dict[str, User] = {}
        self.children: dict[str, Child] = {}
        self.reserved: socket.socket | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.access.kubeconfig

    # -- the whole

    def start(self, *, timeout: float = 90) -> None:
        """Starts everything and returns when it works. What was started is stopped again if something fails."""
        try:
            self._write_credentials()
            self.reserved = reserve_port()
            self.start_program("etcd", timeout=timeout)
            self.start_program("kube-apiserver", timeout=timeout)
            others = ["kube-controller-manager"] if self.options.controller_manager else []
            others += ["kwok"] if self.options.kwok else []
            others += ["kube-scheduler"] if self.options.scheduler else []
            for name in others:
                self._child(name).start()
            for name in others:
                self._wait(name, timeout=timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops all programs, clients before servers. The folder stays: its maker removes it."""
        for name in STOP_ORDER:
            if name in self.children:
                # Nothing in a sandbox is worth a slow goodbye; its data dies with it.
                self.children[name].stop(grace=3)
        if self.reserved is not None:
            self.reserved.close()
            self.reserved = None

    # -- one program, for fault tests

    def start_program(self, name: str, *, timeout: float = 60) -> None:
        """Starts a program (again) with the same data and address, and returns when it is ready."""
        self._child(name).start()
        self._wait(name, timeout=timeout)

    def stop_program(self, name: str) -> None:
        self._child(name).stop()

    def kill_program(self, name: str) -> None:
        """kill -9."""
        self._child(name).kill()

    def restart_program(self, name: str, *, timeout: float = 60) -> None:
        """kill -9, and up again."""
        self.kill_program(name)
        self.start_program(name, timeout=timeout)

    def _child(self, name: str) -> Child:
        if name not in self.children:
            if name not in STOP_ORDER:
                raise ChildFailed(f"the sandbox has no program {name!r}; it has {', '.join(STOP_ORDER)}")
            self.children[name] = Child(
                name,
                [self.binaries[name], *self._flags(name)],
                log=self.logs / f"{name}.log",
                environment={"HOME": str(self.directory), "PATH": "/usr/bin:/bin"},
                directory=self.directory,
            )
        return self.children[name]

    def _flags(self, name: str) -> list[str]:
        match name:
            case "etcd":
                return self._etcd()
            case "kube-apiserver":
                return self._apiserver()
            case "kube-controller-manager":
                return self._controller_manager()
            case "kube-scheduler":
                return self._scheduler()
            case _:
                return self._kwok()

    def _wait(self, name: str, *, timeout: float) -> None:
        child = self._child(name)
        match name:
            case "etcd":
                child.wait_ready(self._etcd_accepts, timeout=timeout)
            case "kube-apiserver":
                child.wait_ready(self._apiserver_ready, timeout=timeout)
            case "kube-controller-manager":
                child.wait_ready(self._default_account_exists, timeout=timeout)
            case _:
                # No endpoint to ask. They exit at once when a flag or a file is wrong.
                began = time.monotonic()
                child.wait_ready(lambda: time.monotonic() - began > 0.2 and child.running(), timeout=timeout)

    # -- readiness

    def _etcd_accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.etcd_socket))
                client.sendall(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")
                return b" 200 " in client.recv(64)
            except OSError:
                return False

    def _apiserver_ready(self) -> bool:
        if not self.kubeconfig.exists() and not self._write_kubeconfigs():
            return False
        try:
            return bool(self.access.request("GET", "/readyz", timeout=5) == "ok")
        except RequestFailed:
            return False

    def _default_account_exists(self) -> bool:
        """The controller-manager works once it has given the default namespace its ServiceAccount."""
        try:
            self.access.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except RequestFailed:
            return False
        return True

    # -- files

    def _write_credentials(self) -> None:
        self.users = {
            "admin": new_user("admin", "system:masters"),
            "kwok": new_user("kwok", "system:masters"),
            "kube-controller-manager": new_user("system:kube-controller-manager"),
            "kube-scheduler": new_user("system:kube-scheduler"),
        }
        write_private(self.directory / "tokens.csv", token_file(list(self.users.values())))
        write_private(self.directory / "service-accounts.key", signing_key())
        write_private(self.directory / "audit-policy.json", audit_policy())

    def _write_kubeconfigs(self) -> bool:
        """Once the apiserver has made its certificate. The administrator's comes last: it says that all are there."""
        certificate = self.directory / "certificates" / "apiserver.crt"
        if not certificate.exists() or not (self.directory / "certificates" / "apiserver.key").exists():
            return False
        ca = authority(certificate.read_text("ascii"))
        write_private(self.directory / "ca.crt", ca)
        for name, user in sorted(self.users.items(), key=lambda item: item[0] == "admin"):
            text = kubeconfig(server=self._address(), ca=ca, token=user.token, user=user.name)
            write_private(self.directory / f"{name}.kubeconfig", text)
        return True

    def _port(self) -> int:
        if self.reserved is None:
            raise ChildFailed("the sandbox holds no port; it was not started, or was stopped")
        return int(self.reserved.getsockname()[1])

    def _address(self) -> str:
        return f"https://127.0.0.1:{self._port()}"

    # -- flags

    def _etcd(self) -> list[str]:
        return [
            "--name=sandbox",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls=unix://{self.etcd_socket}",
            # Neither of these is ever dialled: there is one member and its client knows the socket.
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--initial-cluster=sandbox=http://localhost:2380",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        key = self.directory / "service-accounts.key"
        flags = [
            f"--etcd-servers=unix://{self.etcd_socket}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port()}",
            "--permit-port-sharing",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--endpoint-reconciler-type=none",
            "--event-ttl=1h",
            "--profiling=false",
            "--shutdown-delay-duration=0s",
            *_toggles("--feature-gates", self.options.feature_gates),
            *_toggles("--runtime-config", self.options.runtime_config),
        ]
        if self.options.audit:
            flags += [
                f"--audit-policy-file={self.directory / 'audit-policy.json'}",
                f"--audit-log-path={self.access.audit_log}",
                "--audit-log-maxsize=100000",
            ]
        return [*flags, *self.options.apiserver_flags]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self.directory / 'kube-controller-manager.kubeconfig'}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.directory / 'service-accounts.key'}",
            f"--root-ca-file={self.directory / 'ca.crt'}",
            "--leader-elect=false",
            "--secure-port=0",
            "--controllers=*,-cloud-node-lifecycle-controller,-node-ipam-controller,-node-route-controller,-service-lb-controller",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
            f"--node-startup-grace-period={NODE_GRACE_SECONDS}s",
            "--profiling=false",
            *_toggles("--feature-gates", self.options.feature_gates),
        ]

    def _scheduler(self) -> list[str]:
        kubeconfig = self.directory / "kube-scheduler.kubeconfig"
        flags = [
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            *_toggles("--feature-gates", self.options.feature_gates),
        ]
        if self.options.scheduler_config is None:
            own = [f"--kubeconfig={kubeconfig}", "--kube-api-qps=1000", "--kube-api-burst=2000"]
            return [*flags, *own, "--profiling=false"]
        # kube-scheduler takes nothing about its connection from flags when it has a file.
        given = json.loads(self.options.scheduler_config.read_text("utf-8"))
        given["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": -1}
        completed = write_private(self.directory / "kube-scheduler.json", json.dumps(given))
        return [*flags, f"--config={completed}"]

    def _kwok(self) -> list[str]:
        stages = self.options.stages if self.options.stages is not None else self.binaries.stages
        return [
            f"--kubeconfig={self.directory / 'kwok.kubeconfig'}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--node-lease-duration-seconds={self.options.node_lease_seconds}",
            f"--cidr={POD_RANGE}",
            "--node-ip=127.0.0.1",
            *(f"--config={stage}" for stage in stages),
        ]


def _toggles(flag: str, switches: Mapping[str, bool]) -> list[str]:
    if not switches:
        return []
    return [f"{flag}={','.join(f'{name}={str(on).lower()}' for name, on in switches.items())}"]


def reserve_port() -> socket.socket:
    """A loopback port that nobody else is given while the socket lives.

    It is bound and never listens. The apiserver (or kube-scheduler) binds the same port with SO_REUSEPORT, which the
    kernel allows to this user's processes only; so no other program can take the port in between, and none while the
    apiserver is down.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder
