"""The append-only history: who wrote what, when and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, exists, select

from penstock.store.tables import history
from penstock.wire.jobs import HistoryEntry

_ROW: tuple[Column[Any], ...] = tuple(history.c[name] for name in HistoryEntry.model_fields)


def page(
    connection: Connection, job: str, *, limit: int, before_id: int | None = None, layer: str | None = None
) -> Sequence[HistoryEntry]:
    """At most `limit` rows of a job, newest first, from below `before_id`; of one layer when it is given."""
    statement = select(*_ROW).where(history.c.job == job).order_by(history.c.id.desc()).limit(limit)
    if before_id is not None:
        statement = statement.where(history.c.id < before_id)
    if layer is not None:
        statement = statement.where(history.c.layer == layer)
    return [HistoryEntry(**row._mapping) for row in connection.execute(statement)]


def is_known(connection: Connection, job: str) -> bool:
    """Whether a job of this name ever existed."""
    return bool(connection.execute(select(exists().where(history.c.job == job))).scalar_one())


def at_version(connection: Connection, job: str, layer: str, version: int) -> HistoryEntry | None:
    """The write that gave the layer this version; None when there was none."""
    of_layer = (history.c.job == job, history.c.layer == layer, history.c.version == version)
    row = connection.execute(select(*_ROW).where(*of_layer)).first()
    return None if row is None else HistoryEntry(**row._mapping)


def as_of(connection: Connection, job: str, layer: str, revision: int) -> HistoryEntry | None:
    """The layer's newest write that is no newer than `revision`; None when there was none."""
    of_layer = (history.c.job == job, history.c.layer == layer, history.c.revision <= revision)
    row = connection.execute(select(*_ROW).where(*of_layer).order_by(history.c.version.desc()).limit(1)).first()
    return None if row is None else HistoryEntry(**row._mapping)
