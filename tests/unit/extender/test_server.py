"""The server on a real socket: what is turned away, what is answered, and that one caller never disturbs another."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from alnair.control.metrics import Metrics
from alnair.extender import server
from alnair.extender.door import Door
from alnair.extender.server import Server
from harness.certificates import Authority
from unit.control.world import World
from unit.extender.kube_scheduler import SLICE, KubeScheduler, gpu_node, start

SECRET = b"0123456789abcdef"
KNOWN = {"Authorization": aiohttp.encode_basic_auth("alnair", SECRET.decode())}


@asynccontextmanager
async def listening(verbs: Any = None, door: Door | None = None) -> AsyncIterator[Server]:
    made = Server(door or Door("127.0.0.1", 0, SECRET), Metrics())
    made.verbs = verbs
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def post(
    made: Server,
    verb: str,
    body: Any = None,
    *,
    raw: bytes | None = None,
    headers: dict[str, str] = KNOWN,
) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"http://127.0.0.1:{made.port}/{verb}", json=body, data=raw) as answer,
    ):
        if answer.content_type == "application/json":
            return answer.status, await answer.json()
        return answer.status, await answer.text()


def question(kube: KubeScheduler, name: str) -> dict[str, Any]:
    return {"Pod": kube.manifest(name), "Nodes": None, "NodeNames": kube.nodes()}


def binding(name: str, node: str = "n1", **fields: str) -> dict[str, str]:
    return {"PodName": name, "PodNamespace": "team", "PodUID": f"uid-{name}", "Node": node, **fields}


async def test_a_pod_is_filtered_scored_and_bound_over_http() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2", gib=2))) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        async with listening(kube.verbs) as made:
            status, answer = await post(made, "filter", question(kube, "a"))
            assert (status, answer["NodeNames"]) == (200, ["n1"])
            status, scores = await post(made, "prioritize", question(kube, "a"))
            assert (status, scores) == (200, [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 0}])
            asked = {
                "Pod": kube.manifest("a"),
                "NodeNameToMetaVictims": {"n2": {"Pods": [], "NumPDBViolations": 0}},
            }
            assert await post(made, "preempt", asked) == (200, {"NodeNameToMetaVictims": {}})
            assert await post(made, "bind", binding("a")) == (200, {"Error": ""})
        assert world.where() == {"a": "n1"}


@pytest.mark.parametrize("headers", [{}, {"Authorization": aiohttp.encode_basic_auth("alnair", "wrong")}])
async def test_without_the_secret_nothing_is_read_or_answered(headers: dict[str, str]) -> None:
    async with listening() as made:
        for verb in ("filter", "prioritize", "preempt", "bind", "anything"):
            status, text = await post(made, verb, raw=b"{", headers=headers)
            assert (status, "secret" in text, SECRET.decode() in text) == (401, True, False)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"Pod": null}',
        b'{"Pod": 3, "PodName": 3}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"x": %s%s}' % (b"[" * 5000, b"]" * 5000),
        b'{"Pod\\n\\u001b[2K": 1}',
    ],
)
async def test_a_body_that_is_none_is_a_sentence(verb: str, body: bytes) -> None:
    async with listening() as made:
        status, text = await post(made, verb, raw=body)
        assert (status, text.count("\n"), "Traceback" in text) == (400, 1, False)
        assert text.startswith(f"the body is not what kube-scheduler sends to /{verb}: ")


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "", "A", "a?b", "x" * 300])
async def test_names_that_would_make_another_path_are_refused(name: str) -> None:
    async with listening() as made:
        for field in ("PodName", "PodNamespace", "Node"):
            status, _ = await post(made, "bind", binding("a", **{field: name}))
            assert status == 400


async def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LARGEST_BODY", 1000)
    async with listening() as made:
        status, _ = await post(made, "filter", raw=b" " * 2000)
        assert status == 413


async def test_a_body_that_does_not_come_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.05)
    async with listening() as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        length = "Content-Length: 10"
        head = f"POST /filter HTTP/1.1\r\nHost: x\r\nAuthorization: {KNOWN['Authorization']}\r\n{length}\r\n\r\n{{"
        writer.write(head.encode())
        status, _ = await post(made, "filter", {})
        assert status == 400, "another caller is answered meanwhile"
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_other_paths_and_methods_are_none_of_ours() -> None:
    async with listening() as made:
        assert (await post(made, "evict", {}))[0] == 404
        address = f"http://127.0.0.1:{made.port}/filter"
        async with aiohttp.ClientSession(headers=KNOWN) as session, session.get(address) as answer:
            assert answer.status == 405


async def test_who_does_not_lead_says_so_where_kube_scheduler_reads_it() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        async with listening() as made:
            status, answer = await post(made, "filter", question(kube, "a"))
            assert (status, answer["NodeNames"]) == (200, None)
            assert "does not lead" in answer["Error"]
            status, answer = await post(made, "bind", binding("a"))
            assert (status, "does not lead" in answer["Error"]) == (200, True)
            assert await post(made, "prioritize", question(kube, "a")) == (200, [])
            victims = {"Pod": kube.manifest("a"), "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "x"}]}}}
            assert await post(made, "preempt", victims) == (200, {"NodeNameToMetaVictims": {}})
        assert world.where() == {}


async def test_a_mistake_of_ours_is_no_stack_trace_and_no_answer() -> None:
    class Broken:
        async def filter(self, asked: object) -> None:
            raise ZeroDivisionError("secret detail")

    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        async with listening(Broken()) as made:
            status, answer = await post(made, "filter", question(kube, "a"))
            assert (status, answer["Error"]) == (200, "Alnair failed to answer; its log says why")


async def test_over_tls_only_the_given_authoritys_clients_come_in(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    serving = ours.signs("127.0.0.1")
    door = Door("127.0.0.1", 0, b"", serving.certificate, serving.key, ours.certificate)
    async with listening(door=door) as made:
        for client, let_in in (
            (ours.signs("kube-scheduler"), True),
            (others.signs("stranger"), False),
            (None, False),
        ):
            trust = ssl.create_default_context(cafile=str(ours.certificate))
            if client is not None:
                trust.load_cert_chain(client.certificate, client.key)
            for verb in ("filter", "prioritize", "preempt", "bind"):
                address = f"https://127.0.0.1:{made.port}/{verb}"
                try:
                    async with (
                        aiohttp.ClientSession() as session,
                        session.post(address, json=binding("a"), ssl=trust) as answer,
                    ):
                        status = answer.status
                except aiohttp.ClientError:
                    status = 0
                assert (status != 0) is let_in
                assert (status == 200) is (let_in and verb == "bind"), "the others want another body"
