"""Alerts: one open row for each kind and subject. Raising an open alert again only counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.postgresql import insert

from penstock.store.tables import alerts


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One alert; `times` counts how often it was raised, `cleared_at` None while it is open."""

    id: int
    kind: str
    subject: str
    message: str
    details: Mapping[str, Any]
    times: int
    raised_at: datetime
    last_at: datetime
    cleared_at: datetime | None


_ROW = (
    alerts.c.id,
    alerts.c.kind,
    alerts.c.subject,
    alerts.c.message,
    alerts.c.details,
    alerts.c.times,
    alerts.c.raised_at,
    alerts.c.last_at,
    alerts.c.cleared_at,
)


def raise_alert(
    connection: Connection, kind: str, subject: str, message: str, details: Mapping[str, Any] | None = None
) -> int:
    """Opens the alert, or counts one more; its id. `message` is a sentence for people, `details` JSON."""
    row = {"kind": kind, "subject": subject, "message": message, "details": dict(details or {})}
    opened = insert(alerts).values(row)
    again = opened.on_conflict_do_update(
        index_elements=[alerts.c.kind, alerts.c.subject],
        index_where=alerts.c.cleared_at.is_(None),
        set_={
            "times": alerts.c.times + 1,
            "last_at": func.now(),
            "message": opened.excluded.message,
            "details": opened.excluded.details,
        },
    )
    return int(connection.execute(again.returning(alerts.c.id)).scalar_one())


def clear_alert(connection: Connection, kind: str, subject: str) -> bool:
    """Closes the open alert of a (kind, subject); whether there was one."""
    is_open = (alerts.c.kind == kind, alerts.c.subject == subject, alerts.c.cleared_at.is_(None))
    cleared = update(alerts).where(*is_open).values(cleared_at=func.now()).returning(alerts.c.id)
    return connection.execute(cleared).first() is not None


def replace_alerts(
    connection: Connection, kinds: Sequence[str], found: Mapping[tuple[str, str], tuple[str, Mapping[str, Any]]]
) -> None:
    """Makes `found`, from (kind, subject) to message and details, the open alerts of these kinds.

    An open alert with the same message and details is not touched: `times` counts changes, not calls.
    """
    columns = (alerts.c.kind, alerts.c.subject, alerts.c.message, alerts.c.details)
    is_open = (alerts.c.kind.in_(kinds), alerts.c.cleared_at.is_(None))
    known = {
        (row.kind, row.subject): (row.message, row.details)
        for row in connection.execute(select(*columns).where(*is_open))
    }
    for kind, subject in known.keys() - found.keys():
        clear_alert(connection, kind, subject)
    for (kind, subject), (message, details) in found.items():
        if known.get((kind, subject)) != (message, dict(details)):
            raise_alert(connection, kind, subject, message, details)


def page(
    connection: Connection,
    *,
    limit: int,
    before_id: int | None = None,
    include_cleared: bool = False,
    kind: str | None = None,
    subject: str | None = None,
) -> Sequence[AlertRow]:
    """At most `limit` alerts, newest first, from below `before_id`; only open ones unless asked otherwise."""
    statement = select(*_ROW).order_by(alerts.c.id.desc()).limit(limit)
    if before_id is not None:
        statement = statement.where(alerts.c.id < before_id)
    if not include_cleared:
        statement = statement.where(alerts.c.cleared_at.is_(None))
    if kind is not None:
        statement = statement.where(alerts.c.kind == kind)
    if subject is not None:
        statement = statement.where(alerts.c.subject == subject)
    return [AlertRow(*row) for row in connection.execute(statement)]
