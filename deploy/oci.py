"""Writes an OCI image archive (image layout, version 1.0.0, in one tar) with nothing but the standard library.

The same trees give the same bytes: entries are sorted, times are one time, owners are root, gzip has no clock. A layer
is compressed once and kept beside its digest by whoever asked; writing an archive of kept layers is copying.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, slots=True)
class Layer:
    """A compressed layer: where it lies, and its digests compressed and not."""

    path: Path
    digest: str
    diff_id: str
    said: str

    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": LAYER, "digest": f"sha256:{self.digest}", "size": self.path.stat().st_size}


def make_layer(tree: Path, into: Path, *, said: str, time: int) -> Layer:
    """All of a folder as one layer, written to the file `into`."""
    plain, packed = hashlib.sha256(), hashlib.sha256()
    unfinished = into.with_suffix(".part")
    with unfinished.open("wb") as file:
        counted = _Hashing(file, packed)
        with gzip.GzipFile(filename="", mode="wb", fileobj=counted, compresslevel=6, mtime=0) as zipped:
            inner: Any = _Hashing(zipped, plain)
            with tarfile.open(fileobj=inner, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                for path in sorted(_below(tree)):
                    _add(archive, tree, path, time)
    unfinished.rename(into)
    return Layer(into, packed.hexdigest(), plain.hexdigest(), said)


def _below(tree: Path) -> Iterable[Path]:
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            yield Path(folder) / name


def _add(archive: tarfile.TarFile, tree: Path, path: Path, time: int) -> None:
    entry = archive.gettarinfo(str(path), arcname=str(path.relative_to(tree)))
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = time
    # No set-user-ID, and nothing that only root may read: the image's user is not root.
    entry.mode = (entry.mode & 0o1777) | (0o555 if entry.isdir() or entry.mode & 0o100 else 0o444)
    if entry.islnk():  # a second name of a file: written as one more file, whichever of them comes first
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
    if entry.isreg():
        with path.open("rb") as content:
            archive.addfile(entry, content)
    else:
        archive.addfile(entry)


class _Hashing:
    """A file that is written to, and hashed."""

    def __init__(self, file: Any, digest: Any) -> None:
        self._file, self._digest = file, digest

    def write(self, content: bytes) -> int:
        self._digest.update(content)
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        self._file.flush()


@dataclass(frozen=True, slots=True)
class Image:
    """What is in an archive: digests as a registry would show them."""

    manifest_digest: str
    config: dict[str, Any]


def write_archive(
    layers: Iterable[Layer],
    into: Path,
    *,
    architecture: str,
    settings: Mapping[str, Any],
    tag: str,
    created: str,
) -> Image:
    """`settings` is what the OCI calls `config`: User, Env, Entrypoint, Labels."""
    layers = list(layers)
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each.diff_id}" for each in layers]},
        "history": [{"created": created, "created_by": each.said} for each in layers],
    }
    config_blob = _json(config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _described(CONFIG, config_blob),
        "layers": [each.descriptor() for each in layers],
    }
    manifest_blob = _json(manifest)
    named = {**_described(MANIFEST, manifest_blob)}
    named["platform"] = {"architecture": architecture, "os": "linux"}
    named["annotations"] = {"org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]}
    unfinished = into.with_suffix(".part")
    with tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as archive:
        _put(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _put(archive, "index.json", _json(index))
        for blob in (config_blob, manifest_blob):
            _put(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for layer in layers:
            with layer.path.open("rb") as content:
                entry = _entry(f"blobs/sha256/{layer.digest}", layer.path.stat().st_size)
                archive.addfile(entry, content)
    unfinished.rename(into)
    return Image(hashlib.sha256(manifest_blob).hexdigest(), config)


def unpack(archive: Path, into: Path) -> dict[str, Any]:
    """The root file system of an archive, as a container runtime makes it; returns the image's config.

    Every digest is checked; for archives of our own. Layers with whiteouts are not ours and are refused.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as outer:

        def blob(described: Mapping[str, Any]) -> bytes:
            algorithm, _, digest = str(described["digest"]).partition(":")
            file = outer.extractfile(f"blobs/{algorithm}/{digest}")
            assert file is not None
            content = file.read()
            if hashlib.new(algorithm, content).hexdigest() != digest or len(content) != described["size"]:
                raise ValueError(f"{archive}: blob {digest} is not what its name says")
            return content

        listed = outer.extractfile("index.json")
        assert listed is not None
        (named,) = json.load(listed)["manifests"]
        manifest = json.loads(blob(named))
        config: dict[str, Any] = json.loads(blob(manifest["config"]))
        for described, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            plain = gzip.decompress(blob(described))
            if f"sha256:{hashlib.sha256(plain).hexdigest()}" != diff_id:
                raise ValueError(f"{archive}: a layer is not what the config says")
            with tarfile.open(fileobj=io.BytesIO(plain)) as layer:
                if any(Path(name).name.startswith(".wh.") for name in layer.getnames()):
                    raise ValueError(f"{archive}: a layer takes files away")
                layer.extractall(into, filter="fully_trusted")  # noqa: S202 (its digest was checked)
    return config


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {
        "mediaType": kind,
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "size": len(content),
    }


def _put(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry
