"""Alerts: one open row for each kind and subject. Raising an open alert again only counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

from penstock.control.texts import clean, cleaned
from penstock.model.alerts import AlertKind
from penstock.store.json import as_jsonb

_RAISE = text(
    """
    INSERT INTO alerts AS held (kind, subject, message, details) VALUES (:kind, :subject, :message, :details)
    ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO UPDATE SET
        message = excluded.message, details = excluded.details, times = held.times + 1, last_at = now()
    """
)
_CLEAR = text(
    """
    UPDATE alerts SET cleared_at = now()
    WHERE kind = :kind AND subject = ANY(:subjects) AND cleared_at IS NULL
    """
)
_OPEN = text("SELECT kind, subject, message, details FROM alerts WHERE kind = ANY(:kinds) AND cleared_at IS NULL")


def raise_alert(
    connection: Connection, kind: AlertKind, subject: str, message: str, details: Mapping[str, Any] | None = None
) -> None:
    """Opens the alert, or counts one more. `message` is a sentence for people, `details` JSON."""
    row = {
        "kind": kind.value,
        "subject": clean(subject),
        "message": clean(message),
        "details": as_jsonb(dict(details or {})),
    }
    connection.execute(_RAISE, row)


def clear_alerts(connection: Connection, kind: AlertKind, subjects: Collection[str]) -> None:
    """Closes the open alerts of a kind about these subjects."""
    if subjects:
        connection.execute(_CLEAR, {"kind": kind.value, "subjects": list(subjects)})


def open_subjects(connection: Connection, kind: AlertKind) -> set[str]:
    """What the open alerts of a kind are about."""
    return {row.subject for row in connection.execute(_OPEN, {"kinds": [kind.value]})}


def replace_alerts(
    connection: Connection,
    kinds: Sequence[AlertKind],
    found: Mapping[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]],
    *,
    keep: Collection[str] = (),
    refresh: bool = False,
) -> None:
    """Makes `found`, from (kind, subject) to message and details, the open alerts of these kinds.

    Open alerts about the subjects to `keep` stay. An alert that is open already is left alone; with `refresh` it is
    raised again if its message or its details changed, so `times` counts changes, not calls.
    """
    known = {
        (AlertKind(row.kind), row.subject): (row.message, row.details)
        for row in connection.execute(_OPEN, {"kinds": [kind.value for kind in kinds]})
    }
    found = {
        (kind, clean(subject)): (clean(message), cleaned(details))
        for (kind, subject), (message, details) in found.items()
    }
    for kind, subject in sorted(known.keys() - found.keys()):
        if subject not in keep:
            clear_alerts(connection, kind, [subject])
    for (kind, subject), (message, details) in sorted(found.items(), key=lambda item: item[0]):
        if (kind, subject) not in known or (refresh and known[kind, subject] != (message, details)):
            raise_alert(connection, kind, subject, message, details)
