"""Task reports: the tasks of each container, whole or what changed, and the newest load and the newest crashes of each
task, which are kept when its container is lost."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.model.health import CRASHES_KEPT
from penstock.model.reports import TaskReport, TaskReportBatch, TaskReportChanges
from penstock.store.engine import REPORTED_STOP
from penstock.store.json import as_json

_LOCK_CONTAINER = text("SELECT incarnation FROM containers WHERE name = :container FOR SHARE")
# The first write of the transaction, so that two reports of one container are stored one after the other. Numbered
# reports of an incarnation that come late change nothing.
_WRITE_REPORT = text(
    """
    INSERT INTO reports AS known (container, incarnation, commit_number, version, number, base, reported_at)
    VALUES (:container, :incarnation, :commit_number, :version, :number, :number, clock_timestamp())
    ON CONFLICT (container) DO UPDATE SET incarnation = excluded.incarnation,
        commit_number = excluded.commit_number, version = excluded.version, number = excluded.number,
        base = excluded.base, reported_at = excluded.reported_at
    WHERE known.incarnation <> excluded.incarnation OR (known.number >= excluded.number) IS NOT TRUE
    RETURNING old.commit_number
    """
)
# Without a lock on the container: the incarnation of the row stays, and a later one is not taken for this one.
_NOTE_CHANGES = text(
    """
    UPDATE reports SET commit_number = :commit_number, version = :version, number = :number,
        base = CASE WHEN :has_news THEN :number ELSE base END, reported_at = clock_timestamp()
    WHERE container = :container AND incarnation = :incarnation AND base = :after AND number < :number
        AND EXISTS (SELECT FROM containers WHERE name = :container AND incarnation = :incarnation)
    RETURNING old.commit_number
    """
)
# As above, of many containers. A row that another transaction holds is not waited for: all others would wait with it.
_NOTE_QUIET = text(
    """
    WITH told AS (
        SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS told(container text, incarnation text,
            commit_number bigint, version bigint, number bigint, after bigint)
    ), locked AS (
        SELECT reports.container FROM reports JOIN told USING (container) FOR UPDATE OF reports SKIP LOCKED
    )
    UPDATE reports SET commit_number = told.commit_number, version = told.version, number = told.number,
        reported_at = clock_timestamp()
    FROM told JOIN locked USING (container) JOIN containers ON containers.name = told.container
    WHERE reports.container = told.container AND reports.incarnation = told.incarnation
        AND reports.base = told.after AND reports.number < told.number AND containers.incarnation = told.incarnation
    RETURNING told.container, told.number, old.commit_number <> told.commit_number AS has_applied
    """
)
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

# By the revision that a task reports it is told what it ran: a report of another revision proves nothing about the row.
# In order of key, as the loads below.
_WRITE_PROVEN = text(
    """
    INSERT INTO proven (job, code)
    SELECT DISTINCT running.job, running.code
    FROM json_to_recordset(CAST(:rows AS json)) AS new(job text, revision bigint)
        JOIN running ON running.job = new.job AND running.revision = new.revision
    WHERE NOT EXISTS (SELECT FROM proven WHERE proven.job = running.job AND proven.code = running.code)
    ORDER BY running.job, running.code
    ON CONFLICT DO NOTHING
    """
)

_DELETE_UNLISTED = text(
    """
    DELETE FROM tasks WHERE container = :container AND NOT EXISTS (
        SELECT FROM json_to_recordset(CAST(:rows AS json)) AS listed(job text, index int)
        WHERE listed.job = tasks.job AND listed.index = tasks.index)
    """
)

_DELETE_ENDED = text(
    """
    DELETE FROM tasks USING json_to_recordset(CAST(:rows AS json)) AS ended(job text, index int)
    WHERE tasks.job = ended.job AND tasks.index = ended.index AND tasks.container = :container
    """
)

# A partial index on plans makes this cheap: few jobs have a plan at a time.
_WAKE_PLANS = text("SELECT pg_notify(:channel, '') WHERE EXISTS (SELECT FROM sync_state WHERE plan IS NOT NULL)")

# In order of key, so that two containers that report the same task (it moved) do not lock each other out.
_WRITE_LOADS = text(
    """
    INSERT INTO task_loads (job, index, generation, load, measured_at)
    SELECT new.job, new.index, new.generation, new.load, clock_timestamp()
    FROM json_to_recordset(CAST(:rows AS json)) AS new(job text, index int, generation bigint, load jsonb)
    ORDER BY new.job, new.index
    ON CONFLICT (job, index) DO UPDATE
    SET generation = excluded.generation, load = excluded.load, measured_at = excluded.measured_at
    """
)

# Reports count crashes in a row: what is new since the container's report before. A count that fell was forgotten in
# between, as the task ran well. Read before the report replaces it. A crash after a change that restarted the task
# begins a new series. In order of key, as the loads.
_WRITE_CRASHES = text(
    """
    WITH told AS (
        SELECT new.job, new.index, new.revision, coalesce(new.error, '') AS error, new.error_class,
            new.crashes - CASE WHEN before.crashes <= new.crashes THEN before.crashes ELSE 0 END AS crashes
        FROM json_to_recordset(CAST(:rows AS json))
            AS new(job text, index int, revision bigint, crashes int, error text, error_class text)
            LEFT JOIN tasks AS before
                ON before.job = new.job AND before.index = new.index AND before.container = :container
    ), fresh AS MATERIALIZED (
        SELECT * FROM told WHERE crashes > 0 ORDER BY job, index
    ), counted AS (
        INSERT INTO unsampled_errors AS known (job, index, class, count)
        SELECT job, index, coalesce(error_class, 'other'), crashes FROM fresh ORDER BY job, index
        ON CONFLICT (job, index, class) DO UPDATE SET count = known.count + excluded.count
    )
    INSERT INTO task_crashes AS known (job, index, crashed_at, newest_at, revision, error, task_run)
    SELECT job, index, array_fill(clock_timestamp(), ARRAY[LEAST(crashes, :kept)]), clock_timestamp(), revision, error,
        (SELECT task_run FROM running WHERE running.job = fresh.job AND running.revision = fresh.revision)
    FROM fresh
    ORDER BY job, index
    ON CONFLICT (job, index) DO UPDATE SET
        crashed_at = CASE WHEN known.task_run <> excluded.task_run THEN excluded.crashed_at
            ELSE (known.crashed_at || excluded.crashed_at)[
                GREATEST(1, cardinality(known.crashed_at) + cardinality(excluded.crashed_at) - :kept + 1):] END,
        newest_at = excluded.newest_at, revision = excluded.revision, error = excluded.error,
        task_run = coalesce(excluded.task_run, CASE WHEN known.revision = excluded.revision THEN known.task_run END)
    """
)
_OF_TASKS = {"tasks", "ended", "may_wait"}

_MOST_PURGED = 5_000
_PURGE_CRASHES = text(
    """
    DELETE FROM task_crashes WHERE (job, index) IN (
        SELECT job, index FROM task_crashes WHERE newest_at < clock_timestamp() - interval '1 day' LIMIT :most)
    """
)
# Only loads of tasks that no longer run become old: the others are reported every few minutes.
_PURGE_LOADS = text(
    """
    DELETE FROM task_loads WHERE (job, index) IN (
        SELECT job, index FROM task_loads WHERE measured_at < clock_timestamp() - make_interval(days => :days)
        LIMIT :most)
    """
)


def save_report(connection: Connection, batch: TaskReportBatch, number: int | None = None) -> None:
    """Replaces the container's last report, and stores new loads. Changes can follow a report that has a number.

    Listeners of `REPORTED_STOP` are notified when a plan is recorded and the container has applied a newer commit or
    has fewer tasks than before.

    Raises Conflict when the container is not registered or has another incarnation now, and when a report of it with a
    higher number is stored. The report of a container that was declared lost is stored, since tasks may still run
    there.
    """
    _lock(connection, batch.container, batch.incarnation)
    newest = batch.model_dump(include={"container", "incarnation", "commit_number", "version"})
    before = connection.execute(_WRITE_REPORT, newest | {"number": number}).one_or_none()
    if before is None:
        raise Conflict(f"a newer report of {batch.container} is stored", field="number", rule="newest_report")
    listed = as_json([{"job": task.job, "index": task.index} for task in batch.tasks])
    save_crashes(connection, batch.container, batch.tasks)
    ended = connection.execute(_DELETE_UNLISTED, {"container": batch.container, "rows": listed}).rowcount
    _save_tasks(connection, batch.container, batch.tasks)
    _wake_plans(connection, batch.tasks, is_awaited=bool(ended) or before.commit_number != batch.commit_number)


def save_changes(connection: Connection, changes: TaskReportChanges) -> bool:
    """Applies the changes to the report that they build on. False, and nothing is stored, when that is not the newest
    one with news of the container's present incarnation, or these changes come late.

    So a lost, repeated or late report never changes what is known of a task. Notifies as `save_report` does.
    """
    note = changes.model_dump(exclude=_OF_TASKS) | {"has_news": changes.has_news}
    before = connection.execute(_NOTE_CHANGES, note).one_or_none()
    if before is None:
        return False
    if changes.has_news:
        save_crashes(connection, changes.container, changes.tasks)
        if changes.ended:
            ended = as_json([{"job": job, "index": index} for job, index in changes.ended])
            connection.execute(_DELETE_ENDED, {"container": changes.container, "rows": ended})
        _save_tasks(connection, changes.container, changes.tasks)
    is_awaited = bool(changes.ended) or before.commit_number != changes.commit_number
    _wake_plans(connection, changes.tasks, is_awaited=is_awaited)
    return True


def save_quiet(connection: Connection, told: Sequence[TaskReportChanges]) -> list[bool]:
    """As `save_changes`, for changes without news of many containers at once; the answers in their order. It is also
    False when another transaction writes the container's report now: then `save_changes` tells."""
    newest = {each.container: each for each in sorted(told, key=lambda each: each.number)}
    rows = as_json([each.model_dump(exclude=_OF_TASKS) for each in newest.values()])
    noted = connection.execute(_NOTE_QUIET, {"rows": rows}).all()
    if any(row.has_applied for row in noted):
        connection.execute(_WAKE_PLANS, {"channel": REPORTED_STOP})
    stored = {(row.container, row.number) for row in noted}
    return [(each.container, each.number) in stored for each in told]


def _save_tasks(connection: Connection, container: str, tasks: Sequence[TaskReport]) -> None:
    if tasks:
        rows = as_json([task.model_dump(mode="json") for task in tasks])
        connection.execute(_WRITE_TASKS, {"container": container, "rows": rows})
        save_proven(connection, tasks)
        save_loads(connection, tasks)


def _wake_plans(connection: Connection, tasks: Sequence[TaskReport], *, is_awaited: bool) -> None:
    if is_awaited or any(task.progress is not None and task.progress.quiesced for task in tasks):
        connection.execute(_WAKE_PLANS, {"channel": REPORTED_STOP})


def save_loads(connection: Connection, tasks: Sequence[TaskReport]) -> None:
    """Stores the loads in these reports. The loads of other tasks stay."""
    rows = [
        {"job": task.job, "index": task.index, "generation": task.generation, "load": task.load}
        for task in tasks
        if task.load is not None
    ]
    if rows:
        connection.execute(_WRITE_LOADS, {"rows": as_json(rows)})


def save_crashes(connection: Connection, container: str, tasks: Sequence[TaskReport]) -> None:
    """Notes the crashes that the container reports and has not reported before."""
    rows = [
        task.model_dump(include={"job", "index", "revision", "crashes", "error", "error_class"})
        for task in tasks
        if task.crashes
    ]
    if rows:
        values = {"container": container, "rows": as_json(rows), "kept": CRASHES_KEPT}
        connection.execute(_WRITE_CRASHES, values)


def save_proven(connection: Connection, tasks: Sequence[TaskReport]) -> None:
    """Notes the packages whose tasks have finished a batch with rows."""
    worked = {(task.job, task.revision) for task in tasks if task.progress is not None and task.progress.input_rows}
    if worked:
        rows = [{"job": job, "revision": revision} for job, revision in sorted(worked)]
        connection.execute(_WRITE_PROVEN, {"rows": as_json(rows)})


def purge_loads(connection: Connection, *, keep_days: int) -> int:
    """Deletes some loads older than `keep_days`. Returns their number."""
    return connection.execute(_PURGE_LOADS, {"days": keep_days, "most": _MOST_PURGED}).rowcount


def purge_crashes(connection: Connection) -> int:
    """Deletes some crashes that were followed by a day without one. Returns the number of tasks."""
    return connection.execute(_PURGE_CRASHES, {"most": _MOST_PURGED}).rowcount


def _lock(connection: Connection, container: str, incarnation: str) -> None:
    """Locks the container's row until the transaction ends, so that a later incarnation cannot register meanwhile.
    Raises Conflict, see `save_report`."""
    row = connection.execute(_LOCK_CONTAINER, {"container": container}).one_or_none()
    if row is None:
        raise Conflict(f"{container} is not registered", field="container", rule="registered")
    if row.incarnation != incarnation:
        raise Conflict(f"{container} has another incarnation now", field="incarnation", rule="current_incarnation")
