"""Where the extender listens, and whom it lets in. A door that would be open to others is refused at the start.

On a loopback address the caller shows a secret: the password in kube-scheduler's `urlPrefix`, which Go sends as basic
authentication. On any other address the connection is TLS and the caller shows a certificate of the authority that is
given here; the secret may be asked for as well.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

SHORTEST_SECRET, LONGEST_SECRET = 16, 256
# It stands in a URL, and is not to be escaped there.
ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class BadDoor(ValueError):
    """It would be open to others, or cannot be opened. The message says what to give."""


@dataclass(frozen=True, slots=True)
class Door:
    host: str
    port: int
    secret: bytes = b""
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None

    def __post_init__(self) -> None:
        files = (self.certificate, self.key, self.client_authority)
        if any(files) and not all(files):
            raise BadDoor(
                "--extender-cert-file, --extender-key-file and --extender-client-ca-file go together; give all three"
            )
        if not all(files) and not is_loopback(self.host):
            raise BadDoor(
                f"the extender listens on {self.host} only with TLS: give --extender-cert-file, --extender-key-file "
                "and --extender-client-ca-file, or listen on 127.0.0.1"
            )
        if not all(files) and not self.secret:
            raise BadDoor(
                "the extender needs a secret, for every process of the machine reaches a loopback address: "
                "give --extender-secret-file"
            )

    def tls(self) -> ssl.SSLContext | None:
        """Raises BadDoor where the files cannot be used."""
        if self.certificate is None or self.key is None or self.client_authority is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(cafile=self.client_authority)
        except (OSError, ssl.SSLError) as error:
            files = f"{self.certificate}, {self.key}, {self.client_authority}"
            raise BadDoor(f"the extender's TLS files ({files}) cannot be used: {error}") from error
        return context

    def admits(self, authorization: str) -> bool:
        """Whether the caller knows the secret, if there is one; whoever it says that it is."""
        return not self.secret or hmac.compare_digest(_password(authorization), self.secret)


def open_door(
    address: str,
    *,
    secret_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_authority: Path | None = None,
    service: str = "",
    reached_at: str = "",
) -> Door:
    """From the flags of `alnair run`. Raises BadDoor."""
    if service and not _is_address(reached_at):
        raise BadDoor(
            f"--extender-service {service}: --extender-service-address {reached_at!r} is no IP address; give the one "
            "by which others reach this replica"
        )
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadDoor(f"--extender-address {address!r} is no HOST:PORT, for example 127.0.0.1:8888")
    secret = read_secret(secret_file, flag="--extender-secret-file") if secret_file is not None else b""
    door = Door(host, int(port), secret, certificate, key, client_authority)
    door.tls()
    return door


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def read_secret(path: Path, *, flag: str) -> bytes:
    """Raises BadDoor."""
    try:
        with path.open("rb") as file:
            secret = file.read(LONGEST_SECRET + 1).strip()
    except OSError as error:
        raise BadDoor(f"{flag} {path}: cannot be read: {error.strerror or error}") from error
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET or not ALPHABET.issuperset(secret):
        raise BadDoor(
            f"{flag} {path}: holds no secret of {SHORTEST_SECRET} to {LONGEST_SECRET} letters, digits or any of -._~; "
            "make one with `openssl rand -hex 32`"
        )
    return secret


def _password(authorization: str) -> bytes:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        _, _, password = base64.b64decode(encoded, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return b""
    return password
