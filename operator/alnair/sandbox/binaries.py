"""Where the control plane's programs come from.

In this order, for each program by itself: the folder that KUBEBUILDER_ASSETS names, the cache folder, a
compile from the pinned Go modules into the cache. A program of another Kubernetes minor version is never used,
and an unfinished compile never looks like a finished one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alnair.sandbox.go import Go, find_go
from alnair.sandbox.locks import file_lock
from alnair.sandbox.modules import ModuleFailed, module_folder
from alnair.sandbox.progress import Reporter, Step
from alnair.sandbox.versions import (
    GOLANG,
    build_flags,
    control_plane_folder,
    kubernetes_folder,
    kubernetes_version,
    kwok_version,
    minor,
)


class BuildFailed(Exception):
    """A program could not be compiled. The message carries what the compiler said."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, the module and package it is compiled from, and how long that takes cold on two cores."""

    name: str
    module: str
    package: str
    cold_seconds: int
    part_of_kubernetes: bool = True

    def folder(self) -> Path:
        """Where it is kept once it is compiled."""
        return (kubernetes_folder() if self.part_of_kubernetes else control_plane_folder()) / "bin"


PROGRAMS = (
    Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3", 73, part_of_kubernetes=False),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 275),
    Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", 30),
    Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", 121),
    Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", 10),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 135, part_of_kubernetes=False),
)

STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
"""What kwok's nodes and pods do; files of its module under kustomize/stage/."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Programs that exist and can be run."""

    paths: dict[str, Path]
    stages: tuple[Path, ...]

    def __getitem__(self, name: str) -> Path:
        return self.paths[name]


def obtain(report: Reporter) -> Binaries:
    """All programs, compiled first if they must be. Seconds when cached, about ten minutes when not."""
    found = _present(report)
    stages = _stages()
    if found.keys() != {program.name for program in PROGRAMS} or stages is None:
        folder = kubernetes_folder()
        # Whoever comes second waits here and then finds everything built.
        with file_lock(folder.with_name(f"{folder.name}.lock")):
            found = _present(report)
            missing = [program for program in PROGRAMS if program.name not in found]
            go = find_go(report)
            if missing:
                found |= _compile(missing, go=go, report=report)
            stages = _stages() or _copy_stages(go)
    return Binaries(paths=found, stages=stages)


def _present(report: Reporter) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for program in PROGRAMS:
        path = _given(program, report) or _cached(program) or _on_path(program)
        if path is not None:
            found[program.name] = path
    return found


def _given(program: Program, report: Reporter) -> Path | None:
    """From KUBEBUILDER_ASSETS, as setup-envtest and others lay it out."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None
    path = Path(assets) / program.name
    if not os.access(path, os.X_OK):
        return None
    if program.part_of_kubernetes and not _right_minor(path):
        report.say(f"{path} is not of Kubernetes {kubernetes_version()}'s minor version: not used")
        return None
    return path.resolve()


def _cached(program: Program) -> Path | None:
    path = program.folder() / program.name
    return path if os.access(path, os.X_OK) else None


def _on_path(program: Program) -> Path | None:
    """kubectl only: the others are daemons whose flags and version this code must know."""
    if program.name != "kubectl":
        return None
    path = shutil.which(program.name)
    return Path(path) if path is not None and _right_minor(Path(path)) else None


def _right_minor(path: Path) -> bool:
    arguments = ["version", "--client"] if path.name == "kubectl" else ["--version"]
    try:
        said = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return minor(said) == minor(kubernetes_version())


def _compile(missing: Sequence[Program], *, go: Go, report: Reporter) -> dict[str, Path]:
    for program in missing:
        program.folder().mkdir(parents=True, exist_ok=True)
    built: dict[str, Path] = {}
    folder = kubernetes_folder()
    title = f"compiling Kubernetes {kubernetes_version()} and kwok {kwok_version()} with {go.version} into {folder}"
    steps = {program.name: Step(program.name, program.cold_seconds) for program in missing}
    with report.steps(title, list(steps.values())) as runner:
        for program in missing:
            with runner.step(steps[program.name]):
                built[program.name] = _compile_one(program, go=go, folder=program.folder())
    return built


def compiled(go: Go, package: str, *, into: Path, within: Path) -> subprocess.CompletedProcess[str]:
    """What became of `go build`, run in that module's folder."""
    return subprocess.run(
        [go.command, "build", *build_flags(kubernetes_version()), "-o", into, package],
        cwd=within,
        env=go.environment(),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _module(program: Program, go: Go) -> Path:
    """etcd is Kubernetes' module's, and always that of the pinned one."""
    if not program.part_of_kubernetes:
        return GOLANG / program.module
    tools = [each.package for each in PROGRAMS if each.part_of_kubernetes]
    try:
        return module_folder(program.module, go=go, tools=tools)
    except ModuleFailed as failed:
        raise BuildFailed(str(failed)) from None


def _compile_one(program: Program, *, go: Go, folder: Path) -> Path:
    finished = folder / program.name
    unfinished = folder / f".{program.name}.{os.getpid()}.part"
    try:
        done = compiled(go, program.package, into=unfinished, within=_module(program, go))
        if done.returncode != 0:
            raise BuildFailed(
                f"go build {program.package} (module golang/{program.module}, {go.version}) failed with exit code"
                f" {done.returncode}:\n{(done.stderr or done.stdout).strip()[-4000:]}\n"
                "Modules come through GOPROXY: check that `go env GOPROXY` can be reached from here."
            )
        unfinished.rename(finished)
    finally:
        unfinished.unlink(missing_ok=True)
    return finished


def _stages() -> tuple[Path, ...] | None:
    paths = tuple(control_plane_folder() / "stages" / Path(stage).name for stage in STAGES)
    return paths if all(path.is_file() for path in paths) else None


def _copy_stages(go: Go) -> tuple[Path, ...]:
    """Copies kwok's ready-made Stage objects out of its Go module, which cleaning Go's cache would remove."""
    where = GOLANG / "kwok"
    for command in (
        ["mod", "download", "sigs.k8s.io/kwok"],
        ["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"],
    ):
        done = subprocess.run(
            [go.command, *command],
            cwd=where,
            env=go.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildFailed(
                f"go {' '.join(command)} failed, so kwok has no stages:\n{done.stderr.strip()[-2000:]}"
            )
    module = Path(done.stdout.strip())
    folder = control_plane_folder() / "stages"
    folder.mkdir(parents=True, exist_ok=True)
    for stage in STAGES:
        target = folder / Path(stage).name
        unfinished = target.with_suffix(".part")
        shutil.copyfile(module / "kustomize" / "stage" / stage, unfinished)
        unfinished.rename(target)
    paths = _stages()
    assert paths is not None
    return paths
