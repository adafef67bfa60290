"""The raw-bind ceiling, a program of its own like every contestant: it decides nothing and only binds.

It lists nodes and pods, prints a ready line, watches all pods as any scheduler has to, and sends the Bindings
from node to node. No filter, no record, no event, no status: nobody can be faster with this client.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

AT_ONCE = 64


async def bind_all(loaded: Any, *, scheduler: str) -> None:
    """`loaded` is a kubeconfig."""
    cluster, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
    tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    session = aiohttp.ClientSession(
        base_url=cluster["server"],
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        headers={"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"},
        timeout=aiohttp.ClientTimeout(total=None),
    )
    async with session:
        nodes = [each["metadata"]["name"] for each in (await _list(session, "/api/v1/nodes"))["items"]]
        listed = await _list(
            session, "/api/v1/pods", fieldSelector=f"spec.schedulerName={scheduler},spec.nodeName="
        )
        watching = asyncio.create_task(_watch(session, listed["metadata"]["resourceVersion"]))
        print(json.dumps({"ready": True}), flush=True)
        todo = iter(enumerate(listed["items"]))

        async def work() -> None:
            for number, pod in todo:
                await _bind(session, pod["metadata"], nodes[number % len(nodes)])

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        await watching  # until we are stopped: nobody measures how fast a contestant ends


async def _list(session: aiohttp.ClientSession, path: str, **params: str) -> Any:
    async with session.get(path, params=params) as answer:
        answer.raise_for_status()
        return orjson.loads(await answer.read())


async def _watch(session: aiohttp.ClientSession, version: str) -> None:
    params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
    async with session.get("/api/v1/pods", params=params) as answer:
        answer.raise_for_status()
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                orjson.loads(line)


async def _bind(session: aiohttp.ClientSession, pod: Any, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod["name"], "uid": pod["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/binding"
    async with session.post(path, data=orjson.dumps(body)) as answer:
        answer.raise_for_status()
        await answer.read()


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("ascii")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ceiling", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--scheduler", required=True, help="whose pods are bound")
    chosen = parser.parse_args(arguments)
    loaded = yaml.safe_load(chosen.kubeconfig.read_text("utf-8"))
    asyncio.run(bind_all(loaded, scheduler=chosen.scheduler))


if __name__ == "__main__":
    main()
