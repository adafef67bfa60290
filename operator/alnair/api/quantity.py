"""Kubernetes quantities, read strictly: `500m`, `1.5Gi`, `2e3` in, integers out.

Written by hand because it stands on the hot path and must never be lenient: ASCII only, no NaN, no
underscores, no signs but `+`, no spaces, nothing below 0 or above 2**63-1. Nothing in here may cost more than
a bounded amount of work, whatever the text: lengths and exponents are refused before any power is computed.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

LARGEST: Final = 2**63 - 1
BILLION: Final = 10**9
_LONGEST_TEXT: Final = 64
_LARGEST_EXPONENT: Final = 64
_SHOWN: Final = 80

_QUANTITY: Final = re.compile(
    r"\+?(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]+))?"
)
_PLAIN_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_MOST: Final = {0: LARGEST, 3: LARGEST, 9: LARGEST * BILLION}  # by power
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class BadQuantity(ValueError):
    """A quantity that cannot be used. The message names the field, the value and what is wrong with it."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"{field}: {shown(value)} {reason}")
        self.field = field
        self.value = value
        self.reason = reason


def shown(value: object) -> str:
    """The value as an error message prints it: escaped, on one line, at most 80 characters."""
    # Cut before it is printed: printing a huge string or integer costs (or raises) by itself.
    if isinstance(value, str):
        text = ascii(value[: _SHOWN + 1])
    elif isinstance(value, int) and abs(value) > 10**_SHOWN:
        text = f"an integer of {value.bit_length()} bits"
    else:
        text = ascii(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def milli(value: str | int | float, *, field: str) -> int:
    """The quantity in thousandths, rounded up (`0.0001` is 1)."""
    return _read(value, field, 3)


def whole(value: str | int | float, *, field: str) -> int:
    """The quantity in units, rounded up (`500m` is 1)."""
    return _read(value, field, 0)


def nano(value: str | int | float, *, field: str) -> int:
    """The quantity in billionths, which is as finely as Kubernetes keeps one, rounded up (`0.1n` is 1).

    For amounts that are to be added up or compared: Kubernetes does both exactly and rounds what comes of it.
    """
    return _read(value, field, 9)


def mib(value: str | int | float, *, field: str) -> int:
    """A quantity of bytes in MiB, rounded up."""
    return (_read(value, field, 0) + 0xFFFFF) >> 20


def integer(text: str | int, *, field: str, low: int, high: int) -> int:
    """A plain decimal integer between low and high: digits, and nothing else."""
    if type(text) is int:
        number = text
    elif isinstance(text, str) and len(text) <= 19 and _PLAIN_INTEGER.fullmatch(text):
        number = int(text)
    else:
        raise BadQuantity(field, text, f"is not a plain integer; write digits only, {low} to {high}")
    if not low <= number <= high:
        raise BadQuantity(field, text, f"is out of range; {low} to {high} is allowed")
    return number


def _read(value: str | int | float, field: str, power: int) -> int:
    if type(value) is int:
        number: int | str
        if value < 0:
            number = "is negative"
        elif value > LARGEST or (number := value * 10**power) > _MOST[power]:
            number = "is too large"
    elif isinstance(value, str):
        # The length is looked at before the cache: a cache of 256 KiB annotations would be a leak.
        number = _parse(value, power) if len(value) <= _LONGEST_TEXT else "is too long for a quantity"
    elif type(value) is float and math.isfinite(value):
        number = _parse(repr(value), power)
    else:
        number = "is not a quantity; write for example 500m, 2 or 16Gi"
    if isinstance(number, str):
        raise BadQuantity(field, value, number)
    return number


@lru_cache(maxsize=8192)
def _parse(text: str, power: int) -> int | str:
    """The number times 10**power, rounded up; or, as a string, why it is none (cached too)."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        if text.startswith("-") and _QUANTITY.fullmatch(text, 1):
            return "is negative"
        return "is not a quantity; write for example 500m, 2 or 16Gi"
    digits, fraction, bare_fraction, binary, decimal, exponent = match.groups()
    fraction = bare_fraction or fraction or ""
    most = _MOST[power]
    mantissa = int((digits or "") + fraction)
    power -= len(fraction)
    if binary:
        mantissa <<= _BINARY[binary]
    elif decimal:
        power += _DECIMAL[decimal]
    elif exponent:
        if abs(int(exponent)) > _LARGEST_EXPONENT:
            return "has an absurd exponent"
        power += int(exponent)
    number = mantissa * 10**power if power >= 0 else -(-mantissa // 10**-power)
    return number if number <= most else "is too large"
