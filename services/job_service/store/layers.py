"""The layers of the cell: rows, so that adding one needs no code."""

from __future__ import annotations

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from penstock.control.errors import Conflict
from penstock.model.jobs import LayerRow
from penstock.store.tables import layers

_COLUMNS = (layers.c.name, layers.c.rank, layers.c.default_expiry_seconds, layers.c.documentation)


def all_layers(connection: Connection) -> dict[str, LayerRow]:
    """Every layer by name, lowest rank first."""
    rows = connection.execute(select(*_COLUMNS).order_by(layers.c.rank))
    return {row.name: LayerRow(*row) for row in rows}


def add(connection: Connection, row: LayerRow) -> None:
    """Adds a layer. Raises Conflict when its name or its rank is taken."""
    statement = insert(layers).values(
        name=row.name,
        rank=row.rank,
        default_expiry_seconds=row.default_expiry_seconds,
        documentation=row.documentation,
    )
    added = connection.execute(statement.on_conflict_do_nothing().returning(layers.c.name)).first()
    if added is None:
        raise Conflict("a layer of this name or of this rank exists already", field="name", rule="unique")
