"""What tasks use, as their containers told it last; the loss of a container does not change it."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sqlalchemy import Connection, select, text

from penstock.store.cluster_tables import task_loads
from penstock.store.selectors import selector_in
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.wire.cluster import TaskReport

# In order of key, so that two containers that report the same task (it moved) cannot lock each other out.
_SAVE = text(
    """
    INSERT INTO task_loads (job, index, generation, load, measured_at)
    SELECT new.job, new.index, new.generation, new.load, clock_timestamp()
    FROM json_to_recordset(CAST(:rows AS json)) AS new(job text, index int, generation bigint, load jsonb)
    ORDER BY new.job, new.index
    ON CONFLICT (job, index) DO UPDATE
    SET generation = excluded.generation, load = excluded.load, measured_at = excluded.measured_at
    """
)

# Of tasks that nobody runs any more; the loads of the others are told every few minutes.
_PURGE = text("DELETE FROM task_loads WHERE measured_at < clock_timestamp() - make_interval(days => :days)")

_JOBS = text(
    f"""
    SELECT job, CAST(config->>'task_count' AS integer), generation, COALESCE(config->>'isolation' = 'process', false),
        COALESCE(config->'resources', '{{}}'), {selector_in("config")},
        CASE WHEN config->>'priority' ~ '^-?[0-9]{{1,9}}$' THEN CAST(config->>'priority' AS integer) ELSE 0 END
    FROM running
    WHERE NOT stopping AND config->>'desired_state' IS DISTINCT FROM 'stopped'
        AND config->>'task_count' ~ '^[1-9][0-9]{{0,8}}$'
    ORDER BY job
    """
)


def save_loads(connection: Connection, tasks: Sequence[TaskReport]) -> None:
    """Stores the loads that the reports of tasks have; what is stored of the other tasks stays."""
    rows = [
        {"job": task.job, "index": task.index, "generation": task.generation, "load": task.load}
        for task in tasks
        if task.load is not None
    ]
    if rows:
        connection.execute(_SAVE, {"rows": orjson.dumps(rows).decode()})


def read_loads(connection: Connection, job: str | None = None) -> list[TaskLoad]:
    """The loads of all tasks, or of one job's, in no order; also of tasks that are not to run any more."""
    columns = (task_loads.c.job, task_loads.c.index, task_loads.c.generation, task_loads.c.load)
    statement = select(*columns)
    if job is not None:
        statement = statement.where(task_loads.c.job == job)
    return [TaskLoad(*row) for row in connection.execute(statement)]


def read_job_tasks(connection: Connection) -> list[JobTasks]:
    """The jobs whose tasks should run, by name; a row that does not say how many is left out."""
    return [JobTasks(*row) for row in connection.execute(_JOBS)]


def purge_loads(connection: Connection, *, keep_days: int) -> int:
    """Deletes loads that are older; how many."""
    return connection.execute(_PURGE, {"days": keep_days}).rowcount
