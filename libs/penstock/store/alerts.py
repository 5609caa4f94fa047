"""Alerts: one open row for each kind and subject. Raising an open alert again only counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

from penstock.control.texts import clean, cleaned
from penstock.model.alerts import AlertKind
from penstock.store.json import as_json

# In order of key, so that two transactions do not lock each other out.
_RAISE = text(
    """
    INSERT INTO alerts AS held (kind, subject, message, details)
    SELECT kind, subject, message, details
    FROM json_to_recordset(CAST(:rows AS json)) AS new(kind text, subject text, message text, details jsonb)
    ORDER BY kind, subject
    ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO UPDATE SET
        message = excluded.message, details = excluded.details, times = held.times + 1, last_at = now()
    """
)
_CLEAR = text(
    """
    WITH ended AS (
        SELECT id FROM alerts WHERE kind = :kind AND subject = ANY(:subjects) AND cleared_at IS NULL
        ORDER BY subject FOR UPDATE
    )
    UPDATE alerts SET cleared_at = now() FROM ended WHERE alerts.id = ended.id
    """
)
_SUBJECTS = text("SELECT subject FROM alerts WHERE kind = :kind AND cleared_at IS NULL")
_RAISED_SINCE = text(f"{_SUBJECTS.text} AND last_at > now() - make_interval(secs => :seconds)")
_OPEN = text(
    """
    SELECT kind, subject, message, details FROM alerts
    WHERE kind = ANY(:kinds) AND cleared_at IS NULL
        AND (CAST(:subjects AS text[]) IS NULL OR subject = ANY(:subjects))
    """
)
Found = Mapping[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]]


def raise_alert(
    connection: Connection, kind: AlertKind, subject: str, message: str, details: Mapping[str, Any] | None = None
) -> None:
    """Opens the alert, or counts one more. `message` is a sentence for people, `details` JSON."""
    raise_alerts(connection, {(kind, subject): (message, details or {})})


def raise_alerts(connection: Connection, found: Found) -> None:
    """As `raise_alert`, for many in one statement."""
    _raise(
        connection,
        {
            (kind, clean(subject)): (clean(message), cleaned(dict(details)))
            for (kind, subject), (message, details) in found.items()
        },
    )


def clear_alerts(connection: Connection, kind: AlertKind, subjects: Collection[str]) -> None:
    """Closes the open alerts of a kind about these subjects."""
    if subjects:
        connection.execute(_CLEAR, {"kind": kind.value, "subjects": list(subjects)})


def open_subjects(connection: Connection, kind: AlertKind) -> set[str]:
    """What the open alerts of a kind are about."""
    return set(connection.execute(_SUBJECTS, {"kind": kind.value}).scalars())


def raised_within(connection: Connection, kind: AlertKind, seconds: float) -> set[str]:
    """What the open alerts of a kind are about that were last raised so many seconds ago or less."""
    return set(connection.execute(_RAISED_SINCE, {"kind": kind.value, "seconds": seconds}).scalars())


def replace_alerts(
    connection: Connection,
    kinds: Sequence[AlertKind],
    found: Found,
    *,
    keep: Collection[str] = (),
    refresh: bool = False,
    only: Collection[str] | None = None,
) -> None:
    """Makes `found`, from (kind, subject) to message and details, the open alerts of these kinds.

    Open alerts about the subjects to `keep` stay; with `only`, so do those about all other subjects. An alert that is
    open already is left alone; with `refresh` it is raised again if its message or its details changed, so `times`
    counts changes, not calls. The number of statements does not grow with the number of alerts.
    """
    subjects = None if only is None else [clean(subject) for subject in only]
    rows = connection.execute(_OPEN, {"kinds": [kind.value for kind in kinds], "subjects": subjects})
    known = {(AlertKind(row.kind), row.subject): (row.message, row.details) for row in rows}
    found = {
        (kind, clean(subject)): (clean(message), cleaned(details))
        for (kind, subject), (message, details) in found.items()
    }
    kept = set(keep)
    for kind in kinds:
        gone = [subject for of, subject in known.keys() - found.keys() if of == kind and subject not in kept]
        clear_alerts(connection, kind, gone)
    changed = {key: new for key, new in found.items() if key not in known or (refresh and known[key] != new)}
    _raise(connection, changed)


def _raise(connection: Connection, found: Found) -> None:
    rows = [
        {"kind": kind.value, "subject": subject, "message": message, "details": details}
        for (kind, subject), (message, details) in found.items()
    ]
    if rows:
        connection.execute(_RAISE, {"rows": as_json(rows)})
