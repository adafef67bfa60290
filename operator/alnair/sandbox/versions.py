"""Which versions the sandbox runs, how they are compiled, and where the results are kept.

The versions have one source, the `go.mod` files beside this one; nothing may repeat a version number. ALNAIR_KUBERNETES
names another Kubernetes, for tests against older control planes; etcd and kwok stay the pinned ones.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from pathlib import Path

GOLANG = Path(__file__).parent / "golang"
MODULES = ("kubernetes", "kwok")

GO_MINIMUM = (1, 26)
"""go.mod asks for it; with GOTOOLCHAIN=local an older Go refuses."""


@functools.cache
def pinned(module: str, package: str) -> str:
    """The version, such as `v1.36.3`, at which golang/<module>/go.mod requires a package."""
    text = (GOLANG / module / "go.mod").read_text("utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(package)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise LookupError(
            f"golang/{module}/go.mod requires no {package}; the sandbox cannot tell its version"
        )
    return found[1]


def pinned_kubernetes_version() -> str:
    return pinned("kubernetes", "k8s.io/kubernetes")


def kubernetes_version() -> str:
    """The one that runs: the pinned one, unless another was asked for."""
    asked = os.environ.get("ALNAIR_KUBERNETES")
    if not asked:
        return pinned_kubernetes_version()
    if re.fullmatch(r"v1\.\d+\.\d+", asked) is None:
        raise LookupError(f"ALNAIR_KUBERNETES={asked}: a version looks like {pinned_kubernetes_version()}")
    return asked


def kwok_version() -> str:
    return pinned("kwok", "sigs.k8s.io/kwok")


def minor(version: str) -> tuple[int, int]:
    """The (major, minor) in a text such as `Kubernetes v1.36.3`; (0, 0) when there is none."""
    found = re.search(r"v?(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def build_flags(version: str) -> tuple[str, ...]:
    """What `go build` gets besides the package. Part of the cache key: another flag is another build."""
    major, second = minor(version)
    stamp = "k8s.io/component-base/version"
    linker = f"-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={second}"
    return ("-trimpath", "-buildvcs=false", "-ldflags", linker)


@functools.cache
def build_key() -> str:
    """Names the pinned build: the Kubernetes version for people, a digest of everything that goes in for truth."""
    digest = hashlib.sha256()
    for module in MODULES:
        for name in ("go.mod", "go.sum"):
            digest.update((GOLANG / module / name).read_bytes())
    version = pinned_kubernetes_version()
    digest.update("\0".join(build_flags(version)).encode())
    digest.update(f"{platform.system()}/{platform.machine()}".encode())
    return f"{version}-{digest.hexdigest()[:12]}"


def cache_folder() -> Path:
    """Where compiled programs and a downloaded Go are kept: outside the work tree, shared by all clones."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    base = Path(root) if Path(root).is_absolute() else Path.home() / ".cache"
    return base / "alnair"


def control_plane_folder() -> Path:
    """Of the pinned build; etcd and kwok are always from here."""
    return cache_folder() / "control-plane" / build_key()


def kubernetes_folder() -> Path:
    """Of Kubernetes' own programs."""
    version = kubernetes_version()
    if version == pinned_kubernetes_version():
        return control_plane_folder()
    told = "\0".join((*build_flags(version), platform.system(), platform.machine()))
    return cache_folder() / "control-plane" / f"{version}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
