"""What kube-scheduler says and hears: k8s.io/kube-scheduler/extender/v1, field by field.

The types there have no JSON names of their own, so Go writes the names of its fields: `PodUID`, `NumPDBViolations`.
Nodes come by name where the extender is said to be `nodeCacheCapable`, else as whole objects, which have to be sent
back as they came.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from alnair.api.quantity import shown
from alnair.state import wire

Q = TypeVar("Q")

HIGHEST_SCORE = 10

# They become parts of paths.
Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253)]


class _Name(Struct):
    name: str


class _NodeName(Struct):
    metadata: _Name


class NodeList(Struct):
    items: list[Raw] = []


class ExtenderArgs(Struct, rename="pascal"):
    """Of filter and prioritize."""

    pod: wire.Pod
    nodes: NodeList | None = None
    node_names: list[str] | None = None

    def names(self) -> list[str]:
        """Of the nodes in question, in order."""
        if self.node_names is not None:
            return self.node_names
        return [_NODE.decode(item).metadata.name for item in (self.nodes.items if self.nodes else [])]


class ExtenderFilterResult(Struct, rename="pascal"):
    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}  # nor would they if other pods went away
    error: str = ""


class HostPriority(Struct, rename="pascal"):
    host: str
    score: int


class MetaPod(Struct):
    uid: str = msgspec.field(name="UID")


class MetaVictims(Struct, rename="pascal"):
    pods: list[MetaPod] | None = None
    budgets_broken: int = msgspec.field(default=0, name="NumPDBViolations")


class Victims(Struct, rename="pascal"):
    pods: list[wire.Pod] | None = None
    budgets_broken: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(Struct, rename="pascal"):
    """Victims by UID where nodes come by name, else as whole pods."""

    pod: wire.Pod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """Node -> who would have to go."""
        if self.node_name_to_meta_victims is not None:
            return self.node_name_to_meta_victims
        return {
            node: MetaVictims([MetaPod(pod.metadata.uid) for pod in there.pods or []], there.budgets_broken)
            for node, there in (self.node_name_to_victims or {}).items()
        }


class ExtenderPreemptionResult(Struct, rename="pascal"):
    """Always by UID, however the question came."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}


class ExtenderBindingArgs(Struct, rename="pascal"):
    pod_name: Name
    pod_namespace: Name
    node: Name
    pod_uid: str = msgspec.field(name="PodUID")


class ExtenderBindingResult(Struct, rename="pascal"):
    error: str = ""


_NODE = msgspec.json.Decoder(_NodeName)


class Unreadable(ValueError):
    """A body that is no question of kube-scheduler's. The message says what is wrong with it, in one line."""


def read(body: bytes, kind: type[Q]) -> Q:
    """The question in the body. Raises Unreadable."""
    try:
        asked = msgspec.json.decode(body, type=kind)
        if isinstance(asked, ExtenderArgs):
            asked.names()  # whole nodes are looked into later, and must have a name by then
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(shown(str(error))[1:-1]) from error
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    return asked


def filtered(
    asked: ExtenderArgs, failed: dict[str, str], unresolvable: dict[str, str]
) -> ExtenderFilterResult:
    """All nodes in question but these, in the form in which they came."""
    out = failed.keys() | unresolvable.keys()
    answer = ExtenderFilterResult(failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable)
    if asked.node_names is not None:
        answer.node_names = [name for name in asked.node_names if name not in out]
    else:
        whole = asked.nodes.items if asked.nodes else []
        answer.nodes = NodeList(
            [item for item, name in zip(whole, asked.names(), strict=True) if name not in out]
        )
    return answer
