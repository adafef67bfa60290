"""A tiny apiserver on a real socket: for transport faults and compare-and-swap, where time and errors are ours to set.

`Apiserver` answers as a function of the test says. `Store` keeps objects with resourceVersions as the real one does
(compare-and-swap, preconditions, finalizers, status, lists, Bindings, evictions, and the rule that a record's epoch
never goes back), tells its `listeners` of every change, and can be told to lose an answer, refuse a call or wait. It
knows no schemas and no RBAC: what depends on those is tested on the real control plane.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from aiohttp import web
from kubernetes.client import Configuration

from alnair.kube import Connection

Manifest = dict[str, Any]
Listener = Callable[[str, str, Manifest], None]  # ADDED, MODIFIED or DELETED; path; the object
Answer = Callable[["Call"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Call:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    request: web.Request = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """`PUT leases/alnair`: what tests count."""
        return f"{self.method} {'/'.join(self.path.split('/')[-2:])}"

    def cut(self) -> None:
        """Close the connection without an answer."""
        if self.request.transport is not None:
            self.request.transport.abort()


def reply(status: int, body: Any = None, **headers: str) -> web.Response:
    return web.Response(
        status=status, body=orjson.dumps(body), content_type="application/json", headers=headers
    )


def refusal(status: int, reason: str, message: str = "no", **headers: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return reply(status, body, **headers)


class Apiserver:
    """`async with Apiserver(answer) as server`: `server.calls` is what it was asked."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.calls: list[Call] = []
        self.url = ""
        self._asked = asyncio.Event()
        self._answer = answer

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        call = Call(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=dict(request.headers),
            body=orjson.loads(text) if text else None,
            request=request,
        )
        self.calls.append(call)
        self._asked.set()
        return await self.answer(call)

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until that holds; looked at with every call that comes in."""
        async with asyncio.timeout(5):
            while not so():
                self._asked.clear()
                await self._asked.wait()

    async def answer(self, call: Call) -> web.StreamResponse:
        assert self._answer is not None
        return await self._answer(call)

    def connection(self, *, tokens: Callable[[], str] | None = None) -> Connection:
        """How to reach it; `tokens` is asked for the token of the moment."""
        configuration = Configuration()
        configuration.host = self.url
        if tokens is not None:

            def refresh(it: Configuration) -> None:
                it.api_key["authorization"] = f"Bearer {tokens()}"

            configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]
        return Connection(configuration)

    def names(self) -> list[str]:
        return [call.name for call in self.calls]


@dataclass
class Fault:
    """What happens to the next call that matches, or to every one until it is taken away again."""

    matches: Callable[[Call], bool]
    before: Callable[[Call], Awaitable[web.StreamResponse | None]] | None = None
    lose_answer: bool = False
    stays: bool = False


class Store(Apiserver):
    """Objects by path, with versions."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Manifest] = {}
        self.faults: list[Fault] = []
        self.listeners: list[Listener] = []
        self._version = itertools.count(1)
        self._uid = itertools.count(1)

    # -- what tests say ------------------------------------------------------------------------------------------

    def put(self, path: str, manifest: Manifest) -> Manifest:
        """Write it as somebody else would."""
        there = self.objects.get(path, {"metadata": {"uid": f"object-{next(self._uid)}"}})
        made = deepcopy(manifest)
        known = {"name": path.rsplit("/", 1)[1], **_namespace(path)}
        made["metadata"] = {**known, **there["metadata"], **made.get("metadata", {})}
        return self._keep(path, made)

    def remove(self, path: str) -> None:
        """Take it away at once, as force would."""
        self._drop(path, self.objects[path])

    def loses_the_answer_of(self, name: str) -> None:
        """The next such call takes effect, and nobody hears of it."""
        self.faults.append(Fault(lambda call: call.name == name, lose_answer=True))

    def refuses(
        self, name: str, status: int, reason: str = "Refused", *, times: int = 1, **headers: str
    ) -> None:
        async def no(_: Call) -> web.StreamResponse:
            return refusal(status, reason, **headers)

        self.faults += [Fault(lambda call: call.name == name, before=no) for _ in range(times)]

    @contextmanager
    def refusing(
        self, matches: Callable[[Call], bool], status: int, reason: str = "Refused"
    ) -> Iterator[list[Call]]:
        """Every such call is refused while this lasts; the list is of those that were."""
        refused: list[Call] = []

        async def no(call: Call) -> web.StreamResponse:
            refused.append(call)
            self._asked.set()
            return refusal(status, reason)

        fault = Fault(matches, before=no, stays=True)
        self.faults.append(fault)
        try:
            yield refused
        finally:
            self.faults.remove(fault)

    def first(self, name: str, happens: Callable[[], object]) -> None:
        """Somebody else is faster: this happens just before the next such call."""

        async def faster(_: Call) -> None:
            happens()

        self.faults.append(Fault(lambda call: call.name == name, before=faster))

    def holds_back(self, name: str) -> asyncio.Event:
        """The next such call is answered, with what stands there *now*, only when the event is set."""
        gate = asyncio.Event()

        async def wait(call: Call) -> web.StreamResponse:
            answer = self._serve(call)
            await gate.wait()
            return answer

        self.faults.append(Fault(lambda call: call.name == name, before=wait))
        return gate

    def delays(self, name: str) -> asyncio.Event:
        """The next such call takes effect only when the event is set: it, or its sender, is stuck until then."""
        gate = asyncio.Event()

        async def wait(_: Call) -> None:
            await gate.wait()

        self.faults.append(Fault(lambda call: call.name == name, before=wait))
        return gate

    def cuts_off(self, name: str) -> Callable[[], int]:
        """The next such call gets no answer, and takes effect when this is called, which tells its status."""
        cut: list[Call] = []

        async def no_answer(call: Call) -> web.StreamResponse:
            cut.append(call)
            call.cut()
            return reply(504)

        self.faults.append(Fault(lambda call: call.name == name, before=no_answer))
        return lambda: self._serve(cut[0]).status

    # -- what an apiserver does ----------------------------------------------------------------------------------

    async def answer(self, call: Call) -> web.StreamResponse:
        fault = next((each for each in self.faults if each.matches(call)), None)
        if fault is not None:
            if not fault.stays:
                self.faults.remove(fault)
            if fault.before is not None and (early := await fault.before(call)) is not None:
                return early
        answer = self._serve(call)
        if fault is not None and fault.lose_answer:
            call.cut()
        return answer

    def _serve(self, call: Call) -> web.Response:
        if call.method == "POST":
            subresource = call.path.rsplit("/", 1)[1]
            return {"binding": self._bind, "eviction": self._evict}.get(subresource, self._create)(call)
        if call.method == "GET" and _is_collection(call.path):
            return reply(200, {"items": self._list(call.path), "metadata": {}})
        path = call.path.removesuffix("/status")
        there = self.objects.get(path)
        if there is None:
            return refusal(404, "NotFound")
        if call.method == "GET":
            return reply(200, there)
        if stale := self._stale(there, call.body or {}):
            return stale
        if call.method == "DELETE":
            return self._delete(path, there)
        after = deepcopy(call.body if call.method == "PUT" else _merged(there, call.body))
        if call.path.endswith("/status"):
            after = {**there, "status": after.get("status")}
            if _epoch(after) < _epoch(there):
                return refusal(422, "Invalid", "epoch never goes back: a newer leader has this record")
        after["metadata"] = {**after.get("metadata", {}), "uid": there["metadata"]["uid"]}
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self._drop(path, after)
            return reply(200, after)
        unversioned = {**after, "metadata": {**after["metadata"], "resourceVersion": ""}}
        if unversioned == {**there, "metadata": {**there["metadata"], "resourceVersion": ""}}:
            return reply(200, there)  # nothing changed, nothing is written
        return reply(200, self._keep(path, after))

    def _create(self, call: Call) -> web.Response:
        made = deepcopy(call.body)
        path = f"{call.path}/{made['metadata']['name']}"
        if path in self.objects:
            return refusal(409, "AlreadyExists")
        made["metadata"] |= {"uid": f"object-{next(self._uid)}", **_namespace(path)}
        return reply(201, self._keep(path, made))

    def _bind(self, call: Call) -> web.Response:
        path = call.path.removesuffix("/binding")
        pod = self.objects.get(path)
        if pod is None:
            return refusal(404, "NotFound")
        if stale := self._stale(pod, call.body):
            return stale
        if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return refusal(409, "Conflict")
        after = deepcopy(pod)
        after["spec"]["nodeName"] = call.body["target"]["name"]
        after["metadata"].setdefault("annotations", {}).update(call.body["metadata"].get("annotations", {}))
        self._keep(path, after)
        return reply(201, {"kind": "Status", "status": "Success"})

    def _evict(self, call: Call) -> web.Response:
        path = call.path.removesuffix("/eviction")
        pod = self.objects.get(path)
        if pod is None:
            return refusal(404, "NotFound")
        if stale := self._stale(pod, call.body.get("deleteOptions", {})):
            return stale
        self._delete(path, pod)
        return reply(201, {"kind": "Status", "status": "Success"})

    def _list(self, path: str) -> list[Manifest]:
        prefix, plural = path.rsplit("/", 1)
        return [
            manifest
            for at, manifest in self.objects.items()
            if at.startswith(f"{prefix}/") and at.split("/")[-2] == plural
        ]

    def _delete(self, path: str, there: Manifest) -> web.Response:
        if there["metadata"].get("finalizers"):
            going = {**there, "metadata": {**there["metadata"], "deletionTimestamp": "now"}}
            return reply(200, self._keep(path, going))
        self._drop(path, there)
        return reply(200, {"kind": "Status", "status": "Success"})

    @staticmethod
    def _stale(there: Manifest, body: Manifest) -> web.Response | None:
        wanted = {**body.get("metadata", {}), **body.get("preconditions", {})}
        for key in ("uid", "resourceVersion"):
            if wanted.get(key) and wanted[key] != there["metadata"][key]:
                return refusal(409, "Conflict", f"{key} is {there['metadata'][key]}, not {wanted[key]}")
        return None

    def _keep(self, path: str, manifest: Manifest) -> Manifest:
        manifest["metadata"]["resourceVersion"] = str(next(self._version))
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.objects[path] = manifest
        self._tell(kind, path, manifest)
        return manifest

    def _drop(self, path: str, last: Manifest) -> None:
        del self.objects[path]
        version = str(next(self._version))  # a deletion is a revision too
        self._tell("DELETED", path, {**last, "metadata": {**last["metadata"], "resourceVersion": version}})

    def _tell(self, kind: str, path: str, manifest: Manifest) -> None:
        for listener in self.listeners:
            listener(kind, path, deepcopy(manifest))


def _is_collection(path: str) -> bool:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return len(rest) == 1 or (len(rest) == 3 and rest[0] == "namespaces")


def _namespace(path: str) -> dict[str, str]:
    parts = path.split("/")
    return {"namespace": parts[parts.index("namespaces") + 1]} if "namespaces" in parts else {}


def _epoch(manifest: Manifest) -> int:
    return int((manifest.get("status") or {}).get("epoch") or 0)


def _merged(there: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(there, dict) or not isinstance(patch, dict):
        return patch
    after = dict(there)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = _merged(after.get(key), value) if isinstance(value, dict) else value
    return after
