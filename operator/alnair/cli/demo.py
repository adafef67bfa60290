"""`alnair demo`: the whole thing on one machine, from nothing to a gang that runs.

A real control plane, the chart installed by Helm, the operator with the chart's rights, three sample workloads, and
then what a user would look at. It succeeds only if everything is as it should be. Whatever it started ends with it,
however it ends, and nothing outside the sandbox's own folder is written.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from alnair.api import names
from alnair.cli.screen import Screen

if TYPE_CHECKING:
    from alnair.cli import waiting
    from alnair.sandbox.access import Access
    from alnair.sandbox.kept import KeptControlPlane
    from alnair.sandbox.processes import Child
    from alnair.sandbox.workloads import Check

SYSTEM = "alnair-system"
NAMESPACE = "demo"
PATIENCE = 60.0  # seconds for each thing that is waited for; each takes about one
ALNAIRS_EVENTS = (
    "reportingComponent=alnair,reason!=FailedScheduling"  # the group says the same once for all pods
)
LARGER_NODE = "larger-node.yaml"


class DemoFailed(Exception):
    """Something is not as it should be. The message says what."""


def demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything was shown, also in a terminal.")
    ] = False,
    chart: Annotated[
        Path | None,
        typer.Option(
            help="The chart to install; default: charts/alnair of the work tree that this runs from."
        ),
    ] = None,
) -> None:
    """Show Alnair at work: a control plane, a GPU cluster, the chart, the operator, three workloads.

    In a terminal it stays up until Ctrl-C. With --once, or without a terminal, it ends by itself: with
    exit code 0 only if everything is as it should be.
    """
    from alnair.sandbox.access import CommandFailed, RequestFailed
    from alnair.sandbox.kept import KeeperFailed, KeptControlPlane
    from alnair.sandbox.processes import ChildFailed

    # SIGINT too: a shell that starts a job in the background leaves it ignored, and Python leaves that so.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    screen = Screen(Console(highlight=False))
    stays = screen.console.is_terminal and not once
    try:
        found = find_chart(chart)
        with screen.step("the control plane: etcd, kube-apiserver, kube-controller-manager, kwok"):
            sandbox = KeptControlPlane.start()
        with sandbox:
            _show(sandbox, found, screen, stays=stays)
    except (ChildFailed, CommandFailed, DemoFailed, KeeperFailed, RequestFailed) as problem:
        Screen(Console(stderr=True, highlight=False)).say(f"alnair demo: {problem}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def find_chart(given: Path | None) -> Path:
    """The chart that was named, else the work tree's own."""
    chart = given.absolute() if given else Path(__file__).resolve().parents[3] / "charts" / "alnair"
    if not (chart / "Chart.yaml").is_file():
        advice = "name the folder of the chart" if given else "run the demo from a work tree, or pass --chart"
        raise DemoFailed(f"there is no chart at {chart}; {advice}")
    return chart


def _show(sandbox: KeptControlPlane, chart: Path, screen: Screen, *, stays: bool) -> None:
    from alnair.sandbox import installation, workloads

    access, folder = sandbox.access, sandbox.access.directory / "demo"
    with screen.step(f"helm install alnair {_short(chart)} --namespace {SYSTEM} --create-namespace"):
        installed = installation.install(access, chart=chart, namespace=SYSTEM, folder=folder)
        installation.wait_for_kinds(access)
        installation.wait_for_delivery(access, SYSTEM, names.PROFILE_DEFAULT)
    screen.note("with replicas=0: no container runs here, so the operator is a local process")
    with screen.step("a small mixed GPU cluster"):
        _furnish(access)
    operator = installation.operator(installed, log=folder / "operator.log")
    try:
        with screen.step("the operator: alnair run, with the token of the chart's ServiceAccount"):
            operator.start()
            operator.wait_ready(lambda: installation.says_ready(operator.log), timeout=PATIENCE)
        with screen.step("the cards of every node, published where nobody else does"):
            _wait_for_topologies(access)
        for sample in workloads.SAMPLES:
            with screen.step(f"examples/{sample.file}: {sample.shows}"):
                access.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=sample.text())
                _wait(access, operator, sample.wrong)
        _look(access, screen)
        _verify(access, operator)
        screen.rule("everything is as it should be")
        if stays:
            _stay(sandbox, operator, folder, screen)
    finally:
        operator.stop(grace=5)


# -- the steps -------------------------------------------------------------------------------------------------------


def _furnish(access: Access) -> None:
    """The nodes, ready to take pods, and a namespace in which pods can be created."""
    from alnair.cli.waiting import Objects
    from alnair.sandbox.fleet import small_mixed_fleet

    fleet = small_mixed_fleet()
    wanted = {each["metadata"]["name"] for each in fleet if each["kind"] == "Node"}
    access.apply(fleet)
    access.kubectl("create", "namespace", NAMESPACE)

    def missing(objects: Objects) -> list[str]:
        ready = {node["metadata"]["name"] for node in objects["nodes"] if _is_ready(node)}
        accounts = {account["metadata"]["name"] for account in objects["accounts"]}
        return [
            *(f"node {name} is not ready" for name in sorted(wanted - ready)),
            *([] if "default" in accounts else [f"namespace {NAMESPACE} has no ServiceAccount"]),
        ]

    paths = {"nodes": "/api/v1/nodes", "accounts": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"}
    _wait_while_missing(access, paths, missing)


def _wait_while_missing(access: Access, paths: dict[str, str], missing: waiting.Check) -> None:
    """Until nothing is, of what lies at these paths."""
    from alnair.cli.waiting import NotReached, watched

    async def settle() -> None:
        async with watched(access.kubeconfig, paths) as view:
            await view.until(missing, timeout=PATIENCE)

    try:
        asyncio.run(settle())
    except NotReached as problem:
        raise DemoFailed(str(problem)) from None


def _wait_for_topologies(access: Access) -> None:
    from alnair.cli.waiting import Objects
    from alnair.sandbox.fleet import has_cards, small_mixed_fleet

    wanted = {each["metadata"]["name"] for each in small_mixed_fleet() if has_cards(each)}

    def missing(objects: Objects) -> list[str]:
        there = {each["metadata"]["name"] for each in objects["topologies"]}
        return [f"node {name} has no NodeResourceTopology" for name in sorted(wanted - there)]

    _wait_while_missing(access, {"topologies": f"/apis/{names.API_NRT}/{names.PLURAL_NRT}"}, missing)


def _is_ready(node: dict[str, Any]) -> bool:
    """Ready, and without the taint that every new node starts with."""
    conditions = node.get("status", {}).get("conditions", [])
    return not node["spec"].get("taints") and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def _paths() -> dict[str, str]:
    """Where a `Seen` comes from."""
    return {
        "pods": f"/api/v1/namespaces/{NAMESPACE}/pods",
        "groups": f"/apis/{names.API_PODGROUP}/namespaces/{NAMESPACE}/{names.PLURAL_PODGROUP}",
        "records": f"/apis/{names.API_ALLOCATION}/namespaces/{NAMESPACE}/{names.PLURAL_ALLOCATION}",
        "events": f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
    }


def _wait(access: Access, operator: Child, wrong: Check) -> None:
    """Until the sample is as it should be; an operator that ends meanwhile is an error at once."""
    from alnair.cli.waiting import NotReached, watched
    from alnair.sandbox.workloads import Seen

    def alive() -> None:
        if not operator.running():
            raise DemoFailed(f"the operator ended by itself{operator.tail()}")

    async def settle() -> None:
        async with watched(access.kubeconfig, _paths()) as view:
            await view.until(lambda objects: wrong(Seen(**objects)), timeout=PATIENCE, alive=alive)

    try:
        asyncio.run(settle())
    except NotReached as problem:
        raise DemoFailed(f"{problem}{operator.tail()}") from None


def _look(access: Access, screen: Screen) -> None:
    """What a user would look at."""
    from alnair.sandbox.workloads import TOO_LARGE

    topologies = ("get", names.PLURAL_NRT)
    screen.command(["kubectl", *topologies], access.kubectl(*topologies))
    for arguments in (
        ("get", "podgroups"),
        ("get", "gpuallocations"),
        ("get", "pods", "-o", "wide"),
        ("get", "events", "--field-selector", ALNAIRS_EVENTS),
    ):
        output = access.kubectl("-n", NAMESPACE, *arguments)
        screen.command(["kubectl", "-n", NAMESPACE, *arguments], output)
    explain = ["explain", f"podgroup/{TOO_LARGE.manifests[0]['metadata']['name']}", "-n", NAMESPACE]
    done = subprocess.run(
        [str(_program()), *explain], env=access.environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise DemoFailed(
            f"alnair {shlex.join(explain)} ended with exit code {done.returncode}:\n{done.stderr}"
        )
    screen.command(["alnair", *explain], done.stdout)


def _verify(access: Access, operator: Child) -> None:
    """Once more, all together, by fresh reads: a gang may have been lost while the next one was placed."""
    from alnair.sandbox.workloads import SAMPLES, Seen

    seen = Seen(**{name: access.request("GET", path)["items"] for name, path in _paths().items()})
    problems = [problem for sample in SAMPLES for problem in sample.wrong(seen)]
    if problems:
        raise DemoFailed("; ".join(problems) + operator.tail())


def _stay(sandbox: KeptControlPlane, operator: Child, folder: Path, screen: Screen) -> None:
    """Until Ctrl-C."""
    import yaml

    from alnair.sandbox.fleet import A100_80, gpu_node
    from alnair.sandbox.workloads import TOO_LARGE

    larger = gpu_node("a100-80g-1", model=A100_80.model, cards=8, memory_mib=A100_80.memory_mib)
    (folder / LARGER_NODE).write_text(yaml.safe_dump(larger, sort_keys=False), "utf-8")
    access, group = sandbox.access, TOO_LARGE.manifests[0]["metadata"]["name"]
    kubectl = "kubectl" if shutil.which("kubectl") else str(access.kubectl_program)
    alnair = "alnair" if shutil.which("alnair") else str(_program())
    screen.say("\nThe cluster stays up. In another terminal:")
    screen.say(f"  export KUBECONFIG={shlex.quote(str(access.kubeconfig))}")
    screen.say("Three commands to try:")
    for command, comment in (
        (f"{kubectl} -n {NAMESPACE} get podgroups,gpuallocations -o wide", "what is placed, and why not"),
        (f"{kubectl} apply -f {folder / LARGER_NODE}", f"a node with larger cards: {group} starts"),
        (f"{alnair} explain podgroup/{group} -n {NAMESPACE}", "where each member is, card by card"),
    ):
        screen.say(f"  {command}   # {comment}")
    screen.say("Ctrl-C ends everything and leaves nothing behind.")
    try:
        while sandbox.process.poll() is None:
            if not operator.running():
                raise DemoFailed(f"the operator ended by itself{operator.tail()}")
            time.sleep(0.2)
        raise DemoFailed("the control plane was ended by somebody else")
    except KeyboardInterrupt:
        screen.say("\ncleaning up")


def _program() -> Path:
    return Path(sys.executable).with_name("alnair")


def _short(path: Path) -> str:
    """Relative to where the user stands, if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _leave(*_: object) -> NoReturn:
    raise KeyboardInterrupt
