"""Reports of containers, for those who delete rows of `tasks` that a container has reported."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, text

# Before the rows of `tasks`, as a report does it, and in order of name: two transactions lock both in the same order.
_WANT_FULL = text(
    """
    WITH held AS (
        SELECT container FROM reports WHERE container = ANY(:containers)
            OR container IN (SELECT container FROM tasks WHERE job = ANY(:jobs))
        ORDER BY container FOR NO KEY UPDATE
    )
    UPDATE reports SET base = NULL FROM held WHERE reports.container = held.container
    """
)


def want_full_reports(
    connection: Connection, *, containers: Collection[str] = (), of_jobs: Collection[str] = ()
) -> None:
    """Has these containers, and those that report a task of these jobs, report everything next: changes to a report of
    which rows are deleted would leave out what still runs."""
    connection.execute(_WANT_FULL, {"containers": list(containers), "jobs": list(of_jobs)})
