"""Certificates for a test, made by openssl: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


class Authority:
    """`Authority(folder, "ours")`, then `.signs("127.0.0.1")`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        _openssl(
            "req", "-x509", *_NEW_KEY, self.pair.key, "-out", self.pair.certificate, "-subj", f"/CN={name}"
        )

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def signs(self, name: str) -> Pair:
        """For a server or a client; a server is known by its address."""
        made = Pair(self._folder / f"{self._name}-{name}.crt", self._folder / f"{self._name}-{name}.key")
        _openssl(
            *("req", "-x509", *_NEW_KEY, made.key, "-out", made.certificate, "-subj", f"/CN={name}"),
            *("-CA", self.pair.certificate, "-CAkey", self.pair.key, "-addext", "basicConstraints=CA:FALSE"),
            *(("-addext", f"subjectAltName=IP:{name}") if name[0].isdigit() else ()),
        )
        return made


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout")


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
