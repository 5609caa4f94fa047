"""The running jobs, kept in memory by what changed: every commit of the State Syncer has a higher number.

So a commit costs the Shard Manager the rows of the commit, not those of 100,000 jobs.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, text

from penstock.store.running import RUNNING_COMMIT
from penstock.store.selectors import selector_in
from penstock.tasks.loads import JobTasks

# One statement reads one moment, so no commit up to the counter's value is missed. No row may end the statement: a
# malformed field counts as one that says nothing, and a row without a task count runs no task.
CHANGES = text(
    f"""
    SELECT job, CASE WHEN config->>'task_count' ~ '^[1-9][0-9]{{0,8}}$' AND NOT stopping
            AND config->>'desired_state' IS DISTINCT FROM 'stopped'
        THEN CAST(config->>'task_count' AS integer) END AS task_count,
        generation, COALESCE(config->>'isolation' = 'process', false) AS has_own_processes,
        CASE jsonb_typeof(config->'resources') WHEN 'object' THEN config->'resources' ELSE '{{}}' END AS reserved,
        {selector_in("config")} AS selector,
        CASE WHEN config->>'priority' ~ '^-?[0-9]{{1,9}}$' THEN CAST(config->>'priority' AS integer) ELSE 0 END
            AS priority,
        commit_number, false AS is_gone
    FROM running WHERE commit_number > :after
    UNION ALL
    SELECT job, NULL, NULL, NULL, NULL, NULL, NULL, commit_number, true FROM forgotten WHERE commit_number > :after
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, value, NULL FROM counters WHERE name = :counter
    """
)


class _Running(NamedTuple):
    """`tasks`: None when none should run."""

    selector: str | None
    tasks: JobTasks | None


class RunningJobs:
    """Used by one thread at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The next call reads everything."""
        self._commit_number = -1
        self._jobs: dict[str, _Running] = {}

    def with_tasks(self, connection: Connection) -> list[JobTasks]:
        """The jobs whose tasks should run, by name."""
        self._refresh(connection)
        found = (self._jobs[job].tasks for job in sorted(self._jobs))
        return [tasks for tasks in found if tasks is not None]

    def selectors(self, connection: Connection) -> set[str]:
        """The selectors of running configurations, also of those that run no task now."""
        self._refresh(connection)
        return {job.selector for job in self._jobs.values() if job.selector is not None}

    def _refresh(self, connection: Connection) -> None:
        rows = connection.execute(CHANGES, {"after": self._commit_number, "counter": RUNNING_COMMIT}).all()
        newest = next(row.commit_number for row in rows if row.job is None)
        if newest < self._commit_number:
            # The store was restored: what is known of it is of no use.
            self.forget()
            self._refresh(connection)
            return
        for row in rows:
            if row.is_gone:
                self._jobs.pop(row.job, None)
            elif row.job is not None:
                tasks = None if row.task_count is None else JobTasks(*row[:7])
                self._jobs[row.job] = _Running(row.selector, tasks)
        self._commit_number = newest
