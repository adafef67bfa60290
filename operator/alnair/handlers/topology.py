"""NodeResourceTopologies. Their zones say which cards a node has, unless Alnair itself published them.

An object that cannot be read counts as absent (the next source of cards speaks for the node), and the node gets an
event that names the field. One of our own is the publisher's to look after, and never a source: what we conclude would
be what we had concluded.

Two channels, told apart by our label: Kopf has what others publish, and a plain stream what bears the label, which may
be an object for each node with cards: Kopf takes a millisecond for each of them at every start. Whoever publishes into
an object of ours may leave the label on or take it off, so the label says nothing about whose the object is, only which
channel speaks of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import kopf
from pydantic import ValidationError

from alnair.api import names
from alnair.api.quantity import shown
from alnair.api.topology import NodeResourceTopology, is_ours
from alnair.control.publishing import Publisher
from alnair.control.reports import Reports
from alnair.handlers.handover import Handover
from alnair.kube import Client, Stream
from alnair.state.cluster import ClusterState

LABELLED = f"{names.MANAGED_BY}={names.ALNAIR}"
UNLABELLED = f"{names.MANAGED_BY}!={names.ALNAIR}"


@dataclass(frozen=True, slots=True)
class Topologies:
    state: ClusterState
    reports: Reports
    publisher: Publisher
    labelled: set[str] = field(default_factory=set)  # those that bear our label

    def apply(self, kind: str | None, manifest: dict[str, Any], *, labelled: bool = False) -> None:
        """An object as one of the two channels has it, or as listed (kind None)."""
        name = manifest["metadata"]["name"]
        if kind == "DELETED":
            # An object that only changed its label is deleted in one channel and lives on in the other.
            if labelled is (name in self.labelled):
                self._gone(name)
            return
        its_labels = manifest["metadata"].get("labels") or {}
        (self.labelled.add if its_labels.get(names.MANAGED_BY) == names.ALNAIR else self.labelled.discard)(
            name
        )
        if is_ours(manifest):
            self.state.drop_topology(name)
            self.publisher.observe_ours(name, manifest)
            return
        self.publisher.observe_others(name)
        try:
            topology = NodeResourceTopology.model_validate(manifest)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            self.state.drop_topology(name)
            self._complain(name, (f"{where}: {shown(first['input'])} is not valid: {first['msg']}",))
            return
        known = self.state.topologies.get(name)
        if known == topology or (kind is None and known is not None and _older(topology, known)):
            return
        self.state.put_topology(name, topology)
        inventory, zones = self.state.inventories.get(name), self.state.zones.nodes.get(name)
        problems = inventory.problems if inventory is not None else ()
        self._complain(name, (*problems, zones.problem) if zones is not None and zones.problem else problems)

    def keep(self, present: set[str], known: set[str]) -> None:
        """A fresh list has only these: of those known before it was made, the others were deleted unseen."""
        for name in known - present:
            self._gone(name)

    def known(self) -> set[str]:
        """Those that Kopf has."""
        return (self.state.topologies.keys() | self.publisher.known()) - self.labelled

    def _gone(self, name: str) -> None:
        self.labelled.discard(name)
        self.state.drop_topology(name)
        self.publisher.observe_gone(name)

    def _complain(self, name: str, problems: tuple[str, ...]) -> None:
        node = self.state.nodes.get(name)
        if node is not None:
            self.reports.node_problems(name, node.uid, "topology", problems)


class LabelledFeed:
    """The stream of objects that bear our label."""

    def __init__(self, topologies: Topologies) -> None:
        self._topologies = topologies
        self.synced = asyncio.Event()

    def stream(self, client: Client) -> Stream[dict[str, Any]]:
        path, params = f"/apis/{names.API_NRT}/{names.PLURAL_NRT}", {"labelSelector": LABELLED}
        return Stream(client, path, dict, self, params=params, name="labelled NodeResourceTopology")

    def replace(self, objects: list[dict[str, Any]]) -> None:
        listed = {manifest["metadata"]["name"] for manifest in objects}
        for name in self._topologies.labelled - listed:
            self._topologies.apply("DELETED", {"metadata": {"name": name}}, labelled=True)
        for manifest in objects:
            self.put(manifest)
        self.synced.set()

    def put(self, thing: dict[str, Any]) -> None:
        self._topologies.apply("MODIFIED", thing, labelled=True)

    def drop(self, thing: dict[str, Any]) -> None:
        self._topologies.apply("DELETED", thing, labelled=True)


def _older(listed: NodeResourceTopology, known: NodeResourceTopology) -> bool:
    """A list may be older than an event that was seen already."""
    return (
        listed.metadata.uid == known.metadata.uid and listed.metadata.generation < known.metadata.generation
    )


def register(registry: kopf.OperatorRegistry, handover: Handover[Topologies]) -> None:
    @kopf.on.event(names.GROUP_NRT, names.VERSION_NRT, names.PLURAL_NRT, registry=registry)
    async def topology_changed(event: kopf.RawEvent, **_: Any) -> None:
        handover.call(Topologies.apply, event["type"], dict(event["object"]))
