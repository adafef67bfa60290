"""The operator under test: `alnair run` as a local process with the rights of the chart's ServiceAccount.

The chart is installed for real (without a pod: replicas=0) into the test's namespace, with scheduler names of
the test's own, so that operators of tests side by side never take each other's pods. What the process may do is
exactly what the chart's RBAC grants. It dies with the test run, however that ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest
import yaml

from alnair.sandbox import installation
from alnair.sandbox.access import Access
from alnair.sandbox.installation import RELEASE, Installation
from alnair.sandbox.processes import LAUNCHER, log_tail
from alnair.sandbox.versions import kubernetes_version, minor
from harness.fixtures import REPOSITORY, make_namespace
from harness.plugin import show_log_on_failure

CHART = REPOSITORY / "charts" / "alnair"
ADMINISTRATOR = "admin"  # the sandbox's
DELIVERS = minor(kubernetes_version()) >= (1, 36)
"""Whether this control plane has the policies by which containers are told their cards. Tests that are about that are
marked `kubernetes("1.36", …)`."""
LEASE = "--lease-duration=3"  # so that the next one need not wait long after a kill -9


@dataclass(frozen=True)
class Release:
    """The chart as installed for one test."""

    cluster: Access
    installed: Installation
    delivering: bool = True

    @property
    def namespace(self) -> str:
        return self.installed.namespace

    @property
    def kubeconfig(self) -> Path:
        return self.installed.kubeconfig

    @property
    def config(self) -> Path:
        return self.installed.config

    @property
    def scheduler(self) -> str:
        """The schedulerName of the default profile; the others are `<this>-cost-saving` and so on."""
        return self.namespace

    @property
    def cost_saving(self) -> str:
        return f"{self.namespace}-cost-saving"

    @property
    def high_performance(self) -> str:
        return f"{self.namespace}-high-performance"


def install(
    cluster: Access,
    namespace: str,
    folder: Path,
    *,
    delivery: dict[str, Any] | None = None,
    extender: dict[str, Any] | None = None,
    elastic: dict[str, Any] | None = None,
    policies: dict[str, Any] | None = None,
    profiles: Sequence[dict[str, Any]] = (),
) -> Release:
    """The chart in the test's namespace, with scheduler names of its own and without the CRDs, which are shared.

    `profiles` come beside the shipped ones, `<namespace>-` in front of their names. Nodes of tests are Alnair's: pods
    that ask for whole cards get them through the environment unless told otherwise. The administrator may edit
    records by hand, since what becomes of them is put right by the operator and tests look at that.
    """
    shipped = yaml.safe_load((CHART / "values.yaml").read_text())["profiles"]
    own = [{**each, "schedulerName": own_name(each["schedulerName"], namespace)} for each in shipped]
    own += [{**each, "schedulerName": f"{namespace}-{each['schedulerName']}"} for each in profiles]
    crds = {
        "podGroups": False,
        "nodeResourceTopologies": False,
        "gpuAllocations": False,
        "elasticHorovodJobs": False,
    }
    delivery = {"wholeCards": "Environment", "enabled": DELIVERS, **(delivery or {})}
    installed = installation.install(
        cluster,
        chart=CHART,
        namespace=namespace,
        folder=folder,
        values={
            "crds": crds,
            "profiles": own,
            "delivery": delivery,
            "extender": extender or {},
            "elastic": elastic or {},
            "policies": {"recordEditors": [ADMINISTRATOR], **(policies or {})},
        },
    )
    return Release(cluster, installed, delivering=delivery.get("enabled", True))


def own_name(profile: str, namespace: str) -> str:
    """`alnair-cost-saving` becomes `<namespace>-cost-saving`."""
    return namespace + profile.removeprefix("alnair")


class Operator:
    """One `alnair run`, to be killed and started again at will."""

    def __init__(
        self,
        release: Release,
        folder: Path,
        *,
        name: str = "operator",
        flags: tuple[str, ...] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.release = release
        self.environment = environment
        self.log = folder / f"{name}.log"
        self.flags = flags
        self.process: subprocess.Popen[bytes] | None = None
        self.metrics_port = 0
        self.ended_on_purpose = False

    @property
    def scheduler(self) -> str:
        return self.release.scheduler

    async def start(self, *, timeout: float = 30) -> None:
        """Returns when the operator says that it is ready."""
        assert not self.running(), "the operator runs already"
        self.ended_on_purpose = False
        ready: Future[dict[str, Any]] = Future()
        ready.set_running_or_notify_cancel()  # whoever stops waiting does not take it from `_read`
        command = installation.command(self.release.installed, LEASE, *self.flags)
        with self.log.open("ab") as log:
            # Started here, in the main thread: it dies with the thread that started it.
            self.process = subprocess.Popen(  # noqa: ASYNC220 (it returns at once)
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**installation.environment(self.log.parent), **self.environment},
            )
        threading.Thread(
            target=self._read, args=(self.process, ready), name="operator stdout", daemon=True
        ).start()
        try:
            said = await asyncio.wait_for(asyncio.wrap_future(ready), timeout)
        except TimeoutError:
            self.kill()
            raise AssertionError(
                f"the operator was not ready after {timeout:g} s{log_tail(self.log)}"
            ) from None
        self.metrics_port = int(said.get("metrics_port", 0))
        if self.release.delivering:
            await asyncio.to_thread(
                installation.wait_for_delivery, self.release.cluster, self.release.namespace, self.scheduler
            )

    def _read(self, process: subprocess.Popen[bytes], ready: Future[dict[str, Any]]) -> None:
        assert process.stdout is not None
        with process.stdout as output, self.log.open("ab") as log:
            for line in output:
                log.write(line)
                log.flush()
                if not ready.done() and line.startswith(b"{") and b'"ready"' in line:
                    ready.set_result(json.loads(line))
        if not ready.done():
            code = process.wait()
            ready.set_exception(
                AssertionError(f"the operator ended with exit code {code}{log_tail(self.log)}")
            )

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        if self.process is not None:
            if self.running():
                self.ended_on_purpose = True
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    async def stop(self, *, timeout: float = 20) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None, "the operator was never started"
        if self.running():
            self.ended_on_purpose = True
            self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self.process.wait, timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the operator did not end within {timeout:g} s{log_tail(self.log)}"
            ) from None

    async def restart(self) -> None:
        """kill -9, and a new one at once."""
        self.kill()
        await self.start()

    async def metrics_with(self, line: str, *, timeout: float = 30) -> str:
        """/metrics once this stands in it: metrics cannot be watched."""
        deadline = time.monotonic() + timeout
        while line not in (text := await self.metrics()):
            assert time.monotonic() < deadline, f"{line!r} is not in the metrics:\n{text}"
            await asyncio.sleep(0.05)
        return text

    async def metrics(self) -> str:
        """The text of /metrics."""
        address = f"http://127.0.0.1:{self.metrics_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(address) as answer:
            return await answer.text()


@pytest.fixture(scope="module")
def operator_of_the_file(
    cluster: Access, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Operator]:
    """Installed once, in a namespace of its own, for all tests of a file that are marked `shares_operator`."""
    namespace, folder = make_namespace(cluster), tmp_path_factory.mktemp("operator")
    made = Operator(install(cluster, namespace, folder, **marked_values(request.node)), folder)
    # No loop runs between tests, and the process must be started by the main thread; theirs stays the current loop.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(made.start())
        yield made
        if made.running():
            runner.run(made.stop())
    cluster.helm("uninstall", RELEASE, "--namespace", namespace, "--wait=false")
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def lent(request: pytest.FixtureRequest) -> Operator | None:
    """`@pytest.mark.shares_operator`: most of a short test's time is the installation and start of an operator, which
    one that neither stops it, nor edits its config, nor reads totals of its metrics can share with others."""
    if request.node.get_closest_marker("shares_operator") is None:
        return None
    same = marked_values(request.node) == marked_values(request.node.getparent(pytest.Module))
    assert same, "a test with values of its own needs an operator of its own"
    shared: Operator = request.getfixturevalue("operator_of_the_file")
    return shared


def marked_values(node: pytest.Item | pytest.Module) -> dict[str, Any]:
    """Of the chart: `@pytest.mark.delivery(...)` says those under `delivery`, and so on."""
    markers = {name: node.get_closest_marker(name) for name in ("delivery", "elastic", "policies")}
    return {name: marker.kwargs for name, marker in markers.items() if marker is not None}


@pytest.fixture
def release(
    cluster: Access, namespace: str, tmp_path: Path, request: pytest.FixtureRequest, lent: Operator | None
) -> Iterator[Release]:
    """The chart, installed for this test with the values that its marks say; its cluster-scoped objects go with it."""
    if lent is not None:
        yield lent.release
        return
    installed = install(cluster, namespace, tmp_path, **marked_values(request.node))
    yield installed
    cluster.helm("uninstall", RELEASE, "--namespace", namespace, "--wait=false")


@pytest.fixture
async def operator(
    release: Release, tmp_path: Path, request: pytest.FixtureRequest, lent: Operator | None
) -> AsyncIterator[Operator]:
    """A running operator: of this test, or lent to it. Its log is shown when the test fails."""
    made = lent or Operator(release, tmp_path)
    show_log_on_failure(request.node, "the operator's log", made.log)
    if lent is None:
        await made.start()
    started = made.process
    yield made
    if not made.running() and not made.ended_on_purpose:
        code = made.process.returncode if made.process is not None else None
        raise AssertionError(f"the operator ended by itself with exit code {code}{log_tail(made.log)}")
    if lent is not None:
        assert made.process is started and made.running(), "an operator that is shared was stopped"  # noqa: PT018
    elif made.running():
        await made.stop()
