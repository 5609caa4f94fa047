"""The layers of the cell: rows, so that adding one needs no code."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.model.jobs import LayerRow
from penstock.store.rows import columns, read_all

_ALL = text(f"SELECT {columns(LayerRow)} FROM layers ORDER BY rank")
_ADD = text(
    """
    INSERT INTO layers (name, rank, default_expiry_seconds, documentation)
    VALUES (:name, :rank, :default_expiry_seconds, :documentation) ON CONFLICT DO NOTHING
    """
)


def all_layers(connection: Connection) -> dict[str, LayerRow]:
    """Every layer by name, lowest rank first."""
    return {row.name: row for row in read_all(connection, LayerRow, _ALL)}


def add(connection: Connection, row: LayerRow) -> None:
    """Adds a layer. Raises Conflict when its name or its rank is taken."""
    if connection.execute(_ADD, asdict(row)).rowcount == 0:
        raise Conflict("a layer of this name or of this rank exists already", field="name", rule="unique")
