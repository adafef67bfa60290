"""A small client for tests: raw JSON in and out, and waits that hang on a watch.

    await api.create(pod("a").by("alnair").manifest(), namespace=ns)
    bound = await api.until(at("pods", ns, "a"), lambda it: it["spec"].get("nodeName"))

`until` never sleeps while the apiserver answers: each change is looked at as it comes. A predicate says yes by
anything true; an AssertionError means "not yet", and its text is shown when the time runs out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import orjson

from alnair.sandbox.access import Access

Object = dict[str, Any]


class Kind(NamedTuple):
    prefix: str
    plural: str
    namespaced: bool


KINDS = {
    "Node": Kind("/api/v1", "nodes", False),
    "Namespace": Kind("/api/v1", "namespaces", False),
    "Pod": Kind("/api/v1", "pods", True),
    "ConfigMap": Kind("/api/v1", "configmaps", True),
    "Secret": Kind("/api/v1", "secrets", True),
    "Service": Kind("/api/v1", "services", True),
    "ServiceAccount": Kind("/api/v1", "serviceaccounts", True),
    "PersistentVolumeClaim": Kind("/api/v1", "persistentvolumeclaims", True),
    "PersistentVolume": Kind("/api/v1", "persistentvolumes", False),
    "StorageClass": Kind("/apis/storage.k8s.io/v1", "storageclasses", False),
    "CSINode": Kind("/apis/storage.k8s.io/v1", "csinodes", False),
    "Event": Kind("/apis/events.k8s.io/v1", "events", True),
    "Lease": Kind("/apis/coordination.k8s.io/v1", "leases", True),
    "EndpointSlice": Kind("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "Job": Kind("/apis/batch/v1", "jobs", True),
    "Deployment": Kind("/apis/apps/v1", "deployments", True),
    "ReplicaSet": Kind("/apis/apps/v1", "replicasets", True),
    "StatefulSet": Kind("/apis/apps/v1", "statefulsets", True),
    "PodDisruptionBudget": Kind("/apis/policy/v1", "poddisruptionbudgets", True),
    "PriorityClass": Kind("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "PodGroup": Kind("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", True),
    "ElasticHorovodJob": Kind("/apis/ai.centauruscloud.io/v1alpha1", "elastichorovodjobs", True),
    "GPUAllocation": Kind("/apis/ai.centaurus.io/v1alpha1", "gpuallocations", True),
    "NodeResourceTopology": Kind("/apis/topology.node.k8s.io/v1alpha2", "noderesourcetopologies", False),
}
_BY_PLURAL = {kind.plural: kind for kind in KINDS.values()}


def at(plural: str, namespace: str | None = None, name: str | None = None, *rest: str) -> str:
    """The path of a collection, an object or a subresource: at("pods", "ns", "a", "binding")."""
    kind = _BY_PLURAL[plural]
    place = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return "/".join([f"{kind.prefix}{place}/{plural}", *([name] if name else []), *rest])


def place_of(manifest: Object, namespace: str | None = None) -> str:
    """The collection that a manifest belongs to."""
    kind = KINDS[manifest["kind"]]
    return at(kind.plural, namespace or manifest["metadata"].get("namespace"))


class Refused(Exception):
    """The apiserver said no. `status` is the HTTP code, `body` the Status object."""

    def __init__(self, what: str, status: int, body: Any) -> None:
        message = body.get("message", body) if isinstance(body, dict) else body
        super().__init__(f"{what}: {status}: {message}")
        self.status = status
        self.body = body


class NotInTime(AssertionError):
    """What was waited for did not happen. The message has the reason and the last object seen."""


class Api:
    """JSON over one session, as whoever the kubeconfig is of."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_kubeconfig(cls, kubeconfig: Path) -> Self:
        """For somebody else's rights: a kubeconfig as `Access.token_kubeconfig` writes it."""
        nowhere = Path("/nonexistent")
        return cls(
            Access(directory=nowhere, kubeconfig=kubeconfig, audit_log=nowhere, kubectl_program=nowhere)
        )

    async def __aenter__(self) -> Self:
        # Watches have no total time-out; each wait brings its own.
        self._session = self._access.session(aiohttp.ClientTimeout(total=None, connect=10))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http().close()

    # -- verbs

    async def call(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content: str = "application/json",
        timeout: float = 30,
    ) -> Any:
        async with self._http().request(
            verb,
            path,
            params=params,
            data=orjson.dumps(body) if body is not None else None,
            headers={"Content-Type": content},
            timeout=aiohttp.ClientTimeout(total=timeout),
        ) as answer:
            text = await answer.read()
        said = orjson.loads(text) if text[:1] in (b"{", b"[") else text.decode("utf-8", "replace")
        if answer.status >= 400:
            raise Refused(f"{verb} {path}", answer.status, said)
        return said

    async def get(self, path: str) -> Object:
        found: Object = await self.call("GET", path)
        return found

    async def find(self, path: str) -> Object | None:
        """The object, or None when there is none."""
        try:
            return await self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def items(self, path: str, *, labels: str = "", fields: str = "") -> list[Object]:
        answer = await self.call("GET", path, params=_selectors(labels, fields))
        found: list[Object] = answer["items"]
        return found

    async def create(self, manifest: Object, *, namespace: str | None = None) -> Object:
        made: Object = await self.call("POST", place_of(manifest, namespace), manifest)
        return made

    async def create_all(self, manifests: list[Object], *, namespace: str | None = None) -> list[Object]:
        """All at once, in no order."""
        return list(
            await asyncio.gather(*(self.create(manifest, namespace=namespace) for manifest in manifests))
        )

    async def patch(self, path: str, body: Any) -> Object:
        """A merge patch, or a JSON patch when the body is a list."""
        kind = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        patched: Object = await self.call("PATCH", path, body, content=kind)
        return patched

    async def replace(self, path: str, body: Object) -> Object:
        replaced: Object = await self.call("PUT", path, body)
        return replaced

    async def delete(self, path: str, *, grace: int | None = None, propagation: str = "Background") -> None:
        """Not an error when it is gone already."""
        options: Object = {"propagationPolicy": propagation}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self.call("DELETE", path, options)
        except Refused as refused:
            if refused.status != 404:
                raise

    # -- waits

    async def until(
        self, path: str, predicate: Callable[[Object], Any], *, timeout: float = 30, what: str = ""
    ) -> Object:
        """Waits until an object is there and the predicate says yes to it; returns it."""
        collection, _, name = path.rpartition("/")

        def one(objects: list[Object]) -> Any:
            assert objects, f"there is no {path}"
            return predicate(objects[0])

        found = await self.until_all(
            collection, one, fields=f"metadata.name={name}", timeout=timeout, what=what or f"{path}"
        )
        return found[0]

    async def until_gone(self, path: str, *, timeout: float = 30) -> None:
        collection, _, name = path.rpartition("/")
        await self.until_all(
            collection,
            lambda objects: not objects,
            fields=f"metadata.name={name}",
            timeout=timeout,
            what=f"{path} to be gone",
        )

    async def until_all(
        self,
        collection: str,
        predicate: Callable[[list[Object]], Any],
        *,
        labels: str = "",
        fields: str = "",
        timeout: float = 30,
        what: str = "",
    ) -> list[Object]:
        """Waits until the predicate says yes to all objects of a collection together, sorted by name."""
        last: list[Object] = []
        reason = "nothing was seen"
        try:
            async with asyncio.timeout(timeout):
                async for objects in self.follow(collection, labels=labels, fields=fields):
                    last = objects
                    try:
                        if predicate(objects):
                            return objects
                        reason = "the predicate said no"
                    except (AssertionError, KeyError, IndexError, TypeError) as not_yet:
                        reason = f"{type(not_yet).__name__}: {not_yet}"
        except TimeoutError:
            pass
        raise NotInTime(
            f"waited {timeout:g} s for {what or collection}: {reason}; last seen ({len(last)}):\n{_shown(last)}"
        ) from None

    async def never(
        self, path: str, predicate: Callable[[Object], Any], *, during: float, what: str = ""
    ) -> None:
        """Watches an object for a while and fails as soon as the predicate says yes."""
        try:
            seen = await self.until(path, predicate, timeout=during, what=what)
        except NotInTime:
            return
        raise AssertionError(f"{what or path} happened, and must not:\n{_shown([seen])}")

    async def follow(
        self, collection: str, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[list[Object]]:
        """The collection as it is now, and again after every change, without end. Outlives the apiserver."""
        while True:
            try:
                listed = await self.call("GET", collection, params=_selectors(labels, fields))
            except (aiohttp.ClientError, TimeoutError, Refused) as problem:
                if isinstance(problem, Refused) and problem.status < 500 and problem.status not in (401, 429):
                    raise
                await asyncio.sleep(0.1)  # the apiserver is away, so there is no watch to hang on
                continue
            objects = {_key(item): item for item in listed["items"]}
            yield _sorted(objects)
            async for event in self._watch(collection, listed["metadata"]["resourceVersion"], labels, fields):
                if event["type"] == "DELETED":
                    objects.pop(_key(event["object"]), None)
                elif event["type"] in ("ADDED", "MODIFIED"):
                    objects[_key(event["object"])] = event["object"]
                else:
                    break  # ERROR, such as 410: list again
                yield _sorted(objects)

    async def changes(self, collection: str, *, since: str) -> list[Object]:
        """Every state that an object of the collection has had since that version, as the apiserver tells it again."""
        return [thing for _, thing in await self.told(collection, since=since)]

    async def told(self, collection: str, *, since: str) -> list[tuple[str, Object]]:
        """The same, with what happened to it: ADDED, MODIFIED or DELETED."""
        watch = self._watch(collection, since, "", "", seconds=2)
        return [(event["type"], event["object"]) async for event in watch]

    async def _watch(
        self, collection: str, version: str, labels: str, fields: str, *, seconds: int | None = None
    ) -> AsyncIterator[Object]:
        params = {"watch": "1", "resourceVersion": version, **_selectors(labels, fields)}
        if seconds is not None:
            params["timeoutSeconds"] = str(seconds)
        try:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            async with self._http().get(collection, params=params, timeout=timeout) as answer:
                if answer.status != 200:
                    return
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield orjson.loads(line)
        except (aiohttp.ClientError, TimeoutError):
            return

    def _http(self) -> aiohttp.ClientSession:
        assert self._session is not None, "use `async with Api(...)`"
        return self._session


def _selectors(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in chosen.items() if value}


def _key(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _sorted(objects: dict[tuple[str, str], Object]) -> list[Object]:
    return [objects[key] for key in sorted(objects)]


def _shown(objects: list[Object], limit: int = 6000) -> str:
    """Objects without the noise, cut to what fits on a screen or two."""
    plain = []
    for item in objects[:5]:
        metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
        plain.append({**item, "metadata": metadata})
    text = "\n".join(json.dumps(item, indent=1) for item in plain)
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)"
