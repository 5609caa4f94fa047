"""Samples of all tasks, once a minute, and what goes by age: parts of `task_metrics`, loads, crashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields

from psycopg import Cursor, OperationalError, errors
from sqlalchemy import Connection, Engine, text

from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.store.engine import transaction
from services.task_service.samples import sample
from services.task_service.store.reports import purge_crashes, purge_loads
from services.task_service.store.rows import ReportedTask, TaskSample

log = logger(__name__)
DAYS_AHEAD = 7
Errors = Mapping[tuple[str, int], Mapping[str, int]]
"""How often a task ended by itself, by class."""
_PAGE = 5_000
# Two processes that ask at the same time ask one after the other, and the second finds the minute set. A minute far
# ahead is of a clock that was wrong, and holds nobody up.
_CLAIM = text(
    """
    UPDATE sampled SET minute = present.minute FROM date_trunc('minute', clock_timestamp()) AS present (minute)
    WHERE sampled.minute NOT BETWEEN present.minute AND present.minute + interval '5 minutes'
    RETURNING sampled.minute
    """
)
# Of a task that two containers report (it moves) the newer assignment counts. A container that has not been heard for a
# minute says nothing about this one. Loads are reported every ten minutes. Tasks that a rollout has not upgraded report
# the revision before it; as JSON a number that another version wrote fails no cast.
_TASKS = text(
    """
    SELECT page.job, page.index, page.state, page.out_of_memory,
        CASE WHEN jsonb_typeof(page.progress) = 'object'
            THEN CAST(page.progress - CAST(:others AS text[]) AS text) END,
        page.crashes, running.config->'task_count',
        to_jsonb(page.revision) >= CASE
            WHEN running.rollout->'revision' = to_jsonb(running.revision)
                AND to_jsonb(page.index) >= running.rollout->'upgraded' THEN running.rollout->'before'->'revision'
            ELSE to_jsonb(running.revision) END,
        loads.load->'cpu_cores', loads.load->'memory_bytes'
    FROM (
        SELECT DISTINCT ON (tasks.job, tasks.index) tasks.job, tasks.index, tasks.state, tasks.out_of_memory,
            tasks.progress, tasks.crashes, tasks.generation, tasks.revision
        FROM tasks JOIN reports ON reports.container = tasks.container
            AND reports.reported_at > clock_timestamp() - interval '1 minute'
        WHERE (tasks.job, tasks.index) > (:job, :index)
        ORDER BY tasks.job, tasks.index, tasks.epoch DESC LIMIT :most
    ) AS page
        LEFT JOIN running ON running.job = page.job
        LEFT JOIN task_loads AS loads ON loads.job = page.job AND loads.index = page.index
            AND loads.generation = page.generation AND loads.measured_at > clock_timestamp() - interval '30 minutes'
    ORDER BY page.job, page.index
    """
)
# They are counted once. What a report counts meanwhile is of the next minute, and what it holds is left to it.
_TAKE_ERRORS = text(
    """
    DELETE FROM unsampled_errors USING (
        SELECT job, index, class FROM unsampled_errors ORDER BY job, index, class FOR UPDATE SKIP LOCKED
    ) AS free
    WHERE (unsampled_errors.job, unsampled_errors.index, unsampled_errors.class) = (free.job, free.index, free.class)
    RETURNING unsampled_errors.job, unsampled_errors.index, unsampled_errors.class, unsampled_errors.count
    """
)
_NO_MEASUREMENTS = ["offsets", "key_group_rates", "input_problems", "phase_seconds"]
_COLUMNS = ", ".join(field.name for field in fields(TaskSample))
_COPY = f"COPY task_metrics ({_COLUMNS}, minute) FROM STDIN".encode()

_ADD_DAYS = text("SELECT add_sample_days(:ahead)")
_DROP_OLDEST = text("SELECT drop_oldest_samples(:days)")
_OLDEST_IS_ROLLED = text("SELECT (SELECT min(ends) FROM sample_parts) <= (SELECT hour FROM rolled)")
_KEEP_FORMER = text("SELECT keep_former_samples()")


class SampleStore:
    """The job store for the sampler. Every call raises Unavailable and StatementTimedOut."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take(self) -> int | None:
        """Stores the samples of this minute; how many. None when they were taken before, by any process.

        A Task Service of the release before writes samples too. If it has written one of this minute, these are not
        stored.
        """
        try:
            with transaction(self._engine) as connection:
                minute = connection.execute(_CLAIM).scalar_one_or_none()
                if minute is None:
                    return None
                errors_by_task = _take_errors(connection)
                return sum(_copy(connection, page, minute) for page in _pages(connection, errors_by_task))
        except errors.UniqueViolation:
            log.warning("samples not stored: a Task Service of another release stores them")
            return None
        except OperationalError as error:
            raise Unavailable(f"the job store did not take the samples: {error}") from error

    def add_days(self) -> None:
        """Makes room for the samples of today and of the days after it."""
        with transaction(self._engine) as connection:
            bound_locks(connection)
            connection.execute(_ADD_DAYS, {"ahead": DAYS_AHEAD})

    def drop_oldest(self, keep_days: int, *, unrolled_days: int) -> str | None:
        """Drops the oldest day, if all of it is older than `keep_days` and rolled into hours of jobs. One that is not
        rolled stays for `unrolled_days`. The day's table; None when there was none."""
        with transaction(self._engine) as connection:
            bound_locks(connection)
            is_rolled = connection.execute(_OLDEST_IS_ROLLED).scalar_one()
            days = keep_days if is_rolled else max(keep_days, unrolled_days)
            dropped: str | None = connection.execute(_DROP_OLDEST, {"days": days}).scalar_one()
            return dropped

    def keep_former(self) -> bool:
        """Makes the samples of releases before parts had days readable; whether it did. May take long, once."""
        with transaction(self._engine) as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            bound_locks(connection)
            return bool(connection.execute(_KEEP_FORMER).scalar_one())

    def purge(self, keep_days: int) -> int:
        """Deletes some loads that are older than `keep_days`, and some old crashes; how many. 0: none are left."""
        with transaction(self._engine) as connection:
            return purge_loads(connection, keep_days=keep_days) + purge_crashes(connection)


def bound_locks(connection: Connection) -> None:
    """Who waits for a lock on a table holds up all who come after."""
    connection.execute(text("SET LOCAL lock_timeout = '1s'"))


def _take_errors(connection: Connection) -> Errors:
    """Those of a task that nobody reports any more are not counted."""
    found: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for job, index, error_class, count in connection.execute(_TAKE_ERRORS).all():
        found[job, index][error_class] = count
    return found


def _pages(connection: Connection, errors_by_task: Errors) -> Iterator[Sequence[TaskSample]]:
    after = {"job": "", "index": -1}
    while True:
        rows = connection.execute(_TASKS, {**after, "others": _NO_MEASUREMENTS, "most": _PAGE}).all()
        reported = [ReportedTask(*row) for row in rows]
        yield [sample(one._replace(errors=errors_by_task.get((one.job, one.number), {}))) for one in reported]
        if len(rows) < _PAGE:
            return
        after = {"job": rows[-1].job, "index": rows[-1].index}


def _copy(connection: Connection, samples: Sequence[TaskSample], minute: object) -> int:
    cursor = connection.connection.cursor()
    assert isinstance(cursor, Cursor)
    with cursor, cursor.copy(_COPY) as copy:
        for each in samples:
            copy.write_row((*astuple(each), minute))
    return len(samples)
