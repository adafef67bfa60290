"""How many cards hang together in a cluster, and what that makes of a gang's usual speed-up."""

from __future__ import annotations

from alnair.control.elastic.extent import Extent, extent_of
from alnair.scheduling.elastic import curves
from harness.builders import NodeBuilder, node
from unit.builders import Cluster

RACK = "topology.kubernetes.io/rack"


def extent(*nodes: NodeBuilder, rack: str | None = RACK) -> Extent:
    return extent_of(Cluster(*nodes).state, rack)


def test_the_largest_node_and_the_largest_rack_count() -> None:
    found = extent(
        node("a").with_cards(4).labelled({RACK: "r1"}),
        node("b").with_cards(8).labelled({RACK: "r1"}),
        node("c").with_cards(8).labelled({RACK: "r2"}),
        node("d"),
    )
    assert (found.node, found.rack) == (8, 12)


def test_without_a_level_of_that_name_there_are_no_racks() -> None:
    assert extent(node("a").with_cards(4).labelled({RACK: "r1"}), rack=None).rack == 0


def test_cards_that_are_linked_in_pairs_hang_together_in_pairs() -> None:
    assert extent(node("a").with_cards(4).linked()).link == 2
    assert extent(node("a").with_cards(4)).link == 0
    assert extent(node("a").with_cards(4).linked(lambda one, other: 10)).link == 4


def test_members_of_several_cards_fill_it_sooner() -> None:
    assert Extent(link=2, node=8, rack=32).in_members(4) == Extent(link=0, node=2, rack=8)


def test_counts_that_fill_a_node_or_a_rack_win() -> None:
    """The next member is worth less than the last one that fitted in."""
    curve = curves.default(40, node=8, rack=32)
    assert curve.gain(7) > curve.gain(8)
    assert curve.gain(31) > curve.gain(32)
