"""One operator process behind a door of its own, to be killed, stopped and carried on at will."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml

from alnair.sandbox.credentials import kubeconfig, write_private
from alnair.sandbox.processes import log_tail
from chaos.proxy import Door, Meet, Upstream
from harness.certificates import Authority
from harness.operator import Operator, Release

LEASE: Final = "--lease-duration=2"
FOR_EVER: Final = 1e6
LOST: Final = "leadership lost"


class Gate:
    """What every door of a control plane has in common: the way to the apiserver, and a certificate."""

    def __init__(self, release: Release, folder: Path) -> None:
        cluster = release.cluster
        authority = Authority(folder, "chaos")
        pair = authority.signs("127.0.0.1")
        self.trusted = authority.certificate.read_text("utf-8")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(pair.certificate, pair.key)
        self.upstream = Upstream(cluster.server(), ssl.create_default_context(cadata=cluster.authority()))

    def close(self) -> None:
        self.upstream.close()


class Replica:
    """`leading` is done once it leads and is ready; until then it stands by."""

    def __init__(
        self,
        gate: Gate,
        release: Release,
        folder: Path,
        name: str,
        meet: Meet,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self._environment = environment
        self.door = Door(gate.upstream, gate.tls, meet)
        self.standing_by = asyncio.Event()
        """It has asked for the Lease."""
        self.led_at = 0.0
        self.may_end = False
        """It was stopped for so long that it lost its Lease, and has to end."""
        self.doomed = False
        """It is about to be killed: what it calls from now on is not carried out."""
        self.dead = asyncio.Event()
        self._gate = gate
        self._release = release
        self._folder = folder
        self.operator: Operator
        self.leading: asyncio.Task[None]

    async def start(self) -> None:
        """Returns at once."""
        port = await self.door.open()
        token = yaml.safe_load(self._release.kubeconfig.read_text("utf-8"))["users"][0]["user"]["token"]
        text = kubeconfig(
            server=f"https://127.0.0.1:{port}",
            ca=self._gate.trusted,
            token=token,
            user=self.name,
            namespace=self._release.namespace,
        )
        path = write_private(self._folder / f"{self.name}.kubeconfig", text)
        own = replace(
            self._release, installed=replace(self._release.installed, kubeconfig=path), delivering=False
        )
        self.operator = Operator(
            own, self._folder, name=self.name, flags=(LEASE,), environment=self._environment
        )
        self.leading = asyncio.create_task(self._lead(), name=f"{self.name} leads")

    async def _lead(self) -> None:
        await self.operator.start(timeout=FOR_EVER)
        self.led_at = time.monotonic()

    @property
    def leads(self) -> bool:
        return self.running and self.leading.done() and self.leading.exception() is None

    @property
    def running(self) -> bool:
        return self.operator.process is None or self.operator.running()

    def kill(self) -> None:
        self.doomed = True
        self.operator.kill()
        self.dead.set()

    def stop(self) -> None:
        """SIGSTOP: it notices nothing, and goes on later as if no time had passed."""
        self._signal(signal.SIGSTOP)

    def carry_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        process = self.operator.process
        if process is not None and self.operator.running():
            os.killpg(process.pid, number)

    def why_it_ended(self) -> str:
        """Empty if that is as it should be."""
        if self.operator.ended_on_purpose or self.may_end:
            return ""
        return f"{self.name} ended by itself{log_tail(self.operator.log)}"

    def lost_its_lease(self) -> bool:
        log = self.operator.log
        return log.exists() and LOST in log.read_text("utf-8", "replace")

    async def close(self) -> None:
        self.carry_on()
        self.kill()
        if self.operator.process is None:
            self.leading.cancel()
        await asyncio.gather(self.leading, return_exceptions=True)
        await self.door.close()
