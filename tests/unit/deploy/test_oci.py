"""The archive: what goes in comes out, the same trees give the same bytes, and a wrong byte is noticed."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from deploy.oci import Layer, make_layer, unpack, write_archive


def tree(folder: Path, mtime: int) -> Path:
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/tool").write_text("#!/bin/true\n")
    (folder / "usr/bin/tool").chmod(0o4700)
    (folder / "usr/bin/link").symlink_to("tool")
    (folder / "etc").mkdir()
    (folder / "etc/secret").write_text("x")
    (folder / "etc/secret").chmod(0o600)
    (folder / "etc/twice").hardlink_to(folder / "etc/secret")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    for path in folder.rglob("*"):
        os.utime(path, (mtime, mtime), follow_symlinks=False)
    return folder


def write(layers: list[Layer], into: Path) -> str:
    settings = {"User": "65532:65532", "Entrypoint": ["tool"]}
    return write_archive(
        layers, into, architecture="amd64", settings=settings, tag="1", created="1970-01-01T00:00:00Z"
    ).manifest_digest


def test_what_goes_in_comes_out_for_a_user_who_is_not_root(tmp_path: Path) -> None:
    layer = make_layer(tree(tmp_path / "a", 5), tmp_path / "a.tar.gz", said="a", time=0)
    write([layer], tmp_path / "image.tar")
    config = unpack(tmp_path / "image.tar", tmp_path / "root")
    assert config["config"]["User"] == "65532:65532"
    root = tmp_path / "root"
    assert (root / "usr/bin/link").readlink() == Path("tool")
    assert (root / "usr/bin/tool").read_text() == "#!/bin/true\n"
    assert (root / "usr/bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (root / "etc/secret").stat().st_mode & 0o7777 == 0o644
    assert (root / "etc/twice").read_text() == "x"
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_later_layer_wins(tmp_path: Path) -> None:
    layers = []
    for name, text in (("a", "old"), ("b", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
        layers.append(make_layer(tmp_path / name, tmp_path / f"{name}.tar.gz", said=name, time=0))
    write(layers, tmp_path / "image.tar")
    unpack(tmp_path / "image.tar", tmp_path / "root")
    assert (tmp_path / "root/file").read_text() == "new"


def test_the_same_trees_give_the_same_bytes_whenever_they_were_made(tmp_path: Path) -> None:
    archives = []
    for name, mtime in (("a", 5), ("b", 1_000_000)):
        layer = make_layer(tree(tmp_path / name, mtime), tmp_path / f"{name}.tar.gz", said="x", time=0)
        write([layer], tmp_path / f"{name}.tar")
        archives.append((tmp_path / f"{name}.tar").read_bytes())
    assert archives[0] == archives[1]


def test_a_byte_that_changed_on_the_way_is_noticed(tmp_path: Path) -> None:
    layer = make_layer(tree(tmp_path / "a", 5), tmp_path / "a.tar.gz", said="a", time=0)
    write([layer], tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        at = archive.getmember(f"blobs/sha256/{layer.digest}").offset_data + 20
    with (tmp_path / "image.tar").open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(ValueError, match="is not what its name says"):
        unpack(tmp_path / "image.tar", tmp_path / "root")


def test_the_layout_is_the_oci_one(tmp_path: Path) -> None:
    layer = make_layer(tree(tmp_path / "a", 5), tmp_path / "a.tar.gz", said="a", time=0)
    digest = write([layer], tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:

        def read(name: str) -> dict[str, object]:
            file = archive.extractfile(name)
            assert file is not None
            loaded: dict[str, object] = json.load(file)
            return loaded

        assert read("oci-layout") == {"imageLayoutVersion": "1.0.0"}
        index = read("index.json")
        manifest = read(f"blobs/sha256/{digest}")
    assert index["manifests"][0]["digest"] == f"sha256:{digest}"  # type: ignore[index]
    assert manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert [each["digest"] for each in manifest["layers"]] == [f"sha256:{layer.digest}"]  # type: ignore[attr-defined]
