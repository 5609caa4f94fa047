"""The relations that a SQL query reads by name: none but the job's inputs and tables, and its own CTEs.

This needs no Spark, and Spark does not decide it: a query may name any file, such as parquet.`/etc/passwd`, and Spark
would read it. The walk follows Spark's scoping. A CTE hides an input or table of the same name, and is seen by what
comes after it in its WITH, by the query below, and by that query's subqueries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from penstock.config.problems import Problem
from penstock.config.sql import sql_problem
from penstock.control.texts import Guesses

_MOST_NESTED = 400
"""So many SELECTs may nest. Spark's parser and analysis go down into them by recursion."""


class _Place(NamedTuple):
    """A node of the tree, with the names that it may read and how many queries are around it."""

    node: exp.Expr
    names: frozenset[str]
    depth: int


def name_problems(query: exp.Query, names: frozenset[str]) -> Iterator[Problem]:
    """Why the query reads something else than `names` (lower case) and its own CTEs.

    Rules: `unknown_relation`; `unsupported_sql` for a recursive WITH, whose names are not followed; `sql_too_deep`.
    """
    places, guesses = [_Place(query, names, 0)], Guesses()
    while places:
        place = places.pop()
        if place.depth > _MOST_NESTED:
            yield sql_problem("sql_too_deep", " is nested too deeply")
            return
        problem = _problem(place, guesses)
        if problem is not None:
            yield problem
        places += _below(place)


def _problem(place: _Place, guesses: Guesses) -> Problem | None:
    node = place.node
    if isinstance(node, exp.With) and node.args.get("recursive"):
        return sql_problem("unsupported_sql", ": a stream cannot be read recursively")
    if isinstance(node, exp.Table) and not _is_known(node, place.names):
        return sql_problem(
            "unknown_relation", f" reads {node.sql(dialect='spark')}{_remedy(node, place.names, guesses)}"
        )
    return None


def _remedy(table: exp.Table, names: frozenset[str], guesses: Guesses) -> str:
    if isinstance(table.this, exp.Anonymous) and table.this.name.lower() == "identifier":
        return f": write the name itself in place of IDENTIFIER(...); {guesses.likely(_named_by(table.this), names)}"
    return f", which is neither an input, a table of the job nor a CTE: {guesses.likely(table.name, names)}"


def _named_by(call: exp.Anonymous) -> str:
    """The name that a call of IDENTIFIER gives as a text; empty for another argument."""
    literal = call.expressions[0] if call.expressions else None
    return literal.name if isinstance(literal, exp.Literal) else ""


def _below(place: _Place) -> Iterator[_Place]:
    """The children with the names that each may read. The tables in a hint are aliases of the query."""
    node, names, depth = place
    depth += isinstance(node, exp.Query)
    if isinstance(node, exp.With):
        for cte in node.expressions:
            yield _Place(cte, names, depth)
            names |= {cte.alias.lower()}
        return
    clause = node.args.get("with_")
    if clause is not None:
        yield _Place(clause, names, depth)
        names |= {cte.alias.lower() for cte in clause.expressions}
    for child in node.iter_expressions():
        if child is not clause and not isinstance(child, exp.Hint):
            yield _Place(child, names, depth)


def _is_known(table: exp.Table, names: frozenset[str]) -> bool:
    """Whether it is one plain name of these: no `catalog.name`, and no function such as range(10)."""
    return isinstance(table.this, exp.Identifier) and not table.db and table.name.lower() in names
