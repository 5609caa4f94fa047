"""The newest load of each task, kept when its container is lost."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sqlalchemy import Connection, text

from penstock.model.reports import TaskReport

# In order of key, so that two containers that report the same task (it moved) do not lock each other out.
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

# Only loads of tasks that no longer run become old: the others are reported every few minutes.
_PURGE = text("DELETE FROM task_loads WHERE measured_at < clock_timestamp() - make_interval(days => :days)")


def save_loads(connection: Connection, tasks: Sequence[TaskReport]) -> None:
    """Stores the loads in these reports. The loads of other tasks stay."""
    rows = [
        {"job": task.job, "index": task.index, "generation": task.generation, "load": task.load}
        for task in tasks
        if task.load is not None
    ]
    if rows:
        connection.execute(_SAVE, {"rows": orjson.dumps(rows).decode()})


def purge_loads(connection: Connection, *, keep_days: int) -> int:
    """Deletes loads older than `keep_days`. Returns their number."""
    return connection.execute(_PURGE, {"days": keep_days}).rowcount
