"""Rows that go by age, a page at a time in order of their ids, which grow with time."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import Connection, TextClause, text

from services.job_service.store.fleet_minutes import purge_minutes
from services.job_service.store.left_outputs import purge_left

_HAS_LATER = """EXISTS (
            SELECT FROM {table} later WHERE later.job = aged.job AND later.id > aged.id {same})"""
_SAME_LAYER = "AND later.layer IS NOT DISTINCT FROM aged.layer"
_OLD_HISTORY = f"aged.at < now() - :age AND {_HAS_LATER.format(table='history', same=_SAME_LAYER)}"


def _page(table: str, at: str, is_old: str) -> TextClause:
    """Reads the next rows and deletes the old ones of them. Rows of a page that is younger end the walk."""
    return text(
        f"""
        WITH page AS (
            SELECT id, {at} AS at FROM {table} WHERE id > :after ORDER BY id LIMIT :most
        ), gone AS (
            DELETE FROM {table} aged USING page WHERE aged.id = page.id AND {is_old} RETURNING aged.id
        )
        SELECT CASE WHEN count(*) = :most AND max(page.at) < now() - :age THEN max(page.id) END AS last,
            (SELECT count(*) FROM gone) AS gone
        FROM page
        """
    )


# The newest decision of a job stays: the Auto Scaler goes on from it.
_DECISIONS = _page("decisions", "at", f"aged.at < now() - :age AND {_HAS_LATER.format(table='decisions', same='')}")
_ALERTS = _page("alerts", "raised_at", "aged.cleared_at < now() - :age")
_HISTORY = _page(
    "history", "at", f"{_OLD_HISTORY} AND EXISTS (SELECT FROM history_archive kept WHERE kept.id = aged.id)"
)
_MOVE_HISTORY = text(
    f"""
    INSERT INTO history_archive
    SELECT aged.* FROM (SELECT id FROM history WHERE id > :after ORDER BY id LIMIT :most) page
        JOIN history aged ON aged.id = page.id
    WHERE {_OLD_HISTORY} ON CONFLICT DO NOTHING
    """
)


class Page(NamedTuple):
    """`last`: the id to go on after; None when all rows that may be old enough were read. `gone`: rows of the page."""

    last: int | None
    gone: int


def purge_decisions(connection: Connection, *, age: timedelta, after: int, most: int) -> Page:
    """Deletes decisions of a page, but not the newest of a job."""
    return _run(connection, _DECISIONS, age, after, most)


def purge_alerts(connection: Connection, *, age: timedelta, after: int, most: int) -> Page:
    """Deletes alerts of a page that were cleared so long ago."""
    return _run(connection, _ALERTS, age, after, most)


def archive_history(connection: Connection, *, age: timedelta, after: int, most: int) -> Page:
    """Moves history of a page to `history_archive`, but not the newest row of a layer of a job: no version is used
    twice, and it stays known that the job existed."""
    connection.execute(_MOVE_HISTORY, {"age": age, "after": after, "most": most})
    return _run(connection, _HISTORY, age, after, most)


def purge_fleet_minutes(connection: Connection, *, age: timedelta, after: int, most: int) -> Page:
    """Deletes minutes of the fleet: all at once, there is one row a minute."""
    del after, most
    return Page(None, purge_minutes(connection, age))


def purge_left_outputs(connection: Connection, *, age: timedelta, after: int, most: int) -> Page:
    """Deletes rows of a page at whose places no job writes or reads any more. `after`: how many rows stay before it."""
    read, gone = purge_left(connection, age, after, most)
    return Page(after + read - gone if read == most else None, gone)


def _run(connection: Connection, statement: TextClause, age: timedelta, after: int, most: int) -> Page:
    return Page(*connection.execute(statement, {"age": age, "after": after, "most": most}).one())
