"""Amounts written the many ways in which people write them."""

from __future__ import annotations

from conformance.drawing.dice import Dice

BINARY = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
DECIMAL = (("G", 10**9), ("M", 10**6), ("k", 10**3))


def written(resource: str, amount: int, dice: Dice) -> str:
    """An amount in the smallest units (thousandths of a cpu, bytes, pieces) as a quantity that means the same."""
    if resource == "cpu":
        return _cpu(amount, dice)
    if resource == "memory" and amount > 1 and dice.chance(0.1):
        # A part of a byte is rounded up: a little less means the same, unless several such are added first.
        return f"{amount * 1000 - dice.pick((1, 500))}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _bytes(amount, dice)
    return str(amount)


def _cpu(thousandths: int, dice: Dice) -> str:
    ways = [f"{thousandths}m", f"{thousandths / 1000:.3f}"]
    if thousandths % 1000 == 0:
        ways.append(str(thousandths // 1000))
    return dice.pick(ways)


def _bytes(amount: int, dice: Dice) -> str:
    ways = [str(amount)]
    ways += [
        f"{amount // unit}{suffix}" for suffix, unit in (*BINARY, *DECIMAL) if amount and amount % unit == 0
    ]
    return dice.pick(ways)
