"""Others' words in our lines: what tenants, nodes and webhooks wrote, as it may stand in a log, event or condition.

What must never happen: that a name or a message with a line end in it writes a line of its own into our log.
"""

from __future__ import annotations


def one_line(text: str, *, most: int | None = None) -> str:
    """The text with all escaped that ends a line, moves the cursor or is no character; cut to `most` characters."""
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    if text.isprintable():
        return text
    escaped = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return escaped if most is None or len(escaped) <= most else escaped[: most - 1] + "…"
