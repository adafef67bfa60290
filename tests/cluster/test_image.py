"""The image itself, unpacked as a container runtime does it, runs `alnair run` with the chart's arguments.

No container runtime is here, so its part is played with the kernel's own means: a mount namespace, the root read-only,
the chart's volumes mounted where its pod has them, the chart's user, no new privileges. Only the numbers of the ports
are not the chart's, because tests run side by side.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from alnair.sandbox import installation
from alnair.sandbox.access import Access
from alnair.sandbox.installation import RELEASE
from alnair.sandbox.processes import log_tail
from deploy import image
from deploy.oci import unpack
from deploy.static_pod import static_pod
from harness.api import Api
from harness.builders import node, pod
from harness.fixtures import Fleet
from harness.operator import Release
from harness.watching import record_of_pod

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount, chroot and become the image's user"),
    pytest.mark.skipif(
        shutil.which("apt-get") is None or shutil.which("unshare") is None,
        reason="the image is made of Debian packages, by apt-get, and run by unshare",
    ),
    pytest.mark.timeout(600),  # where no layer is kept yet
]

ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
CONTAINER = """
root=$1; volumes=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t tmpfs tmpfs "$root/tmp" -o mode=1777
mount -t proc proc "$root/proc"
: > "$root/dev/null"; mount --bind /dev/null "$root/dev/null"
while IFS=: read -r from to; do mount --bind -o ro "$from" "$root/$to"; done <<EOF
$volumes
EOF
mount -o remount,bind,ro "$root"
if touch "$root/etc/written" 2>/dev/null; then echo "the root can be written to" >&2; exit 97; fi
setpriv --no-new-privs chroot --userspec=65532:65532 --groups= "$root" "$@" &
# Whoever started us ends, or wants us to: then the line is closed.
read -r _ || true
kill -TERM $!
wait $!
"""


@dataclass
class Container:
    """One pod's container: its command, environment and volumes (path in the image by folder on the host)."""

    root: Path
    log: Path
    command: list[str]
    environment: dict[str, str]
    volumes: dict[Path, str]
    process: subprocess.Popen[bytes] | None = field(default=None)

    async def start(self) -> dict[str, Any]:
        """What the operator says when it is ready."""
        for inside in self.volumes.values():
            (self.root / inside).mkdir(parents=True, exist_ok=True)
        listed = "\n".join(f"{folder}:{inside}" for folder, inside in self.volumes.items())
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 (it returns at once)
                [
                    *ALONE,
                    "sh",
                    "-ec",
                    CONTAINER,
                    "sh",
                    str(self.root),
                    listed,
                    *self.command,
                ],
                stdin=subprocess.PIPE,  # the line
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        reading = asyncio.to_thread(self.process.stdout.readline)
        try:
            said = await asyncio.wait_for(reading, 60)
        except TimeoutError:
            self.hang_up()
            raise AssertionError(f"the image's operator was not ready{log_tail(self.log)}") from None
        assert said.startswith(b"{"), f"{said!r}{log_tail(self.log)}"
        ready: dict[str, Any] = json.loads(said)
        return ready

    def hang_up(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def stop(self) -> int:
        assert self.process is not None
        self.hang_up()
        return await asyncio.to_thread(self.process.wait, 30)

    def status(self) -> dict[str, str]:
        """/proc/PID/status of the process that has the image as its root."""
        (process,) = (
            path.parent for path in Path("/proc").glob("[0-9]*/root") if readable(path) == str(self.root)
        )
        lines = (process / "status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def readable(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it ended, or is none of ours
        return ""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's root file system, built now (kept layers: a few seconds; none: two minutes) and unpacked."""
    folder = tmp_path_factory.mktemp("image")
    built = image.build(folder, say=lambda text: print(f"image: {text}", file=sys.stderr))
    config = unpack(built.archive, folder / "root")
    assert config["config"]["User"] == "65532:65532"
    names = {each["name"] for each in json.loads(built.bill.read_text())["components"]}
    assert {"libc6", "libpython3-stdlib", "numpy", "kopf", "alnair"} <= names
    for absent in ("bin/sh", "usr/bin/sh", "usr/bin/apt-get", "usr/bin/dpkg", "usr/bin/perl"):
        assert not (folder / "root" / absent).exists()
    return folder / "root"


async def health(port: int) -> int:
    """Kopf starts beside the rest, and says nowhere that its port is open."""
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                    return answer.status
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)
    raise AssertionError("nobody answers at the liveness port")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def as_the_kubelet_starts_it(spec: dict[str, Any], namespace: str, liveness: int) -> list[str]:
    (container,) = spec["containers"]
    words = [*container["command"], *container["args"]]
    words[words.index("--metrics-port") + 1] = "0"
    words[words.index("--liveness-port") + 1] = str(liveness)
    return [word.replace("$(POD_NAMESPACE)", namespace) for word in words]


def files(folder: Path, contents: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in contents.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    return folder


async def test_the_image_binds_a_pod_as_the_deployments_container_and_as_the_static_pods(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, release: Release, root: Path, tmp_path: Path
) -> None:
    await fleet.add(node("gpu").with_cards(1, memory_mib=16384))
    manifests = yaml.safe_load_all(cluster.helm("get", "manifest", RELEASE, f"--namespace={namespace}"))
    (deployment,) = (each for each in manifests if each and each["kind"] == "Deployment")
    lone = static_pod(deployment)
    await api.call("POST", f"/api/v1/namespaces/{namespace}/pods", lone, params={"dryRun": "All"})

    config = release.config.read_text()
    kubeconfig = yaml.safe_load(release.kubeconfig.read_text())
    account = {
        "token": kubeconfig["users"][0]["user"]["token"],
        "ca.crt": cluster.authority(),
        "namespace": namespace,
    }
    address = urlsplit(cluster.server())
    inside = {
        "PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin",
        "LANG": "C.UTF-8",
        "POD_NAMESPACE": namespace,
    }
    ways = {
        "deployment": (
            deployment["spec"]["template"]["spec"],
            {
                files(tmp_path / "config", {"config.yaml": config}): "etc/alnair",
                files(tmp_path / "account", account): ACCOUNT,
            },
            {
                "KUBERNETES_SERVICE_HOST": str(address.hostname),
                "KUBERNETES_SERVICE_PORT": str(address.port),
            },
        ),
        "static-pod": (
            lone["spec"],
            {
                files(
                    tmp_path / "host",
                    {"config.yaml": config, "kubeconfig": release.kubeconfig.read_text()},
                ): "etc/alnair"
            },
            {},
        ),
    }
    for way, (spec, volumes, environment) in ways.items():
        liveness = free_port()
        operator = Container(
            root,
            tmp_path / f"{way}.log",
            as_the_kubelet_starts_it(spec, namespace, liveness),
            {**inside, **environment},
            volumes,
        )
        await operator.start()
        if release.delivering:
            await asyncio.to_thread(installation.wait_for_delivery, cluster, namespace, release.scheduler)
        asking = pod(way).slice(memory_gib=4).by(release.scheduler).selecting(fleet.selector)
        await api.create(asking.manifest(), namespace=namespace)
        await record_of_pod(api, namespace, way, phase="Bound")
        process = operator.status()
        assert process["Uid"].split() == ["65532"] * 4
        assert process["Groups"].split() in ([], ["65532"])
        assert (process["NoNewPrivs"], int(process["CapEff"], 16)) == ("1", 0)
        assert await health(liveness) == 200
        assert await operator.stop() == 0, log_tail(operator.log)
        lease = await api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{RELEASE}")
        assert lease["spec"]["holderIdentity"] == ""
