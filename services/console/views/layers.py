"""The layers of a job side by side: for each field who sets it, what counts and what is hidden. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.wire.jobs import ExplainedLeafView, Explanation, LayerVersion

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a layer says of a field. `counts` false: a layer above hides it."""

    value: Any
    counts: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A field with a cell for each layer that says something of it."""

    leaf: ExplainedLeafView
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class LayersTable:
    """`columns`: the layers that set something, lowest first; `left_out`: how many fields have their defaults and are
    not shown."""

    columns: Sequence[LayerVersion]
    rows: Sequence[Row]
    left_out: int


def layers_table(
    found: Explanation, order: Sequence[str], layers: Sequence[LayerVersion], *, all_fields: bool
) -> LayersTable:
    """The table; without `all_fields` only what some layer sets. `order`: the layers of the cell, lowest first."""
    rows = [_row(leaf) for leaf in found.leaves]
    shown = [row for row in rows if all_fields or set(row.cells) - {DEFAULT}]
    used = {layer for row in shown for layer in row.cells if layer != DEFAULT}
    by_name = {layer.layer: layer for layer in layers}
    columns = [by_name.get(name) or LayerVersion(layer=name, version=0) for name in order if name in used]
    return LayersTable(columns, shown, len(rows) - len(shown))


def _row(leaf: ExplainedLeafView) -> Row:
    hidden = {each.layer: Cell(each.value, counts=False) for each in leaf.hides}
    return Row(leaf, {**hidden, leaf.layer: Cell(leaf.value, counts=leaf.ignored is None)})
