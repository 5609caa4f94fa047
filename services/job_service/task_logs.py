"""The log of a task: asked of the container that runs it, or ran it last."""

from __future__ import annotations

from sqlalchemy import Engine

from penstock.control.errors import Conflict, NotFound, Unavailable
from penstock.store.engine import snapshot
from penstock.wire.task_logs import TaskLog, TaskLogClient
from services.job_service.store import overview
from services.job_service.store.fleet import container


class TaskLogs:
    """Asks containers. Safe from any thread."""

    def __init__(self, engine: Engine, client: TaskLogClient) -> None:
        self._engine = engine
        self._client = client

    def part(self, job: str, index: int, *, host: str | None, offset: int | None, limit_bytes: int) -> TaskLog:
        """A part of the log of a task. Raises NotFound; Conflict when no container reports the task, or its container
        does not answer."""
        url = self._url(job, index)
        try:
            return self._client.part(url, job, index, host=host, offset=offset, limit_bytes=limit_bytes)
        except Unavailable as error:
            # The Job Service itself is well, and its clients need not try at once.
            raise Conflict(
                f"the container of {job}/{index} does not answer: {error.detail}", field="index", rule="answers"
            ) from error

    def _url(self, job: str, index: int) -> str:
        with snapshot(self._engine) as connection:
            running = overview.running_job(connection, job)
            tasks = overview.reported_tasks(connection, job)
            reported = [task for task in tasks if task.index == index]
            if not reported:
                raise self._nobody(job, index, None if running is None else running.config.get("task_count"))
            newest = max(reported, key=lambda task: task.reported_at)
            found = container(connection, newest.container)
        if found is None:
            raise Conflict(f"the container {newest.container} is not known any more", field="index", rule="reported")
        return found.url

    def _nobody(self, job: str, index: int, task_count: int | None) -> Exception:
        if task_count is not None and index >= task_count:
            return NotFound(f"{job} has {task_count} tasks: 0 to {task_count - 1}", field="index", rule="known")
        return Conflict(f"no container reports {job}/{index}: it has no log yet", field="index", rule="reported")
