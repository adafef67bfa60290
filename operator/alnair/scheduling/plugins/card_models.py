"""What a model of card can do: about how many TFLOPS, and over how wide a link it talks to its neighbours.

TFLOPS are dense FP16 on tensor cores where a card has some (FP32 on cards without any FP16 to speak of), links are GB/s
in both directions together (NVLink, or else PCIe); both are round figures, not checked against data sheets. They only
serve to tell a strong node from a weak one, so a tenth more or less does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

PCIE_3, PCIE_4, PCIE_5 = 32.0, 64.0, 128.0


@dataclass(frozen=True, slots=True)
class CardModel:
    tflops: float
    link_gbyte: float


# Looked for word by word: all words of the entry stand in the model's name. The entry with most words wins.
KNOWN: Mapping[str, CardModel] = {
    "K80": CardModel(8.7, PCIE_3),
    "TITAN X": CardModel(11, PCIE_3),
    "P4": CardModel(5.5, PCIE_3),
    "P40": CardModel(12, PCIE_3),
    "P100": CardModel(21, PCIE_3),
    "P100 SXM2": CardModel(21, 160),
    "V100": CardModel(125, PCIE_3),
    "V100 SXM2": CardModel(125, 300),
    "V100 SXM3": CardModel(125, 300),
    "T4": CardModel(65, PCIE_3),
    "RTX 2080 Ti": CardModel(108, PCIE_3),
    "RTX 3090": CardModel(142, PCIE_4),
    "RTX 4090": CardModel(330, PCIE_4),
    "RTX A6000": CardModel(155, PCIE_4),
    "RTX 6000 Ada": CardModel(364, PCIE_4),
    "A2": CardModel(18, PCIE_4),
    "A10": CardModel(125, PCIE_4),
    "A10G": CardModel(70, PCIE_4),
    "A30": CardModel(165, PCIE_4),
    "A40": CardModel(150, PCIE_4),
    "A100": CardModel(312, PCIE_4),
    "A100 SXM4": CardModel(312, 600),
    "A800": CardModel(312, 400),
    "L4": CardModel(121, PCIE_4),
    "L40": CardModel(181, PCIE_4),
    "L40S": CardModel(362, PCIE_4),
    "H20": CardModel(148, 900),
    "H100": CardModel(989, 900),
    "H100 PCIe": CardModel(756, PCIE_5),
    "H800": CardModel(989, 400),
    "H200": CardModel(989, 900),
    "GH200": CardModel(989, 900),
    "B100": CardModel(1750, 1800),
    "B200": CardModel(2250, 1800),
    "GB200": CardModel(2500, 1800),
    "MI210": CardModel(181, PCIE_4),
    "MI250X": CardModel(383, 800),
    "MI300X": CardModel(1307, 896),
}

_WORD = re.compile(r"[A-Z0-9]+")


class Catalogue:
    """The table, and what a profile adds to it or says otherwise."""

    def __init__(self, more: Mapping[str, CardModel]) -> None:
        known = {words(name): model for name, model in {**KNOWN, **more}.items()}
        self._known = sorted(known.items(), key=lambda each: -len(each[0]))
        self.find = lru_cache(maxsize=1024)(self._find)

    def _find(self, model: str) -> CardModel | None:
        """None: a model that nobody knows."""
        there = words(model)
        return next((each for wanted, each in self._known if wanted and wanted <= there), None)


def words(name: str) -> frozenset[str]:
    """Tesla-V100-SXM2-32GB and "Tesla V100 SXM2 32GB" are one."""
    return frozenset(_WORD.findall(name.upper()))
