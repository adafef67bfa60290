"""The fingerprint of a set of pods, by which a publisher of NodeResourceTopologies says which pods it counted.

As the project podfingerprint defines it (version 1): XXH64 of each pod's name, seeded with XXH64 of its namespace;
sorted; and XXH64 of all of them in a row. XXH64 is written out here: a few short texts now and then need no library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

PREFIX = "pfp0v001"
ATTRIBUTE = "nodeTopologyPodsFingerprint"
METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
ONLY_EXCLUSIVE = (
    "with-exclusive-resources"  # the method that counts only pods with CPUs or devices of their own
)

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ALL = (1 << 64) - 1


def fingerprint(pods: Iterable[int]) -> str:
    """Of pods by their `pod_hash`."""
    return PREFIX + f"{xxh64(b''.join(struct.pack('<Q', each) for each in sorted(pods))):016x}"


@lru_cache(maxsize=1 << 16)
def pod_hash(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(text: bytes, seed: int = 0) -> int:
    end = len(text)
    at = 0
    if end >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= end:
            words = struct.unpack_from("<4Q", text, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        turned = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
        for lane in lanes:
            turned = ((turned ^ _round(0, lane)) * _P1 + _P4) & _ALL
    else:
        turned = (seed + _P5) & _ALL
    turned = (turned + end) & _ALL
    while at + 8 <= end:
        turned ^= _round(0, struct.unpack_from("<Q", text, at)[0])
        turned = (_rotated(turned, 27) * _P1 + _P4) & _ALL
        at += 8
    if at + 4 <= end:
        turned ^= struct.unpack_from("<I", text, at)[0] * _P1 & _ALL
        turned = (_rotated(turned, 23) * _P2 + _P3) & _ALL
        at += 4
    for byte in text[at:]:
        turned ^= byte * _P5 & _ALL
        turned = _rotated(turned, 11) * _P1 & _ALL
    turned = (turned ^ turned >> 33) * _P2 & _ALL
    turned = (turned ^ turned >> 29) * _P3 & _ALL
    return turned ^ turned >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _ALL, 31) * _P1 & _ALL


def _rotated(word: int, by: int) -> int:
    word &= _ALL
    return (word << by | word >> (64 - by)) & _ALL
