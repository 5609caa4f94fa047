"""Which rows of a query are sure to be in the same task: the algebra behind the rule for stateful queries.

A task reads its own key groups, so an operator that brings rows together (GROUP BY, DISTINCT, a join of two
streams) is right with several tasks only if rows that must meet are in one key group. `Key(function, columns)` of
a relation says: rows with equal values in `columns` are in one key group, chosen by `function` from exactly these
columns in this order. A relation may have several keys (both sides of an equality), or none.

Each operator maps the keys of what it reads to the keys of what it gives. Wherever that cannot be seen (an
expression instead of a plain column, an operator that is not known) keys are dropped, never invented: a query may be
refused that would have been right, not the other way round.

Columns are identified by Spark's ids, which no two columns of a plan share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

# A column may be passed on under several names; of the many combinations for a wide key a few are enough.
MAX_NAMINGS = 16
OTHER_STREAM = ""
"""Stands for a stream that is none of the job's inputs."""


@dataclass(frozen=True, slots=True)
class Key:
    """Rows with equal `columns` are in the key group that `function` gives for them."""

    function: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows with columns. `inputs` are the inputs it streams from, none for a static one.

    `columns` are its columns in order, None when they cannot be seen.
    """

    inputs: frozenset[str] = frozenset()
    keys: frozenset[Key] = frozenset()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """An operator that keeps state over `inputs`. `colocated`: rows that must meet are in one key group.

    `by` are the plain columns that rows must share to meet; empty when all rows meet. `begins_full`: the state begins
    with rows of a table, which every task would take whole.
    """

    operation: str
    inputs: frozenset[str]
    by: tuple[str, ...]
    colocated: bool
    begins_full: bool = False


Equal = Callable[[str, str], bool]


def renamed(relation: Relation, columns: tuple[str, ...]) -> Relation:
    """The relation with new columns, by position; its keys are lost when its own columns are not known or repeated."""
    old = relation.columns
    if old is None or len(columns) != len(set(old)) or len(columns) != len(old):
        return Relation(relation.inputs, frozenset(), columns)
    new = dict(zip(old, columns, strict=True))
    keys = (Key(key.function, tuple(new[column] for column in key.columns)) for key in relation.keys)
    return Relation(relation.inputs, frozenset(keys), columns)


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


def keys_within(relation: Relation, covers: Callable[[str], bool]) -> frozenset[Key]:
    """The keys all of whose columns are among those that `covers` accepts."""
    return frozenset(key for key in relation.keys if all(covers(column) for column in key.columns))


def projected(keys: Iterable[Key], passed: Mapping[str, Sequence[str]]) -> frozenset[Key]:
    """The keys whose columns are all passed on unchanged; `passed` has the columns that each is passed on as."""
    found = {key: product(*(passed.get(column, ()) for column in key.columns)) for key in keys}
    return frozenset(Key(key.function, columns) for key, each in found.items() for columns in islice(each, MAX_NAMINGS))


def united(left: Relation, right: Relation) -> Relation:
    """UNION ALL: columns by position, as those of the left. A static side is in every task, so it has no keys."""
    columns = left.columns
    aligned = renamed(right, columns) if columns is not None else Relation(right.inputs)
    return Relation(left.inputs | right.inputs, left.keys & aligned.keys, columns)
