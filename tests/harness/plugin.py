"""One control plane a test session, owned by the process that the developer started.

With xdist that is the controller: it starts the keeper before its first worker and hands the workers the
address. Without xdist the keeper starts when the first test asks for the cluster. Unit and chart tests never
start one. The keeper ends with its owner, however that ends (see alnair.sandbox.keeper).

When the whole suite has passed, and before the control plane goes, what operators asked of it is held against what the
chart grants them (see `rights`): a right that nobody used and a request that was denied fail the run.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from alnair.sandbox.access import Access
from alnair.sandbox.kept import KeptControlPlane
from alnair.sandbox.launcher import die_with_parent
from alnair.sandbox.processes import log_tail
from alnair.sandbox.versions import kubernetes_version, minor
from harness import rights

CLUSTERLESS = ("unit", "chart", "topology")
"""Folders under tests/ whose tests need no cluster."""

WORKER_INPUT = "alnair_cluster"


class SharedCluster:
    """The session's control plane: started at the first call, in whichever process owns it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.kept: KeptControlPlane | None = None

    def access(self) -> Access:
        given = getattr(self.config, "workerinput", None)
        if given is not None:
            if WORKER_INPUT not in given:
                raise pytest.UsageError(
                    "this test wants a cluster but only tests/unit or tests/chart were asked for: move it out of them"
                )
            return Access.from_json(given[WORKER_INPUT])
        if self.kept is None:
            # Straight to the terminal: where nothing is compiled yet this takes minutes and shows progress.
            capture = self.config.pluginmanager.getplugin("capturemanager")
            if capture is None:
                self.kept = KeptControlPlane.start()
            else:
                with capture.global_and_fixture_disabled():
                    self.kept = KeptControlPlane.start()
        return self.kept.access

    def running(self) -> Access | None:
        """The control plane if there is one; none is started for the question."""
        if self.kept is not None or WORKER_INPUT in getattr(self.config, "workerinput", {}):
            return self.access()
        return None

    def close(self) -> None:
        if self.kept is not None:
            self.kept.close()
            self.kept = None


SHARED = pytest.StashKey[SharedCluster]()


def pytest_configure(config: pytest.Config) -> None:
    # Where make was started in the background SIGINT is ignored, in every child too, and a Ctrl-C in a test would be
    # without effect. A handler of our own is reset to the default in children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        # A worker in the middle of a test would not notice that its controller was killed.
        die_with_parent()
    config.stash[SHARED] = SharedCluster(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a slow test come first, so that no worker is left with one when the others have nothing more to do.

    Whole files: what tests of a file share is made once. The first worker gets them, and waits in them for what
    happens on a control plane, while the next one computes through the unit tests.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


FINDINGS = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    kept = config.stash[SHARED].kept
    if kept is None or session.exitstatus != pytest.ExitCode.OK or not is_whole(config):
        return
    config.stash[FINDINGS] = rights.findings(rights.granted(kept.access), rights.of_session(kept.access))
    if config.stash[FINDINGS]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(FINDINGS, None)
    if found is None:
        return
    terminalreporter.section("the chart's RBAC against the audit log")
    for line in found or ["all that is granted was used, and nothing was denied"]:
        terminalreporter.line(line, red=bool(found), green=not found)


def is_whole(config: pytest.Config) -> bool:
    """Whether every test of the suite was asked for: only then is a right that nobody used one too many."""
    narrowed = ("keyword", "markexpr", "deselect", "lf", "ignore", "ignore_glob")
    every = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return every and not any(config.getoption(each, None) for each in narrowed)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash:
        config.stash[SHARED].close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist, in the controller, before each worker starts."""
    config: pytest.Config = node.config
    if needs_cluster(config.args, root=config.rootpath, invoked_in=config.invocation_params.dir):
        node.workerinput[WORKER_INPUT] = config.stash[SHARED].access().to_json()


def needs_cluster(arguments: list[str], *, root: Path, invoked_in: Path) -> bool:
    """False when every path on the command line lies in a folder of clusterless tests."""
    free = [root / "tests" / folder for folder in CLUSTERLESS]
    paths = [(invoked_in / argument.partition("::")[0]).resolve() for argument in arguments]
    return not paths or any(not any(path.is_relative_to(folder) for folder in free) for path in paths)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.kubernetes("1.36", "why")`: skipped on an older control plane, with the reason."""
    for marker in item.iter_markers("kubernetes"):
        least, why = marker.args
        if minor(kubernetes_version()) < minor(least):
            pytest.skip(f"needs Kubernetes {least}, and this is {kubernetes_version()}: {why}")


LOGS = pytest.StashKey[list[tuple[str, Path]]]()


def show_log_on_failure(item: pytest.Item, title: str, log: Path) -> None:
    """The end of that file stands in the report if the test fails."""
    item.stash.setdefault(LOGS, []).append((title, log))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for title, log in item.stash.get(LOGS, []):
            report.sections.append((title, log_tail(log, lines=150).removeprefix("; ")))
    return report
