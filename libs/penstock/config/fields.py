"""The field table: one row for each leaf of `JobConfig`, drawn from the declarations beside the types.

`GET /v1/fields`, CLI help, layer checks and the classifier all read this table.
"""

from __future__ import annotations

from penstock.config.tree import ROOT, FieldRow, FreeMap, Leaf, Path, find, rows

__all__ = ["FIELD_TABLE", "FieldRow", "Path", "dotted", "row_for"]

FIELD_TABLE: tuple[FieldRow, ...] = tuple(rows(ROOT))


def row_for(path: Path) -> FieldRow | None:
    """The row of a concrete path, such as `("inputs", "flights", "topic")`; None for unknown fields and for maps.

    A free map of plain values (`args`, `labels`, `container_labels`) that is empty is itself a leaf of a
    configuration: it has the row of its values.
    """
    node = find(path)
    if isinstance(node, FreeMap) and isinstance(node.element, Leaf):
        return node.element.row
    return node.row if isinstance(node, Leaf) else None


def dotted(path: Path) -> str:
    """A path for people: `inputs.flights.topic`. Keys may hold dots themselves, so programs keep the tuple."""
    return ".".join(path)
