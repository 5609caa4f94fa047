"""Where the boxes and arrows of a directed graph are drawn: in layers from left to right. Pure.

1. A box is to the right of all that lead to it. Of a loop, one arrow points back.
2. An arrow over several layers bends in each layer between, so that it crosses no box.
3. Boxes of a layer are in the order of their neighbours' mean place, which leaves few crossings.
4. Boxes are as high up as their neighbours are in the mean, but none overlaps another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

Edge = tuple[str, str]
Layers = list[list[str]]
MARGIN, BETWEEN_LAYERS, BETWEEN_BOXES = 12.0, 44.0, 14.0
_SWEEPS = 6


class Size(NamedTuple):
    """Of a box, in pixels."""

    width: float
    height: float


class Box(NamedTuple):
    """A box by its left upper corner and its size, in pixels."""

    x: float
    y: float
    width: float
    height: float


class Point(NamedTuple):
    """A place, in pixels from the left and from the top."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture of `width` by `height`. `ways`: the points of each edge, in the order of the edges."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    ways: Sequence[Sequence[Point]]


_BEND = Size(0.0, 4.0)


def layout(sizes: Mapping[str, Size], edges: Sequence[Edge]) -> Layout:
    """The picture of boxes by name. In a loop, a box that is named earlier is farther to the left."""
    layer_of = _layers_of(sizes, edges)
    forward = [edge if layer_of[edge[0]] < layer_of[edge[1]] else edge[::-1] for edge in edges]
    ways = [_with_bends(number, edge, layer_of) for number, edge in enumerate(forward)]
    all_sizes = {**dict.fromkeys((bend for way in ways for bend in way[1:-1]), _BEND), **sizes}
    before, after = _neighbours(ways)
    layers = ordered(_in_layers(sizes, layer_of, ways), before, after)
    tops = _tops(layers, all_sizes, before, after)
    boxes = _boxes(layers, all_sizes, tops)
    points = [_points(way, boxes) for way in ways]
    return Layout(
        width=max((box.x + box.width for box in boxes.values()), default=0.0) + MARGIN,
        height=max((box.y + box.height for box in boxes.values()), default=0.0) + MARGIN,
        boxes={name: boxes[name] for name in sizes},
        ways=[way if same == edge else way[::-1] for way, same, edge in zip(points, forward, edges, strict=True)],
    )


def _layers_of(names: Iterable[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each box: one after the last of those that lead to it. One to which none leads is next to the first
    that it leads to."""
    waits: dict[str, set[str]] = {name: set() for name in names}
    for start, end in edges:
        waits[end].add(start)
    sources = {name for name, before in waits.items() if not before}
    layer_of: dict[str, int] = {}
    layer = 0
    while waits:
        # A loop is opened where its first box is.
        free = [name for name, before in waits.items() if not before] or [next(iter(waits))]
        layer_of |= dict.fromkeys(free, layer)
        for name in free:
            del waits[name]
        for before in waits.values():
            before.difference_update(free)
        layer += 1
    first_after = {name: min((layer_of[end] for start, end in edges if start == name), default=1) for name in sources}
    return layer_of | {name: layer - 1 for name, layer in first_after.items()}


def _with_bends(number: int, edge: Edge, layer_of: Mapping[str, int]) -> list[str]:
    start, end = edge
    return [start, *(f"bend {number} {layer}" for layer in range(layer_of[start] + 1, layer_of[end])), end]


def _in_layers(names: Iterable[str], layer_of: Mapping[str, int], ways: Iterable[Sequence[str]]) -> Layers:
    layers: Layers = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for name in names:
        layers[layer_of[name]].append(name)
    for way in ways:
        for layer, bend in enumerate(way[1:-1], start=layer_of[way[0]] + 1):
            layers[layer].append(bend)
    return layers


def _neighbours(ways: Iterable[Sequence[str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What is directly left, and what is directly right of each box and bend."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for way in ways:
        for left, right in pairwise(way):
            after.setdefault(left, []).append(right)
            before.setdefault(right, []).append(left)
    return before, after


def ordered(layers: Layers, before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Layers:
    """Each layer in the order of its neighbours' mean place, several times from left to right and back."""
    found = [list(layer) for layer in layers]
    place = {name: float(index) for layer in found for index, name in enumerate(layer)}
    for sweep in range(_SWEEPS):
        beside = before if sweep % 2 == 0 else after
        for layer in found if sweep % 2 == 0 else reversed(found):
            mean = {name: _mean(place, beside.get(name, ()), name) for name in layer}
            layer.sort(key=mean.__getitem__)
            place |= {name: float(index) for index, name in enumerate(layer)}
    return found


def _tops(
    layers: Layers, sizes: Mapping[str, Size], before: Mapping[str, list[str]], after: Mapping[str, list[str]]
) -> dict[str, float]:
    """The upper edge of each box and bend; the highest one is at the margin."""
    middle: dict[str, float] = {}
    for layer in layers:
        middle |= _stacked(layer, sizes, dict.fromkeys(layer, 0.0))
    for sweep in range(_SWEEPS):
        beside = after if sweep % 2 == 0 else before
        for layer in reversed(layers) if sweep % 2 == 0 else layers:
            wanted = {name: _mean(middle, beside.get(name, ()), name) for name in layer}
            middle |= _stacked(layer, sizes, wanted)
    tops = {name: middle[name] - sizes[name].height / 2 for name in middle}
    highest = min(tops.values(), default=0.0)
    return {name: top - highest + MARGIN for name, top in tops.items()}


def _stacked(layer: Sequence[str], sizes: Mapping[str, Size], wanted: Mapping[str, float]) -> dict[str, float]:
    """The middles of a layer in its order, without overlaps, and in the mean where they are wanted."""
    middle: dict[str, float] = {}
    free_from = float("-inf")
    for name in layer:
        half = sizes[name].height / 2
        middle[name] = max(wanted[name], free_from + half)
        free_from = middle[name] + half + BETWEEN_BOXES
    shift = fmean(wanted[name] - middle[name] for name in layer) if layer else 0.0
    return {name: each + shift for name, each in middle.items()}


def _mean(places: Mapping[str, float], names: Sequence[str], otherwise: str) -> float:
    return fmean(places[name] for name in names) if names else places[otherwise]


def _boxes(layers: Layers, sizes: Mapping[str, Size], tops: Mapping[str, float]) -> dict[str, Box]:
    """Boxes in the middle of their layer. A bend is as wide as its layer, so that its line goes straight through."""
    found: dict[str, Box] = {}
    left = MARGIN
    for layer in layers:
        width = max(sizes[name].width for name in layer)
        for name in layer:
            own = width if sizes[name] is _BEND else sizes[name].width
            found[name] = Box(left + (width - own) / 2, tops[name], own, sizes[name].height)
        left += width + BETWEEN_LAYERS
    return found


def _points(way: Sequence[str], boxes: Mapping[str, Box]) -> list[Point]:
    """From the right side of the first box, along each bend, to the left side of the last."""
    found = [(boxes[name].x, boxes[name].x + boxes[name].width, _middle(boxes[name])) for name in way]
    sides = [Point(x, y) for left, right, y in found for x in (left, right)]
    return sides[1:-1]


def _middle(box: Box) -> float:
    return box.y + box.height / 2
