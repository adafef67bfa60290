"""`alnair cluster`: the real control plane on this machine, to try things by hand.

Only starts, stops and compiles; everything it does is in `alnair.sandbox`. It never touches a cluster that it
did not start itself, and never writes to the user's own kubeconfig.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from alnair.sandbox.access import Access

app = typer.Typer(
    name="cluster",
    help="A real Kubernetes control plane on this machine, with simulated GPU nodes.",
    no_args_is_help=True,
)

Directory = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        "-d",
        help="The cluster's folder: everything is in it, and it is removed when the cluster stops."
        " Default: `cluster` in Alnair's cache folder. Several clusters need several folders.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line on standard output.")]


@app.command()
def up(
    directory: Directory = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            "-n",
            min=0,
            max=5000,
            help="So many equal nodes of 8 x 24 GiB cards, instead of a small mixed cluster.",
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        bool,
        typer.Option(
            "--scheduler", help="Run kube-scheduler too, for pods of schedulerName default-scheduler."
        ),
    ] = False,
    background: Annotated[
        bool,
        typer.Option(
            "--background", "-b", help="Return when the cluster is up; `alnair cluster down` stops it."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start etcd, kube-apiserver, kube-controller-manager and kwok, with GPU nodes and Alnair's CRDs.

    Stays in the foreground and cleans up on Ctrl-C. The first start compiles
    the control plane (about ten minutes on two cores); later ones take seconds.
    """
    from alnair.sandbox.access import CommandFailed
    from alnair.sandbox.kept import KeeperFailed, KeptControlPlane

    console = Console(stderr=True, highlight=False)
    folder = (directory or default_directory()).absolute()
    try:
        if background:
            access = _detach(folder, scheduler=scheduler)
            try:
                _furnish(access, nodes)
            except BaseException:
                _stop(folder)
                raise
            _tell(access, as_json=as_json, console=console)
            console.print(
                f"stop it with: alnair cluster down --directory {folder}", markup=False, soft_wrap=True
            )
            return
        with KeptControlPlane.start(directory=folder, scheduler=scheduler) as sandbox:
            _furnish(sandbox.access, nodes)
            _tell(sandbox.access, as_json=as_json, console=console)
            console.print("running; Ctrl-C stops it and removes its folder")
            _wait_for_end(sandbox.process)
            console.print("stopping")
    except (KeeperFailed, CommandFailed) as problem:
        console.print(f"alnair cluster up: {problem}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def down(directory: Directory = None) -> None:
    """Stop the cluster in a folder and remove the folder. Not an error when none runs there."""
    folder = (directory or default_directory()).absolute()
    console = Console(stderr=True, highlight=False)
    if _stop(folder):
        console.print(f"the cluster in {folder} is gone", markup=False, soft_wrap=True)
    else:
        console.print(f"no cluster runs in {folder}", markup=False, soft_wrap=True)


@app.command()
def build(as_json: AsJson = False) -> None:
    """Obtain the control plane's programs, compiling what is neither cached nor in $KUBEBUILDER_ASSETS."""
    from alnair.sandbox.binaries import BuildFailed, obtain
    from alnair.sandbox.go import GoMissing
    from alnair.sandbox.progress import Report

    report = Report()
    try:
        binaries = obtain(report)
    except (BuildFailed, GoMissing) as problem:
        report.say(f"alnair cluster build: {problem}")
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps({name: str(path) for name, path in binaries.paths.items()}))
    else:
        folders = sorted({str(path.parent) for path in binaries.paths.values()})
        report.say(f"the control plane is ready: {', '.join(folders)}")


def default_directory() -> Path:
    from alnair.sandbox.versions import cache_folder

    return cache_folder() / "cluster"


def _furnish(access: Access, nodes: int | None) -> None:
    """Gives the cluster Alnair's kinds and some nodes."""
    from alnair.api.crds import render_crds
    from alnair.sandbox.fleet import small_mixed_fleet, uniform_fleet
    from alnair.sandbox.installation import wait_for_kinds

    access.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(render_crds().values()))
    wait_for_kinds(access)
    fleet = small_mixed_fleet() if nodes is None else uniform_fleet(nodes)
    if fleet:
        access.apply(fleet)


def _tell(access: Access, *, as_json: bool, console: Console) -> None:
    if as_json:
        print(json.dumps(access.to_json()), flush=True)
        return
    console.print(f"the cluster is up in {access.directory}", markup=False, soft_wrap=True)
    print(f"export KUBECONFIG={access.kubeconfig}", flush=True)
    console.print(f"its kubectl: {access.kubectl_program}", markup=False, soft_wrap=True)


def _detach(folder: Path, *, scheduler: bool) -> Access:
    """A keeper without an owner: it lives until `down`."""
    from alnair.sandbox.access import Access
    from alnair.sandbox.kept import KeeperFailed

    keeper = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "alnair.sandbox.keeper",
            "--detached",
            f"--directory={folder}",
            *(["--scheduler"] if scheduler else []),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    try:
        line = keeper.stdout.readline()
    except BaseException:
        keeper.terminate()
        keeper.wait()
        raise
    said = json.loads(line) if line else {"error": f"the keeper ended with exit code {keeper.wait()}"}
    if "error" in said:
        raise KeeperFailed(said["error"])
    return Access.from_json(said)


def _stop(folder: Path) -> bool:
    """Ends the keeper of a folder and waits until it has cleaned up. False when there is none."""
    from alnair.sandbox.folders import keeper_of

    keeper = keeper_of(folder)
    if keeper is None:
        return False
    os.kill(keeper, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while keeper_of(folder) is not None:
        if time.monotonic() > deadline:
            raise typer.BadParameter(
                f"the keeper {keeper} of {folder} did not end within a minute; its logs are in {folder / 'logs'}"
            )
        time.sleep(0.05)
    return True


def _wait_for_end(keeper: subprocess.Popen[str]) -> None:
    """Until Ctrl-C or SIGTERM, or until the keeper ends by itself (somebody called `down`)."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)
    try:
        keeper.wait()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    app()
