"""Spark's analysed plan, read from the JSON of `LogicalPlan.toJSON`: nodes, expressions, attributes. Pure.

Spark writes a tree as a flat list in pre-order, where each record has its class and its number of children. A field
that holds expressions is a list of such lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of a plan or of an expression. `kind` is the class without its package."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Tree, ...]

    def trees(self, field: str) -> tuple[Tree, ...]:
        """The expressions of a field with a list of them; none where the field is absent or null."""
        return tuple(tree_of(each) for each in self.fields.get(field) or ())

    def tree(self, field: str) -> Tree | None:
        """The expression of a field; None where there is none."""
        found = self.fields.get(field)
        return tree_of(found) if found else None

    @property
    def expression_id(self) -> str | None:
        """Identifies an attribute or an alias within a plan."""
        found = self.fields.get("exprId")
        return None if not isinstance(found, Mapping) else str(found["id"])

    @property
    def attribute(self) -> str | None:
        """The id of the attribute that this expression plainly is; None for any other expression."""
        return self.expression_id if self.kind == "AttributeReference" else None

    @property
    def name(self) -> str:
        """The name of an attribute or an alias."""
        return str(self.fields.get("name", ""))


def parse_plan(text: str) -> Tree:
    """The plan that `toJSON` wrote. Raises RecursionError when it is nested too deeply."""
    return tree_of(json.loads(text))


def tree_of(records: Sequence[Mapping[str, Any]]) -> Tree:
    """The tree of a list of records in pre-order."""
    return _next(iter(records))


def _next(records: Iterator[Mapping[str, Any]]) -> Tree:
    record = next(records)
    children = tuple(_next(records) for _ in range(record["num-children"]))
    return Tree(str(record["class"]).rpartition(".")[2], record, children)
