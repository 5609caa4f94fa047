"""Acknowledgements of alerts, and silences."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.store.rows import columns, read_first, read_page
from penstock.wire.alerts import SilenceView, SilenceWrite
from penstock.wire.overview import AlertRow
from services.job_service.store.overview import alerts_page

_ACKNOWLEDGE = text(
    """
    UPDATE alerts SET acknowledged_by = :author, acknowledged_reason = :reason, acknowledged_at = clock_timestamp(),
        acknowledged_until = clock_timestamp() + make_interval(secs => CAST(:seconds AS double precision))
    WHERE id = :id AND cleared_at IS NULL
    """
)
_END_ACKNOWLEDGEMENT = text(
    """
    UPDATE alerts SET acknowledged_by = NULL, acknowledged_reason = NULL, acknowledged_at = NULL,
        acknowledged_until = NULL
    WHERE id = :id AND acknowledged_at IS NOT NULL
    """
)
_SILENCE = text(
    f"""
    INSERT INTO silences (kind, subject, subject_like, author, reason, expires_at)
    VALUES (:kind, :subject, :subject_like, :author, :reason, clock_timestamp() + make_interval(secs => :seconds))
    RETURNING {columns(SilenceView)}
    """
)
_END = text("UPDATE silences SET expires_at = clock_timestamp() WHERE id = :id AND expires_at > clock_timestamp()")
_ONE = text(f"SELECT {columns(SilenceView)} FROM silences WHERE id = :id")


def alert(connection: Connection, number: int) -> AlertRow | None:
    """One alert, whether open or not; None when there is none."""
    return next(iter(alerts_page(connection, limit=1, include_cleared=True, include_silenced=True, id=number)), None)


def acknowledge(connection: Connection, number: int, *, author: str, reason: str, seconds: int | None) -> bool:
    """Says that somebody works on an alert; False when it is not open. `seconds` None: until it closes."""
    given = {"id": number, "author": author, "reason": reason, "seconds": seconds}
    return connection.execute(_ACKNOWLEDGE, given).rowcount > 0


def end_acknowledgement(connection: Connection, number: int) -> bool:
    """Whether there was one to end."""
    return connection.execute(_END_ACKNOWLEDGEMENT, {"id": number}).rowcount > 0


def silences_page(
    connection: Connection, *, limit: int, before_id: int | None, include_ended: bool
) -> list[SilenceView]:
    """At most `limit` silences, newest first, from below `before_id`; only those that go on, unless asked otherwise."""
    table = "silences" if include_ended else "(SELECT * FROM silences WHERE expires_at > clock_timestamp()) AS current"
    return read_page(connection, SilenceView, table, {}, key="id", limit=limit, below=before_id)


def silence(connection: Connection, asked: SilenceWrite, author: str) -> SilenceView:
    """Adds a silence that begins now."""
    row = {
        "kind": None if asked.kind is None else asked.kind.value,
        "subject": asked.subject,
        "subject_like": _like(asked.subject),
        "author": author,
        "reason": asked.reason,
        "seconds": asked.expires_in_seconds,
    }
    return SilenceView.model_validate(connection.execute(_SILENCE, row).one())


def find_silence(connection: Connection, number: int) -> SilenceView | None:
    """One silence, whether it goes on or not."""
    return read_first(connection, SilenceView, _ONE, {"id": number})


def end_silence(connection: Connection, number: int) -> bool:
    """Whether it went on until now."""
    return connection.execute(_END, {"id": number}).rowcount > 0


def _like(pattern: str) -> str:
    """The pattern for LIKE: only `*` is special in `pattern`."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%")
