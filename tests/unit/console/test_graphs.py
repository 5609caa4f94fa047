"""Where boxes and arrows are drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from services.console.views.graphs import BETWEEN_LAYERS, Box, Edge, Layout, Point, Size, layout, ordered


def sizes(edges: Sequence[Edge]) -> dict[str, Size]:
    """Jobs are upper case, and larger."""
    names = dict.fromkeys(name for edge in edges for name in edge)
    return {name: Size(200, 60) if name.isupper() else Size(150, 30) for name in names}


def columns(found: Layout) -> list[set[str]]:
    middles = {name: box.x + box.width / 2 for name, box in found.boxes.items()}
    return [{name for name, each in middles.items() if each == x} for x in sorted(set(middles.values()))]


def overlap(one: Box, other: Box) -> bool:
    beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not beside and not (one.y + one.height <= other.y or other.y + other.height <= one.y)


def assert_is_drawn_well(edges: Sequence[Edge], found: Layout) -> None:
    """No boxes overlap, all are in the picture, each arrow goes from a side of its first box to a side of its last,
    and an arrow goes straight by the boxes of the layers between."""
    assert not [pair for pair in combinations(found.boxes, 2) if overlap(*(found.boxes[name] for name in pair))]
    for box in found.boxes.values():
        assert 0 < box.x < box.x + box.width < found.width
        assert 0 < box.y < box.y + box.height < found.height
    for (start, end), way in zip(edges, found.ways, strict=True):
        assert way[0] in sides(found.boxes[start])
        assert way[-1] in sides(found.boxes[end])
        for left, right in zip(way[1:-1:2], way[2:-1:2], strict=True):
            assert left.y == right.y
            among = [box for box in found.boxes.values() if min(left.x, right.x) <= box.x < max(left.x, right.x)]
            assert all(not box.y <= left.y <= box.y + box.height for box in among)


def sides(box: Box) -> set[Point]:
    return {Point(x, box.y + box.height / 2) for x in (box.x, box.x + box.width)}


def test_a_chain_is_a_straight_line_from_left_to_right() -> None:
    edges = [("raw", "A"), ("A", "rows"), ("rows", "B"), ("B", "end")]
    found = layout(sizes(edges), edges)
    assert columns(found) == [{"raw"}, {"A"}, {"rows"}, {"B"}, {"end"}]
    assert len({box.y + box.height / 2 for box in found.boxes.values()}) == 1
    assert found.ways[0][1].x - found.ways[0][0].x == BETWEEN_LAYERS + 0
    assert_is_drawn_well(edges, found)


def test_what_feeds_a_late_box_is_next_to_it() -> None:
    edges = [("raw", "A"), ("A", "rows"), ("rows", "B"), ("side", "B")]
    assert columns(layout(sizes(edges), edges))[2] == {"rows", "side"}


def test_a_long_arrow_goes_by_what_is_between() -> None:
    edges = [("raw", "A"), ("A", "rows"), ("rows", "B"), ("B", "more"), ("more", "C"), ("rows", "C")]
    found = layout(sizes(edges), edges)
    assert len(found.ways[-1]) == 6
    assert_is_drawn_well(edges, found)


def test_one_arrow_of_a_loop_points_back() -> None:
    edges = [("a", "A"), ("A", "b"), ("b", "B"), ("B", "a")]
    found = layout(sizes(edges), edges)
    assert [way[0].x < way[-1].x for way in found.ways].count(False) == 1
    assert_is_drawn_well(edges, found)
    self_loop = [("A", "a"), ("a", "A")]
    assert_is_drawn_well(self_loop, layout(sizes(self_loop), self_loop))


def test_a_box_alone_and_no_box() -> None:
    assert layout({"A": Size(200, 60)}, []).boxes.keys() == {"A"}
    assert layout({}, []).boxes == {}


def test_the_order_of_a_layer_undoes_crossings() -> None:
    layers = [["a", "b", "c"], ["z", "y", "x"]]
    after = {"a": ["x"], "b": ["y"], "c": ["z"]}
    before = {"x": ["a"], "y": ["b"], "z": ["c"]}
    assert ordered(layers, before, after) == [["a", "b", "c"], ["x", "y", "z"]]


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_is_drawn_well(seed: int) -> None:
    chance = random.Random(seed)
    jobs, topics = [f"J{number}" for number in range(12)], [f"t{number}" for number in range(10)]
    pairs = [(job, topic) for job in jobs for topic in topics if chance.random() < 0.2]
    edges = [pair if chance.random() < 0.4 else pair[::-1] for pair in pairs]
    assert_is_drawn_well(edges, layout(sizes(edges), edges))


def test_many_readers_of_one_topic_are_in_one_layer_around_it() -> None:
    edges = [("A", "hub"), *(("hub", f"R{number}") for number in range(199))]
    found = layout(sizes(edges), edges)
    assert_is_drawn_well(edges, found)
    readers = [box.y for name, box in found.boxes.items() if name.startswith("R")]
    assert min(readers) < found.boxes["hub"].y < max(readers)
