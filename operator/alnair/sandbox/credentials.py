"""Who may talk to the sandbox's apiserver: static tokens, the key that signs service account tokens, kubeconfigs.

The serving certificate is made by the apiserver itself. No private key ever leaves the sandbox's folder, which
only its owner can read.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
END_CERTIFICATE = "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class User:
    """A line of the apiserver's token file."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


def new_user(name: str, *groups: str) -> User:
    return User(name=name, token=secrets.token_urlsafe(24), groups=groups)


def write_private(path: Path, text: str) -> Path:
    """Writes a file that only its owner can read; it is whole or not there."""
    unfinished = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    unfinished.rename(path)
    return path


def token_file(users: list[User]) -> str:
    """The text for --token-auth-file: token, name, UID, quoted groups."""
    return "".join(f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users)


def signing_key() -> str:
    """A fresh P-256 private key as PEM.

    SEC 1 lets the public half be absent, and Go computes it; so a random number and nineteen fixed bytes are
    a key, and neither openssl nor a cryptography package is needed.
    """
    scalar = (secrets.randbelow(P256_ORDER - 1) + 1).to_bytes(32, "big")
    der = bytes.fromhex("3031 020101 0420") + scalar + bytes.fromhex("a00a 0608 2a8648ce3d030107")
    body = base64.encodebytes(der).decode("ascii")
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n"


def authority(chain: str) -> str:
    """The last certificate of a PEM chain: for the apiserver's self-made file, the authority that signed it."""
    certificates = [part + END_CERTIFICATE + "\n" for part in chain.split(END_CERTIFICATE) if part.strip()]
    if not certificates:
        raise ValueError("the apiserver's certificate file holds no certificate")
    return certificates[-1].lstrip()


def kubeconfig(*, server: str, ca: str, token: str, user: str, namespace: str = "default") -> str:
    """A kubeconfig with everything inside, so that the file can be copied."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "alnair",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(ca.encode()).decode("ascii"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {"name": "alnair", "context": {"cluster": "alnair", "user": user, "namespace": namespace}}
            ],
            "current-context": "alnair",
        },
        sort_keys=False,
    )


def audit_policy() -> str:
    """Every write at Metadata; GPUAllocations always, their writes with the bodies, to replay the ledger's history.

    Of ServiceAccounts everything, so that their rights can be held against their use; but what the control plane's own
    controllers read, which is a lot, is left out.
    """
    ledger = [{"group": "ai.centaurus.io", "resources": ["gpuallocations", "gpuallocations/status"]}]
    writes = ["create", "update", "patch", "delete", "deletecollection"]
    return json.dumps(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "RequestResponse", "verbs": writes, "resources": ledger},
                {"level": "Metadata", "resources": ledger},
                {"level": "Metadata", "verbs": writes},
                {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
                {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
                {"level": "None"},
            ],
        },
        indent=1,
    )
