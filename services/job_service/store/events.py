"""The history of all jobs in the order of its numbers, for those that follow it.

A row gets its number before its transaction ends, so a greater number may be visible earlier. Every writer of the
history holds one of two counters from before it takes numbers until its transaction ends. So who saw a newest number,
and then waited for each counter in turn, knows that no smaller number comes any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from penstock.store.engine import present_number
from penstock.store.rows import columns, stream_rows
from penstock.store.running import RUNNING_COMMIT
from penstock.wire.jobs import HistoryEntry

COUNTERS = ("revision", RUNNING_COMMIT)
"""Those of the writers. Nobody waits for one of them while it holds the other here, so there is no ring of waits."""
_NEWEST = text("SELECT coalesce(max(id), 0) FROM history")
_AFTER = f"""
    SELECT {columns(HistoryEntry)} FROM history
    WHERE id > :after AND id <= :newest {{and_wanted}} ORDER BY id LIMIT :limit
"""
_IS_ARCHIVED = text("SELECT EXISTS (SELECT FROM history_archive WHERE id > :after)")
_ONE_OF_JOB = """
    SELECT id, revision FROM (
        (SELECT id, revision FROM history WHERE job = :job AND id > :after ORDER BY id {order} LIMIT 1)
        UNION ALL
        (SELECT id, revision FROM history_archive WHERE job = :job AND id > :after ORDER BY id {order} LIMIT 1)
    ) AS found ORDER BY id {order} LIMIT 1
"""
_FIRST_OF_JOB = text(_ONE_OF_JOB.format(order="ASC"))
_LAST_OF_JOB = text(_ONE_OF_JOB.format(order="DESC"))


def newest(connection: Connection) -> int:
    """The greatest number that is visible; 0 without any. A smaller one may still come."""
    return int(connection.execute(_NEWEST).scalar_one())


def await_writers(connection: Connection, counter: str) -> None:
    """Waits until the transactions that hold the counter have ended. For a transaction of its own."""
    present_number(connection, counter, hold=True)


def after(
    connection: Connection, position: int, newest: int, limit: int, *, job: str | None, layer: str | None
) -> Iterator[HistoryEntry]:
    """The oldest entries after `position`, up to `newest`, read as they are asked for. None: of all jobs, layers."""
    wanted = {name: value for name, value in (("job", job), ("layer", layer)) if value is not None}
    statement = text(_AFTER.format(and_wanted="".join(f"AND {name} = :{name} " for name in wanted)))
    return stream_rows(
        connection, HistoryEntry, statement, {"after": position, "newest": newest, "limit": limit, **wanted}
    )


def newest_revision(connection: Connection) -> int:
    """The last revision that was given."""
    return present_number(connection, "revision")


def position_of(connection: Connection, job: str, revision: int) -> int | None:
    """The position after a job's entry with this revision, or else before its first one with a greater revision, also
    of the archive; None: it has neither. A job's revisions grow with the ids of its entries, so the ids are halved:
    each look reads one entry of the index by job and id."""
    found = connection.execute(_LAST_OF_JOB, {"job": job, "after": 0}).first()
    if found is None or found.revision < revision:
        return None
    low, high = 0, found.id - 1
    while low < high:
        middle = (low + high) // 2
        entry = connection.execute(_FIRST_OF_JOB, {"job": job, "after": middle}).one()
        if entry.revision >= revision:
            found, high = entry, middle
        else:
            low = entry.id
    return int(found.id - (found.revision != revision))


def is_archived(connection: Connection, position: int) -> bool:
    """Whether entries after this one were moved to the archive, which no service reads."""
    return bool(connection.execute(_IS_ARCHIVED, {"after": position}).scalar_one())
