"""Numbers as people write them, for reasons and events."""

from __future__ import annotations

from alnair.api.text import one_line


def amount(resource: str, value: int) -> str:
    if resource == "cpu":
        return _decimal(value / 1000)
    if resource in ("memory", "ephemeral-storage"):
        return memory(value >> 20) if value >= 1 << 20 else f"{value} bytes"
    return str(value)


def memory(mib: int) -> str:
    """`6 GiB`, `1.5 GiB`, `700 MiB`: exact, and short where it can be."""
    if mib and mib % 1024 == 0:
        return f"{mib // 1024} GiB"
    if mib % 256 == 0 and mib > 1024:
        return f"{_decimal(mib / 1024)} GiB"
    return f"{mib} MiB"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def agree(number: int, phrase: str) -> str:
    """`1 is cordoned`, `3 are cordoned`: a phrase that starts with is, has or does, for so many."""
    verb, rest = phrase.split(" ", 1)
    plural = {"is": "are", "has": "have", "does": "do"}[verb]
    return f"{number} {verb if number == 1 else plural} {rest}"


def sentence(text: str) -> str:
    """Starts large, unless it starts with a name such as `spec.minMember`, and ends with a full stop. In one line,
    whoever's words are in it."""
    text = one_line(text.strip())
    if text.partition(" ")[0].isalpha():
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def _decimal(number: float) -> str:
    """Without an exponent, exact to three places."""
    return f"{number:.3f}".rstrip("0").rstrip(".")
