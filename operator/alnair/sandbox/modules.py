"""The Go module of another Kubernetes version than the pinned one, for tests against older control planes.

The pinned version's go.mod and go.sum lie in the project. Those of another are made by Go itself into the cache folder:
the version's own requirements, its staging modules at the version that belongs to it, checksums as Go's checksum
database confirms them. Made once, and then used as they are.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from alnair.sandbox.go import Go
from alnair.sandbox.versions import GOLANG, cache_folder, kubernetes_version, pinned_kubernetes_version


class ModuleFailed(Exception):
    """Go could not make the module. The message carries what it said."""


def module_folder(module: str, *, go: Go, tools: list[str]) -> Path:
    """Where to compile programs of this module: the pinned one, or one made for the version that was asked for."""
    version = kubernetes_version()
    if module != "kubernetes" or version == pinned_kubernetes_version():
        return GOLANG / module
    folder = cache_folder() / "golang" / f"kubernetes-{version}"
    if not (folder / "go.sum").is_file():
        unfinished = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            _make(unfinished, version, go, tools)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _make(folder: Path, version: str, go: Go, tools: list[str]) -> None:
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [go.command, *arguments],
            cwd=folder,
            env=go.environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise ModuleFailed(
                f"go {' '.join(arguments[:3])} … failed, so there is no module for Kubernetes {version}:\n"
                f"{(done.stderr or done.stdout).strip()[-2000:]}\nIs there such a version, and can GOPROXY be reached?"
            )
        return done.stdout

    needed = json.loads(run("mod", "download", "-json", f"k8s.io/kubernetes@{version}"))["GoMod"]
    staging = staging_version(version)
    lines = ["module alnair.local/controlplane", "", f"go {_minimum()}", ""]
    # Outside of Kubernetes' own work tree its staging modules are found under versions of their own.
    text = Path(needed).read_text("utf-8")
    staged = re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0\b(?!-)", text, re.MULTILINE)
    lines += [f"replace {module} => {module} {staging}" for module in staged]
    (folder / "go.mod").write_text("\n".join([*lines, ""]), "utf-8")
    run("get", "-tool", *(f"{tool}@{version}" for tool in tools))


def staging_version(version: str) -> str:
    """`v0.34.4` for `v1.34.4`: what k8s.io/api and the others are called."""
    return "v0" + version.removeprefix("v1")


def _minimum() -> str:
    found = re.search(r"^go (\S+)", (GOLANG / "kubernetes" / "go.mod").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]
