"""The loads of tasks as their containers reported them last. The loss of a container does not change them."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.tasks.loads import TaskLoad

_ALL = """SELECT job, index, generation, CASE jsonb_typeof(load) WHEN 'object' THEN load ELSE '{}' END
    FROM task_loads"""

_ON = f"{_ALL} WHERE (job, index) IN (SELECT job, index FROM tasks WHERE container = :container)"


def read_loads(connection: Connection, job: str | None = None) -> list[TaskLoad]:
    """The loads of all tasks, or of one job's tasks, in no order. Includes tasks that no longer run.

    Of a malformed load nothing is known.
    """
    statement = text(_ALL if job is None else f"{_ALL} WHERE job = :job")
    return [TaskLoad(*row) for row in connection.execute(statement, {"job": job})]


def read_loads_on(connection: Connection, container: str) -> list[TaskLoad]:
    """The loads of the tasks that a container reports, in no order."""
    return [TaskLoad(*row) for row in connection.execute(text(_ON), {"container": container})]
