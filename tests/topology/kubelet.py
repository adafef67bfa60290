"""The kubelet's side: the oracle, compiled once into the user's cache folder, and its process."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from alnair.sandbox.binaries import BuildFailed, compiled
from alnair.sandbox.go import find_go
from alnair.sandbox.locks import file_lock
from alnair.sandbox.progress import Reporter, Step
from alnair.sandbox.versions import GOLANG, build_key, cache_folder, pinned_kubernetes_version

SOURCE = Path(__file__).parent / "oracle"
COLD_SECONDS = 60  # beside a compiled control plane; its packages are mostly the same


def program(report: Reporter) -> Path:
    """Compiled first if it must be."""
    digest = hashlib.sha256(build_key().encode())
    for source in sorted(SOURCE.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = cache_folder() / "topology-oracle" / f"{pinned_kubernetes_version()}-{digest.hexdigest()[:12]}"
    finished = folder / "oracle"
    with file_lock(folder.with_name(f"{folder.name}.lock")):
        if not os.access(finished, os.X_OK):
            title = f"compiling the kubelet's topology manager {pinned_kubernetes_version()} into {folder}"
            step = Step("oracle", COLD_SECONDS)
            with report.steps(title, [step]) as runner, runner.step(step):
                folder.mkdir(parents=True, exist_ok=True)
                _compile(finished, report)
    return finished


def _compile(finished: Path, report: Reporter) -> None:
    """Under the control plane's go.mod: the same versions, and nothing to download that it does not need."""
    go = find_go(report)
    with tempfile.TemporaryDirectory(dir=finished.parent) as build:
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(GOLANG / "kubernetes" / name, Path(build) / name)
        for source in SOURCE.iterdir():
            shutil.copyfile(source, Path(build) / source.name)
        done = compiled(go, ".", into=Path(build) / "oracle", within=Path(build))
        if done.returncode != 0:
            raise BuildFailed(f"go build of {SOURCE.name} failed:\n{done.stderr.strip()[-4000:]}")
        (Path(build) / "oracle").rename(finished)


class Kubelet:
    """One process for all cases: a line in, a line out."""

    def __init__(self, command: Path) -> None:
        self._process = subprocess.Popen(
            [command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def verdicts(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        """One for each pod of the case, up to the first that is refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle ended with code {self._process.wait()} at: {json.dumps(case)}")
        answer: list[dict[str, Any]] = json.loads(line)
        return answer

    def __enter__(self) -> Kubelet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
