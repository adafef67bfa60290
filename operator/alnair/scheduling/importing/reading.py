"""Text into a tree: JSON or YAML, the file itself or the ConfigMap that it lies in. Checks what every part shares."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from alnair.api.quantity import shown

KINDS: Final = ("Policy", "KubeSchedulerConfiguration")
LARGEST_FILE: Final = 1024 * 1024  # an object of Kubernetes holds about as much
POLICY_KEY: Final = "policy.cfg"  # where kube-scheduler looks in a ConfigMap


class Unreadable(ValueError):
    """A file that is none of ours to read, or that kube-scheduler would refuse; one line for each mistake."""


class Part(BaseModel):
    """A piece of an old file. Fields that nobody knows are kept, to be told of: kube-scheduler ignored them."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, strict=True, extra="allow", frozen=True
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_nothing(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: each for key, each in value.items() if each is not None}
        return value

    def unknown(self) -> list[str]:
        return [str(key) for key in self.model_extra or {}]


Model = TypeVar("Model", bound=Part)


def read(content: bytes | str, *, origin: str) -> dict[str, Any]:
    """The tree of the one Policy or KubeSchedulerConfiguration in the text."""
    if len(content) > LARGEST_FILE:
        raise Unreadable(f"{origin}: is larger than {LARGEST_FILE} bytes; is it the right file?")
    documents = [each for each in _documents(content, origin) if each is not None]
    found = [tree for each in documents for tree in _trees(each, origin)]
    if len(found) != 1:
        kinds = ", ".join(dict.fromkeys(shown(_kind(each)) for each in documents)) or "nothing"
        raise Unreadable(
            f"{origin}: has {len(found)} objects of kind {' or '.join(KINDS)}, and there must be one (found {kinds})"
        )
    return found[0]


def checked(model: type[Model], tree: Any, *, origin: str) -> Model:
    """The tree as that model. Raises Unreadable."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise Unreadable("\n".join(_line(each, origin) for each in error.errors())) from error


def _line(error: Any, origin: str) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    if error["type"] == "missing":
        return f"{origin}: {place}: is missing; it must be given"
    message = error["msg"].removeprefix("Value error, ")
    return f"{origin}: {place or 'the file'}: {shown(error['input'])}: {message}"


def _trees(tree: Any, origin: str) -> list[dict[str, Any]]:
    if not isinstance(tree, dict):
        return []
    if tree.get("kind") in KINDS:
        return [tree]
    if tree.get("kind") != "ConfigMap" or not isinstance(tree.get("data"), dict):
        return []
    entries = tree["data"]
    if POLICY_KEY in entries:
        entries = {POLICY_KEY: entries[POLICY_KEY]}
    inside: list[dict[str, Any]] = []
    for key, text in entries.items():
        if not isinstance(text, str):
            continue
        documents = _documents(text, f"{origin}: data.{key}")
        inside += [each for each in documents if isinstance(each, dict) and each.get("kind") in KINDS]
    return inside


def _kind(tree: Any) -> Any:
    return tree.get("kind") if isinstance(tree, dict) else tree


def _documents(content: bytes | str, origin: str) -> list[Any]:
    try:
        text = content.decode() if isinstance(content, bytes) else content
        # JSON first: people indent it with tabs, which YAML does not take.
        if text.lstrip("\ufeff \t\r\n").startswith("{"):
            try:
                return [json.loads(text.lstrip("\ufeff"), object_pairs_hook=_once, parse_constant=_no_number)]
            except json.JSONDecodeError as error:
                if "\t" in text:
                    raise Unreadable(f"{origin}: is not valid JSON: {error}") from error
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"{origin}: is neither valid JSON nor YAML: {error}") from error
    except Unreadable:
        raise
    except ValueError as error:
        # Keys that stand twice; dates, numbers and the like that look right and are not.
        raise Unreadable(f"{origin}: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in pairs:
        if key in tree:
            raise ValueError(f"the key {shown(key)} stands twice in one object")
        tree[key] = value
    return tree


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON's")


class _Loader(yaml.SafeLoader):
    """Plain YAML, except that a key that stands twice is a mistake and not a last word, and that nothing is repeated by
    reference: a few lines of that can stand for more than fits into memory."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise ValueError("aliases (*name) are not read; write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"the key {shown(key.value)} stands twice in one object")
                seen.add(key.value)
        return super().construct_mapping(node, deep)
