"""SQL of the jobs whose tasks should run, as placement needs them."""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.store.selectors import selector_in
from penstock.tasks.loads import JobTasks

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


def read_job_tasks(connection: Connection) -> list[JobTasks]:
    """The jobs whose tasks should run, by name; a row without a task count is left out."""
    return [JobTasks(*row) for row in connection.execute(_JOBS)]
