"""Who is meant: label selectors, node selector terms and the sets of pods that affinity and spread rules speak of.

All are values: equal rules of a thousand pods are one object in the books' dictionaries. Matching follows Kubernetes
to the letter, also where it surprises: a selector that is absent matches nothing, an empty one everything, and
`NotIn` holds for an object without the label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alnair.state import wire

Labels = Mapping[str, str]

LONGEST_NUMBER = 1000  # digits; zeros in front are allowed, and somebody else's text must not cost us much


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a selector. `Gt` and `Lt` compare whole numbers and are for nodes only."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def allows(self, value: str | None) -> bool:
        """`None`: the object has no such label."""
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                there, bound = (
                    whole_number(value),
                    whole_number(self.values[0] if len(self.values) == 1 else None),
                )
                if there is None or bound is None:
                    return False
                return there > bound if self.operator == "Gt" else there < bound
        return False

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "NotIn" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{','.join(self.values)}"
        return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


def whole_number(text: str | None) -> int | None:
    """As Go's ParseInt reads it: ASCII digits with a sign, within 64 bits."""
    if text is None or not text.isascii() or not text.lstrip("+-").isdigit() or len(text) > LONGEST_NUMBER:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements hold; none is everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(each.allows(labels.get(each.key)) for each in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.requirements) or "everything"


def read_selector(selector: wire.LabelSelector | None) -> Selector | None:
    """None stays None: an absent selector matches nothing."""
    if selector is None:
        return None
    lines = [Requirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items())]
    lines += [
        Requirement(each.key, each.operator, tuple(sorted(each.values)))
        for each in selector.match_expressions
    ]
    return Selector(tuple(lines))


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term of a node affinity: labels and fields all hold. A term without either matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        return ",".join(str(each) for each in (*self.labels, *self.fields)) or "nothing"


def read_node_term(term: wire.NodeSelectorTerm) -> NodeTerm:
    def lines(expressions: list[wire.Expression]) -> tuple[Requirement, ...]:
        return tuple(Requirement(each.key, each.operator, tuple(sorted(each.values))) for each in expressions)

    return NodeTerm(lines(term.match_expressions), lines(term.match_fields))


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of some namespaces with some labels. `living`: those that are being deleted do not count."""

    namespaces: tuple[str, ...]
    selector: Selector | None
    namespace_selector: Selector | None = None
    living: bool = False

    def has(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)

    @property
    def by_namespace_labels(self) -> bool:
        return self.namespace_selector is not None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Pods that are in every one of these sets."""

    sets: tuple[PodSet, ...]

    def has(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        return all(each.has(namespace, labels, namespace_labels) for each in self.sets)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where such pods can be, if no set goes by namespaces' labels."""
        shared = set(self.sets[0].namespaces).intersection(*(each.namespaces for each in self.sets))
        return tuple(sorted(shared))

    @property
    def living(self) -> bool:
        return any(each.living for each in self.sets)

    @property
    def by_namespace_labels(self) -> bool:
        return any(each.by_namespace_labels for each in self.sets)


Pods = PodSet | AllOf


def in_all_of(sets: Iterable[PodSet]) -> Pods:
    distinct = tuple(dict.fromkeys(sets))
    return distinct[0] if len(distinct) == 1 else AllOf(distinct)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Near these pods, or away from them: in one domain of this node label."""

    pods: PodSet
    topology_key: str

    def __str__(self) -> str:
        return f"{self.pods.selector or 'nothing'} in one {self.topology_key}"


def read_pod_term(term: wire.PodAffinityTerm, *, namespace: str, labels: Labels) -> PodTerm:
    """The term as it reads in this pod: with its namespace, and its own labels' values where it names keys only."""
    selector = read_selector(term.label_selector)
    if selector is not None:
        lines = [Requirement(key, "In", (labels[key],)) for key in term.match_label_keys if key in labels]
        lines += [
            Requirement(key, "NotIn", (labels[key],)) for key in term.mismatch_label_keys if key in labels
        ]
        # The apiserver has written them into the selector already, unless its version is old.
        selector = Selector(
            (*selector.requirements, *(each for each in lines if each not in selector.requirements))
        )
    own = (namespace,) if not term.namespaces and term.namespace_selector is None else ()
    return PodTerm(
        PodSet(
            namespaces=own or tuple(sorted(set(term.namespaces))),
            selector=selector,
            namespace_selector=read_selector(term.namespace_selector),
        ),
        term.topology_key,
    )
