"""The loads of tasks as their containers reported them last. The loss of a container does not change them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, text

from penstock.store.json import as_json
from penstock.tasks.loads import TaskLoad

_ALL = """SELECT job, index, generation, CASE jsonb_typeof(load) WHEN 'object' THEN load ELSE '{}' END
    FROM task_loads"""

_OF = f"""{_ALL} WHERE (job, index) IN (
    SELECT asked.job, asked.index FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS asked (job text, index integer))"""


def read_loads(connection: Connection, job: str | None = None) -> list[TaskLoad]:
    """The loads of all tasks, or of one job's tasks, in no order. Includes tasks that no longer run.

    A malformed load is an empty one.
    """
    statement = text(_ALL if job is None else f"{_ALL} WHERE job = :job")
    return [TaskLoad(*row) for row in connection.execute(statement, {"job": job})]


def read_loads_of(connection: Connection, tasks: Iterable[tuple[str, int]]) -> list[TaskLoad]:
    """The loads of tasks, each a job and an index, in no order."""
    asked = [{"job": job, "index": index} for job, index in tasks]
    return [TaskLoad(*row) for row in connection.execute(text(_OF), {"asked": as_json(asked)})]
