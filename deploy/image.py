"""`make image`: the image as an OCI archive, without a Docker daemon, without root, nothing installed on the machine.

    Debian packages  apt-get resolves them against an empty machine and fetches them; dpkg-deb unpacks them
    wheels           pip unpacks those of requirements/runtime.lock, by their hashes
    alnair           this work tree's package

One layer each; the first two are kept in the cache folder by what goes into them. No maintainer script ever runs, so
nothing may be in the list that needs one to work. There is no shell in the image, no package manager and no pip.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import alnair
from alnair.sandbox.locks import file_lock
from alnair.sandbox.versions import cache_folder
from deploy import sbom
from deploy.oci import Layer, make_layer, write_archive

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "runtime.lock"
USER = 65532

PACKAGES = ("base-files", "netbase", "python3-minimal", "libpython3-stdlib", "libstdc++6")
"""Python with its library, C++'s for wheels, /etc/os-release, /etc/services. What they depend on comes with them."""

LEFT_OUT = frozenset(
    {"debconf", "dpkg", "libacl1", "libmd0", "libpcre2-8-0", "libselinux1", "mawk", "media-types", "tar"}
)
"""Depended on by maintainer scripts, which do not run, or by the programs in this list."""

NOT_NEEDED = (
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/info",
    "usr/lib/*/gconv",
    "usr/lib/*/perl-base",
    "usr/share/python3",
    "usr/bin/py3*",
    "usr/lib/python3.*/test",
    "usr/lib/python3.*/ensurepip",
    "usr/lib/python3.*/idlelib",
    "usr/lib/python3.*/lib2to3",
    "usr/lib/python3.*/pydoc_data",
)

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
OPTIONS = (
    # An empty machine, on which nothing is essential, and no machine's locks.
    ("pkgCacheGen::ForceEssential", ","),
    ("APT::Install-Recommends", "false"),
    ("Debug::NoLocking", "true"),
)


class CannotBuild(Exception):
    """Something that the build needs is missing. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Base:
    """The layer of Debian packages."""

    layer: Layer
    packages: tuple[sbom.DebianPackage, ...]
    distribution: str  # such as debian-12
    python: str  # such as python3.11


@dataclass(frozen=True, slots=True)
class Built:
    archive: Path
    bill: Path
    digest: str


def build(into: Path, *, fresh: bool = False, say: Callable[[str], None]) -> Built:
    """The archive and its SBOM in that folder."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise CannotBuild(
                f"no {program} here: the image is made of Debian packages. On another system build"
                " deploy/Dockerfile with what builds Dockerfiles there."
            )
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise CannotBuild(f"no image for {machine}: only for {', '.join(ARCHITECTURES)}")
    folder = cache_folder() / "image"
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / "build.lock"):
        base = _debian(folder, fresh=fresh, say=say)
        wheels = _wheels(folder, base.python, say=say)
        ours = _alnair(folder, base.python)
        architecture = ARCHITECTURES[machine]
        into.mkdir(parents=True, exist_ok=True)
        archive = into / f"alnair-{alnair.__version__}-{architecture}.oci.tar"
        image = write_archive(
            [base.layer, wheels, ours],
            archive,
            architecture=architecture,
            settings={
                "User": f"{USER}:{USER}",
                "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"],
                "Entrypoint": ["alnair"],
                "WorkingDir": "/",
                "Labels": {
                    "org.opencontainers.image.title": "alnair",
                    "org.opencontainers.image.version": alnair.__version__,
                },
            },
            tag=alnair.__version__,
            created=datetime.fromtimestamp(_time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        components = [sbom.from_debian(each, base.distribution) for each in base.packages]
        for layer in (wheels, ours):
            components += sbom.from_python(layer.path.parent / "tree" / _modules(base.python))
        bill = into / f"alnair-{alnair.__version__}-{architecture}.cdx.json"
        bill.write_text(
            sbom.document(
                components, name="alnair", version=alnair.__version__, digest=image.manifest_digest
            ),
            "utf-8",
        )
    return Built(archive, bill, image.manifest_digest)


def _time() -> int:
    """The time of every file in the image."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or 0)


def _modules(python: str) -> str:
    """Where Debian's Python looks for what did not come with it."""
    return f"usr/local/lib/{python}/dist-packages"


def _kept(
    folder: Path,
    kind: str,
    key: Sequence[object],
    *,
    make: Callable[[Path], dict[str, Any]],
    fresh: bool = False,
) -> tuple[Layer, dict[str, Any]]:
    """A layer by what goes into it: the kept one, or one made now. `make` fills a folder and may say things to keep."""
    makers = [Path(__file__).with_name(name).read_bytes() for name in ("image.py", "oci.py")]
    digest = hashlib.sha256(repr((*key, _time(), makers)).encode()).hexdigest()[:16]
    place = folder / f"{kind}-{digest}"
    written = place / "layer.json"
    if fresh or not written.is_file():
        shutil.rmtree(place, ignore_errors=True)
        (place / "tree").mkdir(parents=True)
        told = make(place / "tree")
        layer = make_layer(place / "tree", place / "layer.tar.gz", said=f"alnair image: {kind}", time=_time())
        kept = {"digest": layer.digest, "diff_id": layer.diff_id, "said": layer.said, "told": told}
        written.write_text(json.dumps(kept), "utf-8")
        # Only the last of a kind is kept: every change makes another.
        for old in folder.glob(f"{kind}-*"):
            if old != place:
                shutil.rmtree(old)
    kept = json.loads(written.read_text("utf-8"))
    told = kept.pop("told")
    return Layer(path=place / "layer.tar.gz", **kept), told


# -- Debian


def _debian(folder: Path, *, fresh: bool, say: Callable[[str], None]) -> Base:
    release = platform.freedesktop_os_release()
    key = (
        PACKAGES,
        sorted(LEFT_OUT),
        NOT_NEEDED,
        release["ID"],
        release.get("VERSION_ID", ""),
        platform.machine(),
    )

    def make(tree: Path) -> dict[str, Any]:
        say(f"Debian packages of {release.get('PRETTY_NAME', release['ID'])}")
        packages = []
        for file in _fetch(tree.with_name("apt")):
            fields = _run("dpkg-deb", "-f", file, "Package", "Version", "Architecture")
            said = dict(line.split(": ", 1) for line in fields.splitlines())
            if said["Package"] in LEFT_OUT:
                continue
            _run("dpkg-deb", "-x", file, tree)
            status = tree / "var/lib/dpkg/status.d" / said["Package"]  # where scanners of such images look
            status.parent.mkdir(parents=True, exist_ok=True)
            status.write_text(_run("dpkg-deb", "-f", file), "utf-8")
            packages.append(
                {
                    "name": said["Package"],
                    "version": said["Version"],
                    "architecture": said["Architecture"],
                    "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
                }
            )
        shutil.rmtree(tree.with_name("apt"))
        for pattern in NOT_NEEDED:
            for path in tree.glob(pattern):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        for path in (tree / "usr/share/doc").rglob("*"):
            if path.is_file() and path.name != "copyright":
                path.unlink()
        (python,) = (path.name for path in (tree / "usr/bin").glob("python3.*"))
        _people(tree)
        _compile(tree, f"usr/lib/{python}")
        return {"packages": packages, "python": python}

    layer, told = _kept(folder, "debian", key, make=make, fresh=fresh)
    packages = tuple(sbom.DebianPackage(**each) for each in told["packages"])
    return Base(layer, packages, f"{release['ID']}-{release.get('VERSION_ID', '')}", told["python"])


def _fetch(place: Path) -> list[Path]:
    """The packages and all that they depend on, as files, in the order of their names.

    apt-get takes the machine's own sources and keys, but no notice of what is installed there.
    """
    for each in ("cache/archives/partial", "state/lists/partial"):
        (place / each).mkdir(parents=True)
    (place / "status").touch()
    options = [
        *OPTIONS,
        ("Dir::State", str(place / "state")),
        ("Dir::State::status", str(place / "status")),
        ("Dir::Cache", str(place / "cache")),
        # The user that apt fetches as cannot reach into a private folder.
        ("APT::Sandbox::User", "root"),
    ]
    chosen = [word for name, value in options for word in ("-o", f"{name}={value}")]
    _run("apt-get", *chosen, "--quiet", "update")
    _run("apt-get", *chosen, "--quiet", "--yes", "--download-only", "install", *PACKAGES)
    return sorted((place / "cache/archives").glob("*.deb"))


def _people(tree: Path) -> None:
    """Who there is: root, and the user that runs everything."""
    (tree / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/sbin/nologin\nalnair:x:{USER}:{USER}:alnair:/tmp:/sbin/nologin\n"
    )
    (tree / "etc/group").write_text(f"root:x:0:\nalnair:x:{USER}:\n")
    (tree / "tmp").mkdir(exist_ok=True)
    (tree / "tmp").chmod(0o1777)


# -- Python


def _wheels(folder: Path, python: str, *, say: Callable[[str], None]) -> Layer:
    running = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if running != python:
        raise CannotBuild(
            f"the image has {python} and this environment {running}, for which other wheels are made; remove .venv and"
            f" say `make image PYTHON={python}`"
        )

    def make(tree: Path) -> dict[str, Any]:
        say("wheels of requirements/runtime.lock")
        modules = tree / _modules(python)
        _pip(modules, "--only-binary", ":all:", "--require-hashes", "-r", str(LOCK))
        # Tests of others, a quarter of numpy.
        for tests in sorted(modules.rglob("tests")):
            if tests.is_dir():
                shutil.rmtree(tests)
        _compile(tree, _modules(python))
        return {}

    return _kept(folder, "wheels", (LOCK.read_bytes(), python, platform.machine()), make=make)[0]


def _alnair(folder: Path, python: str) -> Layer:
    files = sorted((ROOT / "operator" / "alnair").rglob("*"))
    content = [
        (str(path.relative_to(ROOT)), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in files
        if path.is_file() and path.suffix != ".pyc"
    ]

    def make(tree: Path) -> dict[str, Any]:
        modules = tree / _modules(python)
        _pip(modules, "--no-build-isolation", str(ROOT))
        for told in modules.glob("alnair-*.dist-info/direct_url.json"):
            told.unlink()  # the folder that it was built in
        _compile(tree, _modules(python))
        command = tree / "usr/local/bin/alnair"
        command.parent.mkdir(parents=True)
        command.write_text(f"#!/usr/bin/{python}\nfrom alnair.cli import main\n\nmain()\n")
        command.chmod(0o755)
        return {}

    key = (content, (ROOT / "pyproject.toml").read_bytes(), python)
    return _kept(folder, "alnair", key, make=make)[0]


def _pip(modules: Path, *what: str) -> None:
    options = (
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
        "--target",
        str(modules),
    )
    _run(sys.executable, "-m", "pip", "install", *options, *what)
    # Commands of others, with this machine's Python in their first line.
    shutil.rmtree(modules / "bin", ignore_errors=True)


def _compile(tree: Path, modules: str) -> None:
    """Byte code, valid whatever the time of its source: the root is read-only, and compiling takes seconds a start."""
    compiling = (
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(tree),
        "-p",
        "/",
    )
    _run(sys.executable, *compiling, str(tree / modules), environment={"PYTHONHASHSEED": "0"})


def _run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(environment or {})},
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-3000:]
        raise CannotBuild(f"{' '.join(map(str, command))} ended with exit code {done.returncode}:\n{said}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds the image as an OCI archive, with its SBOM.")
    parser.add_argument("--into", type=Path, required=True, help="the folder for both")
    parser.add_argument("--fresh", action="store_true", help="fetch Debian's packages anew")
    asked = parser.parse_args()
    try:
        built = build(
            asked.into, fresh=asked.fresh, say=lambda text: print(f"image: {text}", file=sys.stderr)
        )
    except CannotBuild as problem:
        sys.exit(f"make image: {problem}")
    size = built.archive.stat().st_size
    said = {**dataclasses.asdict(built), "archive": str(built.archive), "bill": str(built.bill)}
    print(json.dumps({**said, "mib": round(size / 2**20, 1)}))


if __name__ == "__main__":
    main()
