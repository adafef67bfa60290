"""Storage poured into the books of a unit test's cluster, the operator's way."""

from __future__ import annotations

from alnair.handlers.storage import KINDS
from harness.builders import Built, NodeBuilder, node
from harness.storage import HOSTNAME
from unit.builders import Cluster, decoded

BY_NAME = {kind.wire.__name__: kind for kind in KINDS}


def host(name: str, **labels: str) -> NodeBuilder:
    """A node that knows its own name."""
    return node(name).labelled({HOSTNAME: name, **labels})


def stored(cluster: Cluster, *things: Built) -> Cluster:
    for thing in things:
        manifest = thing.manifest()
        kind = BY_NAME[manifest["kind"]]
        cluster.state.volumes.put(kind.read(decoded(manifest, kind.wire)))
    return cluster


def gone(cluster: Cluster, thing: Built) -> None:
    manifest = thing.manifest()
    kind = BY_NAME[manifest["kind"]]
    cluster.state.volumes.drop(kind.read(decoded(manifest, kind.wire)))
