"""The streams of storage: claims, volumes, classes, and what drivers say of nodes, poured into the books.

All kinds go one way, so there is one feed. The books first, then the ledger, where pods may wait for their volumes, and
then those gangs wake that a volume may have been missing for: only where the object changed in something that counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alnair.kube import Client, Stream
from alnair.ledger.ledger import Ledger
from alnair.state import storage, wire
from alnair.state.cluster import ClusterState
from alnair.state.volumes import StorageObject


@dataclass(frozen=True, slots=True)
class StorageKind:
    path: str
    wire: type[Any]
    value: type[StorageObject]
    read: Callable[[Any], StorageObject]


_STORAGE = "/apis/storage.k8s.io/v1"

KINDS = (
    StorageKind(f"{_STORAGE}/storageclasses", wire.StorageClass, storage.StorageClass, storage.read_class),
    StorageKind(f"{_STORAGE}/csinodes", wire.CSINode, storage.NodeDrivers, storage.read_node_drivers),
    StorageKind(f"{_STORAGE}/csidrivers", wire.CSIDriver, storage.Driver, storage.read_driver),
    StorageKind(
        f"{_STORAGE}/csistoragecapacities", wire.CSIStorageCapacity, storage.Capacity, storage.read_capacity
    ),
    StorageKind(
        f"{_STORAGE}/volumeattachments", wire.VolumeAttachment, storage.Attachment, storage.read_attachment
    ),
    StorageKind("/api/v1/persistentvolumes", wire.PersistentVolume, storage.Volume, storage.read_volume),
    StorageKind(
        "/api/v1/persistentvolumeclaims", wire.PersistentVolumeClaim, storage.Claim, storage.read_claim
    ),
)


class StorageFeed:
    """One kind's."""

    def __init__(self, kind: StorageKind, *, state: ClusterState, ledger: Ledger) -> None:
        self.kind = kind
        self._state = state
        self._ledger = ledger
        self.synced = asyncio.Event()

    def stream(self, client: Client) -> Stream[Any]:
        return Stream(client, self.kind.path, self.kind.wire, self)

    def replace(self, objects: list[Any]) -> None:
        values = [self.kind.read(thing) for thing in objects]
        listed = {value.key for value in values}
        table = self._state.volumes.table(self.kind.value)
        news = [self._state.volumes.drop(table[key]) for key in [key for key in table if key not in listed]]
        news += [self._state.volumes.put(value) for value in values]
        self.synced.set()
        self._tell(any(news))

    def put(self, thing: Any) -> None:
        news = self._state.volumes.put(self.kind.read(thing))
        self._tell(news and self.kind.wire is not wire.VolumeAttachment)  # one more only takes room

    def drop(self, thing: Any) -> None:
        self._tell(self._state.volumes.drop(self.kind.read(thing)))

    def _tell(self, news: bool) -> None:
        self._ledger.volumes.changed()  # also of a new version that says the same: it may be our own write
        if news:
            self._state.free_everywhere()
