"""Rows of the store as values of a type whose fields have the names of the columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, TextClause, text

Kind = TypeVar("Kind")
_MOST_BUFFERED = 25


class ByNames:
    """A statement about the rows of some names. `{names}` in it stands for the condition, as in `WHERE job {names}`.

    For one name, which is by far the most frequent, the condition is an equality: Postgres then keeps its plan. For a
    list it would plan anew each time, which takes as long as the statement.
    """

    def __init__(self, statement: str) -> None:
        self._one = text(statement.format(names="= :name"))
        self._many = text(statement.format(names="= ANY(:names)"))

    def execute(self, connection: Connection, names: Sequence[str]) -> Sequence[Row[Any]]:
        """All rows. At least one name must be given."""
        if len(names) == 1:
            return connection.execute(self._one, {"name": names[0]}).all()
        return connection.execute(self._many, {"names": list(names)}).all()


def columns(kind: type[Any]) -> str:
    """The fields of a type (dataclass, named tuple or model) as the columns of a SELECT."""
    return ", ".join(signature(kind).parameters)


def columns_but_first(kind: type[Any]) -> str:
    """Those after the first, which is the name of the rest."""
    return columns(kind).partition(", ")[2]


def read_all(
    connection: Connection, kind: type[Kind], statement: TextClause, values: Mapping[str, Any] | None = None
) -> list[Kind]:
    """All rows of a statement."""
    return [kind(**row._mapping) for row in connection.execute(statement, values)]


def stream_rows(
    connection: Connection, kind: type[Kind], statement: TextClause, values: Mapping[str, Any]
) -> Iterator[Kind]:
    """The rows of a statement, of which only some are in memory: first one, then up to `_MOST_BUFFERED`. For rows whose
    size is not known; whoever has enough stops."""
    with connection.execution_options(stream_results=True, max_row_buffer=_MOST_BUFFERED).execute(
        statement, values
    ) as result:
        for row in result:
            yield kind(**row._mapping)


def read_first(
    connection: Connection, kind: type[Kind], statement: TextClause, values: Mapping[str, Any] | None = None
) -> Kind | None:
    """The first row of a statement; None when it has none."""
    row = connection.execute(statement, values).first()
    return None if row is None else kind(**row._mapping)


def read_page(
    connection: Connection,
    kind: type[Kind],
    table: str,
    where: Mapping[str, Any],
    *,
    key: str,
    limit: int,
    below: int | None,
) -> list[Kind]:
    """At most `limit` rows of a table, the highest `key` first, from below `below` (None: from the top).

    `where`: the values that columns must have; one that is None does not count. All names come from the code, never
    from a request.
    """
    return read_all(connection, kind, *page_query(kind, table, where, key=key, limit=limit, below=below))


def page_query(
    kind: type[Any], table: str, where: Mapping[str, Any], *, key: str, limit: int, below: int | None
) -> tuple[TextClause, dict[str, Any]]:
    """The statement of `read_page`, with its values."""
    values = {name: value for name, value in where.items() if value is not None}
    conditions = [f"{name} = :{name}" for name in values]
    if below is not None:
        conditions.append(f"{key} < :below")
    wanted = f"SELECT {columns(kind)} FROM {table} WHERE {' AND '.join(conditions) or 'true'}"
    statement = text(f"{wanted} ORDER BY {key} DESC LIMIT :limit")
    return statement, {**values, "below": below, "limit": limit}
