"""Where the apiserver is and who we are there.

The official client library reads kubeconfigs (exec plugins, token files, rotating ServiceAccount tokens) better
than we ever would, so it does; everything after that is our own session, because its generated calls cost five
times the CPU of a raw one.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from kubernetes import config as kubernetes_config
from kubernetes.client import Configuration

IN_CLUSTER_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class NoConnection(RuntimeError):
    """Neither a kubeconfig nor an in-cluster ServiceAccount tells where the apiserver is."""


@dataclass(frozen=True)
class Connection:
    """One apiserver and one identity there. Tokens rotate: `authorization` reads the one of the moment."""

    configuration: Configuration

    @property
    def server(self) -> str:
        return str(self.configuration.host).rstrip("/")

    def authorization(self) -> str | None:
        """The Authorization header's value, or None where a client certificate speaks for us. Looked up each time,
        which is no light work: callers in a hurry keep it for a while."""
        value = self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return str(value).strip() if value else None  # a file of a token may end in a newline

    @property
    def token(self) -> str | None:
        header = self.authorization()
        return header.removeprefix("Bearer ") if header else None

    @property
    def ca_path(self) -> str | None:
        return self.configuration.ssl_ca_cert or None

    @property
    def certificate_path(self) -> str | None:
        return self.configuration.cert_file or None

    @property
    def key_path(self) -> str | None:
        return self.configuration.key_file or None

    @property
    def verified(self) -> bool:
        return bool(self.configuration.verify_ssl)

    def tls(self) -> ssl.SSLContext | bool:
        if not self.server.startswith("https"):
            return False
        context = ssl.create_default_context(cafile=self.ca_path)
        if not self.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_path:
            context.load_cert_chain(self.certificate_path, self.key_path)
        return context


def connect(*, kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """Settle on one apiserver: the given kubeconfig, else the pod's ServiceAccount, else the user's kubeconfig."""
    configuration = Configuration()
    try:
        if kubeconfig is None and context is None and IN_CLUSTER_TOKEN.exists():
            kubernetes_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
    except (kubernetes_config.ConfigException, OSError) as error:
        where = (
            f"kubeconfig {kubeconfig}" if kubeconfig else "the in-cluster ServiceAccount or ~/.kube/config"
        )
        raise NoConnection(
            f"no apiserver to talk to: {where} could not be used ({error}); "
            "pass --kubeconfig or set KUBECONFIG"
        ) from error
    return Connection(configuration)
