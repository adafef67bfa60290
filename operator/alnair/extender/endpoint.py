"""Where the leader is: the EndpointSlice of a Service without a selector.

A Service would spread kube-scheduler's questions over all replicas, and only one can answer. So the leader writes
itself into the Service, and whoever leads next writes over it. Nothing hangs on its being right at every moment: a
question that reaches nobody, or a replica that does not lead, is asked again by kube-scheduler.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from dataclasses import dataclass
from typing import Any

from alnair.api import names
from alnair.kube import Client, Refused, Unanswered

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0  # somebody may have deleted or changed it
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """This replica, as the Service's only one."""

    namespace: str
    service: str
    address: str
    port: int

    def __post_init__(self) -> None:
        ipaddress.ip_address(self.address)  # raises ValueError

    @property
    def collection(self) -> str:
        return f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"

    def manifest(self) -> dict[str, Any]:
        version = ipaddress.ip_address(self.address).version
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.service,
                "labels": {
                    "kubernetes.io/service-name": self.service,
                    "endpointslice.kubernetes.io/managed-by": names.ALNAIR,
                },
            },
            "addressType": f"IPv{version}",
            "endpoints": [{"addresses": [self.address], "conditions": {"ready": True}}],
            "ports": [{"name": "extender", "port": self.port, "protocol": "TCP"}],
        }


async def keep(client: Client, endpoint: Endpoint) -> None:
    """While we lead. Never ends, and never fails: without it nobody asks, and kube-scheduler says so."""
    complaint = ""
    while True:
        try:
            await _write(client, endpoint)
            complaint, pause = "", LOOK_SECONDS
        except (Refused, Unanswered) as error:
            if str(error) != complaint:
                log.warning("kube-scheduler is not told where the leader is: %s; trying again", error)
            complaint, pause = str(error), RETRY_SECONDS
        await asyncio.sleep(pause)


async def _write(client: Client, endpoint: Endpoint) -> None:
    path, wanted = f"{endpoint.collection}/{endpoint.service}", endpoint.manifest()
    try:
        there = await client.get(path)
    except Refused as refused:
        if refused.status != 404:
            raise
        await client.create(endpoint.collection, wanted)
        return
    if there.get("addressType") != wanted["addressType"]:
        await client.delete(path)  # it cannot be changed
        await client.create(endpoint.collection, wanted)
    elif any(there.get(field) != wanted[field] for field in ("endpoints", "ports")) or _unlabelled(
        there, wanted
    ):
        version = {"resourceVersion": there["metadata"]["resourceVersion"]}
        await client.replace(path, {**wanted, "metadata": {**wanted["metadata"], **version}})


def _unlabelled(there: dict[str, Any], wanted: dict[str, Any]) -> bool:
    labels = there["metadata"].get("labels") or {}
    return any(labels.get(key) != value for key, value in wanted["metadata"]["labels"].items())
