"""Task reports: what runs where, and a sample a task and minute. Each report replaces its container's last one."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sqlalchemy import Connection, select, text
from sqlalchemy.dialects.postgresql import insert

from penstock.control.errors import Conflict
from penstock.store.cluster_tables import containers, reports
from penstock.store.engine import REPORTED_STOP
from penstock.store.loads import purge_loads, save_loads
from penstock.tasks.stored import TaskSample
from penstock.wire.cluster import TaskReport, TaskReportBatch

_WRITE_TASKS = text(
    """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, crashes, error,
        out_of_memory, progress, reported_at)
    SELECT new.job, new.index, :container, new.state, new.revision, new.generation, new.restarts, new.epoch,
        new.crashes, new.error, new.out_of_memory, NULLIF(new.progress, 'null'), clock_timestamp()
    FROM json_to_recordset(CAST(:rows AS json)) AS new(job text, index int, state text, revision bigint,
        generation bigint, restarts int, epoch bigint, crashes int, error text, out_of_memory bool, progress jsonb)
    ON CONFLICT (job, index, container) DO UPDATE SET
        state = excluded.state,
        revision = excluded.revision,
        generation = excluded.generation,
        restarts = excluded.restarts,
        epoch = excluded.epoch,
        crashes = excluded.crashes,
        error = excluded.error,
        out_of_memory = excluded.out_of_memory,
        progress = excluded.progress,
        reported_at = excluded.reported_at
    """
)

_DELETE_UNLISTED = text(
    """
    DELETE FROM tasks WHERE container = :container AND NOT EXISTS (
        SELECT FROM json_to_recordset(CAST(:rows AS json)) AS listed(job text, index int)
        WHERE listed.job = tasks.job AND listed.index = tasks.index)
    """
)

# In order of key, so that two containers that report the same task (it moved) cannot lock each other out.
_WRITE_SAMPLES = text(
    """
    INSERT INTO task_metrics AS held (job, index, minute, input_rows_per_second, processed_rows_per_second,
        input_bytes_per_second, backlog_records, backlog_bytes, lag_seconds, state_rows, state_memory_bytes,
        batch_seconds, out_of_memory)
    SELECT new.job, new.index, date_trunc('minute', clock_timestamp()), new.input_rows_per_second,
        new.processed_rows_per_second, new.input_bytes_per_second, new.backlog_records, new.backlog_bytes,
        new.lag_seconds, new.state_rows, new.state_memory_bytes, new.batch_seconds, new.out_of_memory
    FROM json_to_recordset(CAST(:rows AS json)) AS new(job text, index int, input_rows_per_second double precision,
        processed_rows_per_second double precision, input_bytes_per_second double precision, backlog_records bigint,
        backlog_bytes bigint, lag_seconds double precision, state_rows bigint, state_memory_bytes bigint,
        batch_seconds double precision, out_of_memory bool)
    ORDER BY new.job, new.index
    ON CONFLICT (job, index, minute) DO UPDATE SET
        input_rows_per_second = COALESCE(excluded.input_rows_per_second, held.input_rows_per_second),
        processed_rows_per_second = COALESCE(excluded.processed_rows_per_second, held.processed_rows_per_second),
        input_bytes_per_second = COALESCE(excluded.input_bytes_per_second, held.input_bytes_per_second),
        backlog_records = COALESCE(excluded.backlog_records, held.backlog_records),
        backlog_bytes = COALESCE(excluded.backlog_bytes, held.backlog_bytes),
        lag_seconds = COALESCE(excluded.lag_seconds, held.lag_seconds),
        state_rows = COALESCE(excluded.state_rows, held.state_rows),
        state_memory_bytes = COALESCE(excluded.state_memory_bytes, held.state_memory_bytes),
        batch_seconds = COALESCE(excluded.batch_seconds, held.batch_seconds),
        out_of_memory = excluded.out_of_memory OR held.out_of_memory
    """
)

# Few jobs have a plan at a time, and most of the time none: the answer comes from a small index.
_WAKE_PLANS = text("SELECT pg_notify(:channel, '') WHERE EXISTS (SELECT FROM sync_state WHERE plan IS NOT NULL)")

_PURGE = text("DELETE FROM task_metrics WHERE minute < clock_timestamp() - make_interval(days => :days)")


def save_report(connection: Connection, batch: TaskReportBatch, samples: Sequence[TaskSample]) -> None:
    """Replaces what a container reported last, and its tasks' samples of this minute; keeps the loads that it tells.

    Wakes the listeners of `REPORTED_STOP` when a plan is recorded, and the container knows a newer commit or has fewer
    tasks than before.

    A sample keeps the last *known* value of the minute. Raises Conflict when the container is not registered, or its
    row is of another incarnation: the report is of a life that is over. One of a container that was declared lost is
    taken: it tells what still runs there.
    """
    knew = _commit_before(connection, batch.container, batch.incarnation)
    _save_newest(connection, batch)
    rows = orjson.dumps([_task_row(task) for task in batch.tasks]).decode()
    ended = connection.execute(_DELETE_UNLISTED, {"container": batch.container, "rows": rows}).rowcount
    connection.execute(_WRITE_TASKS, {"container": batch.container, "rows": rows})
    if samples:
        connection.execute(_WRITE_SAMPLES, {"rows": orjson.dumps(list(samples)).decode()})
    save_loads(connection, batch.tasks)
    if ended or knew != batch.commit_number:
        connection.execute(_WAKE_PLANS, {"channel": REPORTED_STOP})


def purge_samples(connection: Connection, *, keep_days: int) -> int:
    """Deletes samples that are older, and loads; how many samples."""
    purge_loads(connection, keep_days=keep_days)
    return connection.execute(_PURGE, {"days": keep_days}).rowcount


def _commit_before(connection: Connection, container: str, incarnation: str) -> int | None:
    """The commit that the last report was made after. Raises Conflict when it may not be replaced.

    Holds the container's row until the transaction ends, so that a later life waits with its registration.
    """
    joined = containers.outerjoin(reports, reports.c.container == containers.c.name)
    columns = select(containers.c.incarnation, reports.c.commit_number).select_from(joined)
    held = columns.where(containers.c.name == container).with_for_update(read=True, of=containers)
    row = connection.execute(held).one_or_none()
    if row is None:
        raise Conflict(f"{container} is not registered", field="container", rule="registered")
    if row.incarnation != incarnation:
        raise Conflict(f"{container} has another life now", field="incarnation", rule="current_incarnation")
    return None if row.commit_number is None else int(row.commit_number)


def _save_newest(connection: Connection, batch: TaskReportBatch) -> None:
    """First of all writes, so that two reports of one container come one after the other."""
    values = batch.model_dump(include={"container", "incarnation", "commit_number", "version"})
    statement = insert(reports).values(**values, reported_at=text("clock_timestamp()"))
    again = {name: statement.excluded[name] for name in ("incarnation", "commit_number", "version", "reported_at")}
    connection.execute(statement.on_conflict_do_update(index_elements=["container"], set_=again))


def _task_row(task: TaskReport) -> dict[str, object]:
    return task.model_dump(mode="json")
