"""Services as scheduling sees them: which pods each one means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from alnair.state import wire
from alnair.state.selectors import Labels, PodSet, Requirement, Selector


class Services:
    """By namespace and name. A Service without a selector means no pods, and is not kept."""

    def __init__(self) -> None:
        self._sets: defaultdict[str, dict[str, PodSet]] = defaultdict(dict)

    def put(self, service: wire.Service) -> bool:
        """Whether it means other pods than before."""
        meta = service.metadata
        if not service.spec.selector:
            return self.drop(meta.namespace, meta.name)
        lines = tuple(
            Requirement(key, "In", (value,)) for key, value in sorted(service.spec.selector.items())
        )
        pods = PodSet((meta.namespace,), Selector(lines), living=True)
        before = self._sets[meta.namespace].get(meta.name)
        self._sets[meta.namespace][meta.name] = pods
        return pods != before

    def drop(self, namespace: str, name: str) -> bool:
        """Whether it was there."""
        gone = self._sets[namespace].pop(name, None)
        if not self._sets[namespace]:
            del self._sets[namespace]
        return gone is not None

    def names(self) -> Iterable[tuple[str, str]]:
        return [(namespace, name) for namespace, services in self._sets.items() for name in services]

    def sets(self, namespace: str) -> Iterable[PodSet]:
        """The pods of every Service of the namespace."""
        return self._sets[namespace].values() if namespace in self._sets else ()

    def of(self, namespace: str, labels: Labels) -> tuple[PodSet, ...]:
        """The pods of each Service that means a pod with these labels; Services that mean the same count once."""
        return tuple(dict.fromkeys(pods for pods in self.sets(namespace) if pods.has(namespace, labels, {})))
