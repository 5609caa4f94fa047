"""The loads of tasks as their containers reported them last. The loss of a container does not change them."""

from __future__ import annotations

from sqlalchemy import Connection, select

from penstock.store.cluster_tables import task_loads
from penstock.tasks.loads import TaskLoad


def read_loads(connection: Connection, job: str | None = None) -> list[TaskLoad]:
    """The loads of all tasks, or of one job's tasks, in no order. Includes tasks that no longer run."""
    columns = (task_loads.c.job, task_loads.c.index, task_loads.c.generation, task_loads.c.load)
    statement = select(*columns)
    if job is not None:
        statement = statement.where(task_loads.c.job == job)
    return [TaskLoad(*row) for row in connection.execute(statement)]
