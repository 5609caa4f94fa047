"""Notifications: which alerts a target is to be told of, and what was sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from penstock.control.texts import clean
from penstock.store.json import as_json
from services.job_service.notify.messages import FAILING_ATTEMPTS, GIVE_UP, Event, Message

MOST_MESSAGES = 100
_SHOWN_CHARACTERS = 500

_IS_SILENCED = """EXISTS (SELECT FROM silences WHERE silences.expires_at > now()
    AND (silences.kind IS NULL OR silences.kind = alerts.kind) AND alerts.subject LIKE silences.subject_like)"""
_COLUMNS = "alerts.id AS alert, kind, subject, message, raised_at, cleared_at"
# Ends come first: the same alert may have opened again meanwhile.
_DUE = text(
    f"""
    (SELECT {_COLUMNS}, '{Event.RESOLVED}' AS event FROM notified JOIN alerts ON alerts.id = notified.alert
        WHERE target = :target AND alert > :resolved AND resolved_in IS NULL AND cleared_at IS NOT NULL
        ORDER BY alert LIMIT :most)
    UNION ALL
    (SELECT {_COLUMNS}, '{Event.OPENED}' AS event FROM alerts
        WHERE alerts.id > :opened AND cleared_at IS NULL AND raised_at <= clock_timestamp() - CAST(:gather AS interval)
            AND (cardinality(CAST(:kinds AS text[])) = 0 OR kind = ANY(CAST(:kinds AS text[])))
            AND NOT EXISTS (SELECT FROM notified WHERE target = :target AND notified.alert = alerts.id)
            AND NOT {_IS_SILENCED}
        ORDER BY alert LIMIT :most)
    LIMIT :most
    """
)
_RECORD = text("INSERT INTO notifications (target, messages) VALUES (:target, CAST(:messages AS jsonb)) RETURNING id")
_OPENED = text(
    """
    INSERT INTO notified (target, alert, opened_in)
    SELECT :target, alert, :id FROM unnest(CAST(:alerts AS bigint[])) AS alert
    """
)
_RESOLVED = text("UPDATE notified SET resolved_in = :id WHERE target = :target AND alert = ANY(:alerts)")
# Of a message that ended without being taken: an alert in it that is open is recorded again, and so is an end.
_UNTELL_OPENED = text("DELETE FROM notified WHERE target = :target AND opened_in = ANY(:ids)")
_UNTELL_RESOLVED = text("UPDATE notified SET resolved_in = NULL WHERE target = :target AND resolved_in = ANY(:ids)")
_NEXT = text(
    """
    SELECT id, messages, attempts, next_attempt_at <= clock_timestamp() AS is_due FROM notifications
    WHERE target = :target AND ended_at IS NULL ORDER BY id LIMIT 1
    """
)
_DELIVERED = text("UPDATE notifications SET ended_at = clock_timestamp(), error = NULL WHERE id = :id")
# The last attempt of one that is too old.
_FAILED = text(
    """
    UPDATE notifications SET attempts = attempts + 1, error = :error,
        next_attempt_at = clock_timestamp() + make_interval(secs => :seconds),
        ended_at = CASE WHEN created_at < clock_timestamp() - CAST(:give_up AS interval) THEN clock_timestamp() END
    WHERE id = :id RETURNING ended_at IS NOT NULL AS is_over, target
    """
)
_FORGET = text(
    """
    UPDATE notifications SET ended_at = now(), error = 'the target is gone'
    WHERE ended_at IS NULL AND target <> ALL(:targets) RETURNING id, target
    """
)
_FAILING = text(
    """
    SELECT target, max(attempts) AS attempts, min(error) AS error, sum(jsonb_array_length(messages)) AS alerts
    FROM notifications WHERE ended_at IS NULL GROUP BY target HAVING max(attempts) >= :attempts ORDER BY target
    """
)
_PURGE = text(
    """
    DELETE FROM notifications WHERE id IN (
        SELECT id FROM notifications WHERE ended_at < now() - CAST(:age AS interval) ORDER BY ended_at LIMIT :most)
    """
)


class Notification(NamedTuple):
    """The oldest message to a target that is not sent yet. `is_due` false: it waits after a failed attempt."""

    id: int
    messages: tuple[Message, ...]
    attempts: int
    is_due: bool


class Failing(NamedTuple):
    """A target that does not take its messages."""

    target: str
    attempts: int
    error: str
    alerts: int


class After(NamedTuple):
    """The alerts that were looked at, in the order of their numbers: up to these, ends and open ones."""

    resolved: int = 0
    opened: int = 0


def record_due(
    connection: Connection, target: str, kinds: Sequence[str], gather: timedelta, after: After
) -> After | None:
    """Records one message with alerts that the target is not told of yet, the first `MOST_MESSAGES` of those `after`.

    Returns after which others may follow; None: there are no more. An alert that ended before it was `gather` old, or
    that a silence leaves out, is in no message.
    """
    asked = {"target": target, "kinds": list(kinds), "gather": gather, "most": MOST_MESSAGES, **after._asdict()}
    rows = connection.execute(_DUE, asked).mappings()
    found = [Message(**{**row, "event": Event(row["event"])}) for row in rows]
    if found:
        messages = as_json([message.as_json() for message in found])
        number = connection.execute(_RECORD, {"target": target, "messages": messages}).scalar_one()
        for event, statement in ((Event.OPENED, _OPENED), (Event.RESOLVED, _RESOLVED)):
            alerts = [message.alert for message in found if message.event is event]
            if alerts:
                connection.execute(statement, {"target": target, "id": number, "alerts": alerts})
    if len(found) < MOST_MESSAGES:
        return None
    last = {event: max((each.alert for each in found if each.event is event), default=0) for event in Event}
    return After(max(after.resolved, last[Event.RESOLVED]), max(after.opened, last[Event.OPENED]))


def next_open(connection: Connection, target: str) -> Notification | None:
    """The oldest message that is not sent; None when all are."""
    row = connection.execute(_NEXT, {"target": target}).one_or_none()
    if row is None:
        return None
    return Notification(row.id, tuple(Message.of_json(each) for each in row.messages), row.attempts, row.is_due)


def note_delivered(connection: Connection, number: int) -> None:
    """The target has taken it."""
    connection.execute(_DELIVERED, {"id": number})


def note_failed(connection: Connection, number: int, error: str, seconds: float) -> bool:
    """The next attempt comes in so many seconds; or never, when it is too old: then True, and its alerts count as not
    told."""
    row: dict[str, Any] = {"id": number, "error": clean(error)[:_SHOWN_CHARACTERS], "seconds": seconds}
    found = connection.execute(_FAILED, row | {"give_up": GIVE_UP}).one()
    if found.is_over:
        _untell(connection, found.target, [number])
    return bool(found.is_over)


def forget_others(connection: Connection, targets: Collection[str]) -> None:
    """Ends messages to targets that are no longer there. One that comes back is told of what is open then."""
    ended: dict[str, list[int]] = {}
    for number, target in connection.execute(_FORGET, {"targets": list(targets)}):
        ended.setdefault(target, []).append(number)
    for target, numbers in ended.items():
        _untell(connection, target, numbers)


def _untell(connection: Connection, target: str, messages: list[int]) -> None:
    for statement in (_UNTELL_OPENED, _UNTELL_RESOLVED):
        connection.execute(statement, {"target": target, "ids": messages})


def failing_targets(connection: Connection) -> list[Failing]:
    """The targets that refused `FAILING_ATTEMPTS` times in a row."""
    return [Failing(*row) for row in connection.execute(_FAILING, {"attempts": FAILING_ATTEMPTS})]


def purge_notifications(connection: Connection, age: timedelta, most: int) -> int:
    """Deletes messages that ended so long ago; how many."""
    return connection.execute(_PURGE, {"age": age, "most": most}).rowcount
