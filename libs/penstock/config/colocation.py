"""Which rows of a query are sure to be in the same task: the algebra behind the rule for stateful queries.

A task reads its own key groups, so an operator that brings rows together (GROUP BY, DISTINCT, a join of two
streams) is right with several tasks only if rows that must meet are in one key group. `Key(function, columns)` of
a relation says: rows with equal values in `columns` are in one key group, chosen by `function` from exactly these
columns in this order. A relation may have several keys (both sides of an equality), or none.

Each operator maps the keys of what it reads to the keys of what it gives. Wherever that cannot be seen (an
expression instead of a plain column, a `*` in a union) keys are dropped, never invented: a query may be refused
that would have been right, not the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

# A column may be passed on under several names; of the many combinations for a wide key a few are enough.
MAX_NAMINGS = 16
OTHER_STREAM = ""
"""Stands for a stream that is none of the job's inputs."""


class ColumnRef(NamedTuple):
    """A column, in lower case: its name and, inside one SELECT, the alias of its source."""

    source: str
    name: str


@dataclass(frozen=True, slots=True)
class Key:
    """Rows with equal `columns` are in the key group that `function` gives for them."""

    function: str
    columns: tuple[ColumnRef, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows with named columns. `inputs` are the inputs it streams from, none for a static one.

    `names` are the columns in order, None when they cannot be seen, or while several sources are being joined.
    """

    inputs: frozenset[str] = frozenset()
    keys: frozenset[Key] = frozenset()
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """An operator that keeps state over `inputs`. `colocated`: rows that must meet are in one key group.

    `by` are the plain columns that rows must share to meet; empty when all rows meet.
    """

    operation: str
    inputs: frozenset[str]
    by: tuple[str, ...]
    colocated: bool


Equal = Callable[[ColumnRef, ColumnRef], bool]


def key_of(function: str, names: Iterable[str], source: str = "") -> Key:
    """A key of the columns with these names, of one source."""
    return Key(function, tuple(ColumnRef(source, name) for name in names))


def scoped(relation: Relation, alias: str) -> Relation:
    """A relation as the source `alias` of a SELECT."""
    keys = (key_of(key.function, (column.name for column in key.columns), alias) for key in relation.keys)
    return Relation(relation.inputs, frozenset(keys))


def renamed(relation: Relation, names: tuple[str, ...]) -> Relation:
    """The relation with new column names, by position; its keys are lost when its own names do not tell columns."""
    if relation.names is None or len(names) != len(set(relation.names)) or len(names) != len(relation.names):
        return Relation(relation.inputs, frozenset(), names)
    new_name = dict(zip(relation.names, names, strict=True))
    keys = (key_of(key.function, (new_name[column.name] for column in key.columns)) for key in relation.keys)
    return Relation(relation.inputs, frozenset(keys), names)


def joins_colocated(left: Relation, right: Relation, equal: Equal) -> bool:
    """Whether an equality of the join pairs a key of one side with a key of the other, column by column."""
    return any(
        one.function == other.function
        and len(one.columns) == len(other.columns)
        and all(equal(mine, its) for mine, its in zip(one.columns, other.columns, strict=True))
        for one, other in product(left.keys, right.keys)
    )


def joined(left: Relation, right: Relation, side: str) -> Relation:
    """The rows of a join of which at most one side streams, or both colocated.

    `side` is LEFT, RIGHT, FULL or empty: the columns of a side that may be filled with nulls no longer tell where a
    row is.
    """
    kept = {"LEFT": left.keys, "RIGHT": right.keys, "FULL": frozenset[Key]()}
    return Relation(left.inputs | right.inputs, kept.get(side, left.keys | right.keys))


def keys_within(scope: Relation, covers: Callable[[ColumnRef], bool]) -> frozenset[Key]:
    """The keys all of whose columns are among those that `covers` accepts."""
    return frozenset(key for key in scope.keys if all(covers(column) for column in key.columns))


def projected(keys: Iterable[Key], outputs: Callable[[ColumnRef], list[str]]) -> frozenset[Key]:
    """The keys whose columns are all passed on unchanged; `outputs` gives the names a column is passed on under."""
    found = {key: product(*(outputs(column) for column in key.columns)) for key in keys}
    return frozenset(
        key_of(key.function, names) for key, named in found.items() for names in islice(named, MAX_NAMINGS)
    )


def united(left: Relation, right: Relation) -> Relation:
    """UNION ALL: columns by position, under the left names. A static side is in every task, so it has no keys."""
    names = left.names
    aligned = renamed(right, names) if names is not None else Relation(right.inputs)
    return Relation(left.inputs | right.inputs, left.keys & aligned.keys, names)
