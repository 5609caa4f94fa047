"""The append-only history: who wrote what, when and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, exists, select

from penstock.store.tables import history


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One write. `old` and `new` are a layer's configuration before and after; None where it had none."""

    id: int
    job: str
    layer: str | None
    version: int | None
    revision: int
    action: str
    author: str
    reason: str
    at: datetime
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None
    expires_at: datetime | None


_ROW: tuple[Column[Any], ...] = (
    history.c.id,
    history.c.job,
    history.c.layer,
    history.c.version,
    history.c.revision,
    history.c.action,
    history.c.author,
    history.c.reason,
    history.c.at,
    history.c.old,
    history.c.new,
    history.c.expires_at,
)


def page(
    connection: Connection, job: str, *, limit: int, before_id: int | None = None, layer: str | None = None
) -> Sequence[HistoryRow]:
    """At most `limit` rows of a job, newest first, from below `before_id`; of one layer when it is given."""
    statement = select(*_ROW).where(history.c.job == job).order_by(history.c.id.desc()).limit(limit)
    if before_id is not None:
        statement = statement.where(history.c.id < before_id)
    if layer is not None:
        statement = statement.where(history.c.layer == layer)
    return [HistoryRow(*row) for row in connection.execute(statement)]


def is_known(connection: Connection, job: str) -> bool:
    """Whether a job of this name ever existed."""
    return bool(connection.execute(select(exists().where(history.c.job == job))).scalar_one())


def at_version(connection: Connection, job: str, layer: str, version: int) -> HistoryRow | None:
    """The write that gave the layer this version; None when there was none."""
    of_layer = (history.c.job == job, history.c.layer == layer, history.c.version == version)
    row = connection.execute(select(*_ROW).where(*of_layer)).first()
    return None if row is None else HistoryRow(*row)


def as_of(connection: Connection, job: str, layer: str, revision: int) -> HistoryRow | None:
    """The layer's newest write that is no newer than `revision`; None when there was none."""
    of_layer = (history.c.job == job, history.c.layer == layer, history.c.revision <= revision)
    row = connection.execute(select(*_ROW).where(*of_layer).order_by(history.c.version.desc()).limit(1)).first()
    return None if row is None else HistoryRow(*row)
