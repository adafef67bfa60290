"""Who is let in, and which doors are not opened at all."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from alnair.extender.door import BadDoor, open_door

SECRET = "0123456789abcdef"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.parametrize("address", ["127.0.0.1:8888", "localhost:1", "[::1]:8888", "127.9.9.9:0"])
def test_a_loopback_address_needs_a_secret_and_no_more(address: str, secret: Path) -> None:
    door = open_door(address, secret_file=secret)
    assert (door.port, door.tls()) == (int(address.rpartition(":")[2]), None)
    with pytest.raises(BadDoor, match="--extender-secret-file"):
        open_door(address)


@pytest.mark.parametrize("address", ["0.0.0.0:8888", "10.0.0.1:8888", "[::]:8888", "extender.example:8888"])
def test_another_address_needs_certificates_whatever_the_secret(address: str, secret: Path) -> None:
    with pytest.raises(BadDoor, match="only with TLS"):
        open_door(address, secret_file=secret)


@pytest.mark.parametrize(
    "address", ["", "8888", ":8888", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "h:-1"]
)
def test_an_address_is_a_host_and_a_port(address: str, secret: Path) -> None:
    with pytest.raises(BadDoor, match="no HOST:PORT"):
        open_door(address, secret_file=secret)


@pytest.mark.parametrize("text", ["", "short", " " * 40, "x" * 5000, "with@sign/in:it-and-long-enough"])
def test_a_secret_is_neither_short_nor_a_whole_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(BadDoor, match="holds no secret"):
        open_door("127.0.0.1:0", secret_file=path)
    with pytest.raises(BadDoor, match="cannot be read"):
        open_door("127.0.0.1:0", secret_file=tmp_path / "none")


def test_certificates_go_together_and_must_be_readable(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("no certificate")
    with pytest.raises(BadDoor, match="go together"):
        open_door("127.0.0.1:0", certificate=file)
    with pytest.raises(BadDoor, match="cannot be used"):
        open_door("0.0.0.0:0", certificate=file, key=file, client_authority=file)


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (f"Basic {base64.b64encode(f'alnair:{SECRET}'.encode()).decode()}", True),
        (f"basic {base64.b64encode(f':{SECRET}'.encode()).decode()}", True),
        (f"Basic {base64.b64encode(f'alnair:{SECRET}x'.encode()).decode()}", False),
        (f"Basic {base64.b64encode(SECRET.encode()).decode()}", False),
        (f"Bearer {SECRET}", False),
        ("Basic ", False),
        ("Basic !!!", False),
        ("Basic äöü", False),
        ("", False),
    ],
)
def test_only_who_knows_the_secret_is_admitted(secret: Path, authorization: str, admitted: bool) -> None:
    assert open_door("127.0.0.1:0", secret_file=secret).admits(authorization) is admitted
