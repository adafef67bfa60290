"""Which cards a pod wants, and which it does not: by model and by name, in Alnair's annotations and in HAMi's.

Alnair's lists hold models as the inventory spells them. HAMi's hold parts of a model's name, whatever their case. A
card is named by its UUID, or as NODE/INDEX. Lists that leave nothing to choose are refused, never read as "any".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from alnair.api import names
from alnair.api.quantity import shown

_MOST_ENTRIES: Final = 32
_LONGEST_ENTRY: Final = 253 + 5  # NODE/INDEX
_LONGEST_MODEL: Final = 128


class BadRequest(ValueError):
    """A GPU request that cannot be honoured. The message names the field, the value and what to write."""

    def __init__(self, field: str, value: object, advice: str) -> None:
        super().__init__(f"{field}: {shown(value)} {advice}")
        self.field = field
        self.value = value
        self.advice = advice


@dataclass(frozen=True, slots=True)
class CardChoice:
    """Empty lists choose nothing. Parts of names are in upper case."""

    models: tuple[str, ...] = ()  # only these
    models_not: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # only models whose name has one of these in it
    parts_not: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()  # only these: UUID or NODE/INDEX
    cards_not: tuple[str, ...] = ()
    by_model: bool = field(init=False, compare=False, repr=False)
    by_name: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_model", any((self.models, self.models_not, self.parts, self.parts_not)))
        object.__setattr__(self, "by_name", bool(self.cards or self.cards_not))

    def likes_model(self, model: str) -> bool:
        large = model.upper()
        return (
            (not self.models or model in self.models)
            and model not in self.models_not
            and (not self.parts or any(part in large for part in self.parts))
            and not any(part in large for part in self.parts_not)
        )

    def likes_card(self, uuid: str, place: str) -> bool:
        """`place`: NODE/INDEX, or empty where no list names a card of this node so."""
        if self.cards and uuid not in self.cards and place not in self.cards:
            return False
        return uuid not in self.cards_not and place not in self.cards_not

    def __str__(self) -> str:
        """The models, in words: `A10 or L4`, `like A100`, `other than T4`."""
        told = []
        if self.models:
            told.append(" or ".join(self.models))
        if self.parts:
            told.append("like " + " or ".join(self.parts))
        if self.models_not:
            told.append("other than " + " and ".join(self.models_not))
        if self.parts_not:
            told.append("unlike " + " and ".join(self.parts_not))
        return ", ".join(told)


ANY_CARD: Final = CardChoice()


def card_choice(annotations: Mapping[str, str]) -> CardChoice:
    """Raises BadRequest."""
    if names.CHOICE_ANNOTATIONS.isdisjoint(annotations):
        return ANY_CARD
    models, models_not = (_models(annotations, key) for key in (names.GPU_MODEL, names.GPU_MODEL_NOT))
    parts, parts_not = (
        tuple(dict.fromkeys(part.upper() for part in _models(annotations, key)))
        for key in (names.HAMI_USE_TYPE, names.HAMI_NO_USE_TYPE)
    )
    cards, cards_not = (
        tuple(dict.fromkeys(name for key in keys for name in _names(annotations, key)))
        for keys in ((names.GPU_UUID, names.HAMI_USE_UUID), (names.GPU_UUID_NOT, names.HAMI_NO_USE_UUID))
    )
    choice = CardChoice(models, models_not, parts, parts_not, cards, cards_not)
    _refuse_contradictions(choice, annotations)
    return choice


def refuse_too_few(choice: CardChoice, needed: int, annotations: Mapping[str, str]) -> None:
    """Fewer cards named than the pod needs at once."""
    if choice.cards and len(choice.cards) < needed:
        key = names.GPU_UUID if names.GPU_UUID in annotations else names.HAMI_USE_UUID
        number = len(choice.cards)
        advice = f"names {number} {'card' if number == 1 else 'cards'}, but the pod needs {needed} at once"
        raise BadRequest(key, annotations[key], f"{advice}; name more, or ask for fewer")


def _refuse_contradictions(choice: CardChoice, annotations: Mapping[str, str]) -> None:
    for model in choice.models:
        if not choice.likes_model(model):
            raise BadRequest(
                names.GPU_MODEL, model, "is allowed and denied at once; take it off one of the lists"
            )
    for part in choice.parts:
        if any(denied in part for denied in choice.parts_not):
            raise BadRequest(
                names.HAMI_USE_TYPE, part, "is allowed and denied at once; take it off one of the lists"
            )
    for card in choice.cards:
        if card in choice.cards_not:
            key = names.GPU_UUID if names.GPU_UUID in annotations else names.HAMI_USE_UUID
            raise BadRequest(key, card, "is allowed and denied at once; take it off one of the lists")


def _models(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    return _listed(annotations, key, "model", _LONGEST_MODEL)


def _names(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    return _listed(annotations, key, "card", _LONGEST_ENTRY)


def _listed(annotations: Mapping[str, str], key: str, noun: str, longest: int) -> tuple[str, ...]:
    """The list, in order, each entry once."""
    text = annotations.get(key)
    if text is None:
        return ()
    if len(text) > _MOST_ENTRIES * (longest + 2):
        raise BadRequest(key, text, f"is too long; name at most {_MOST_ENTRIES} {noun}s")
    entries = tuple(dict.fromkeys(part.strip(" ") for part in text.split(",")))
    if "" in entries:
        raise BadRequest(key, text, f"has an empty entry; separate {noun}s by single commas")
    if len(entries) > _MOST_ENTRIES:
        raise BadRequest(key, text, f"names {len(entries)} {noun}s; at most {_MOST_ENTRIES} are allowed")
    for entry in entries:
        if len(entry) > longest or not (entry.isascii() and entry.isprintable()):
            raise BadRequest(
                key, entry, f"is no {noun} name; write at most {longest} printable ASCII characters"
            )
    return entries
