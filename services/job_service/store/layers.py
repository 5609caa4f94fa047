"""The layers of the cell: rows, so that adding one needs no code.

A write shares the layers, a change of them has them alone: so no write is merged by ranks that change under it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

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
_CHANGE = text(
    """
    UPDATE layers SET rank = :rank, default_expiry_seconds = :default_expiry_seconds, documentation = :documentation
    WHERE name = :name
    """
)
_FORGET_DROPPED = text("DELETE FROM expected_layers WHERE layer = :name AND config IS NULL")
_REMOVE = text("DELETE FROM layers WHERE name = :name")
_USERS = text(
    """
    SELECT job FROM expected_layers WHERE layer = :name AND config IS NOT NULL
        AND (CAST(:besides AS text[]) IS NULL OR job IN (
            SELECT other.job FROM expected_layers other WHERE other.layer = ANY(:besides) AND other.config IS NOT NULL))
    ORDER BY job LIMIT 100
    """
)
_KEY = 7_311_938_844
SHARED_LAYERS = f"pg_advisory_xact_lock_shared({_KEY})"
"""What `share` does, for a statement that does more."""
_SHARE = text(f"SELECT {SHARED_LAYERS}")
_HOLD = text(f"SELECT pg_advisory_xact_lock({_KEY})")
_LIMIT = text("SET LOCAL lock_timeout = '5s'")


def share(connection: Connection) -> None:
    """Until the transaction ends the layers stay as they are."""
    connection.execute(_SHARE)


def hold(connection: Connection) -> None:
    """Waits for the writes that are under way; until the transaction ends no other begins. Raises Conflict when they
    take longer than 5 s."""
    connection.execute(_LIMIT)
    try:
        connection.execute(_HOLD)
    except OperationalError as error:
        if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise
        raise Conflict(
            "nothing is changed: writes of jobs were under way for 5 s. Try again",
            field="layer",
            rule="writes_under_way",
        ) from error


def all_layers(connection: Connection) -> dict[str, LayerRow]:
    """Every layer by name, lowest rank first."""
    return {row.name: row for row in read_all(connection, LayerRow, _ALL)}


def add(connection: Connection, row: LayerRow) -> None:
    """Adds a layer. Raises Conflict when its name or its rank is taken."""
    if connection.execute(_ADD, asdict(row)).rowcount == 0:
        raise Conflict("a layer of this name or of this rank exists already", field="name", rule="unique")


def change(connection: Connection, row: LayerRow) -> None:
    """Gives a layer this rank, expiry and documentation. The caller holds the layers and has checked the rank."""
    connection.execute(_CHANGE, asdict(row))


def users(connection: Connection, name: str, *, besides: Collection[str] | None = None) -> list[str]:
    """The first jobs by name that have something in the layer; with `besides`, also in one of those layers."""
    given = {"name": name, "besides": None if besides is None else list(besides)}
    return list(connection.execute(_USERS, given).scalars())


def remove(connection: Connection, name: str) -> None:
    """Removes a layer that no job uses. Its versions go on in the history, if a layer of this name comes again."""
    connection.execute(_FORGET_DROPPED, {"name": name})
    connection.execute(_REMOVE, {"name": name})
