"""The tasks on the container's hosts and their states. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.model.reports import TaskState
from penstock.tasks.selectors import selector
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.actions import StartTask
from services.task_manager.decide.model import TaskView


class Tasks:
    """Tasks by id. A task that has ended is not listed."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskView] = {}

    @property
    def by_id(self) -> Mapping[str, TaskView]:
        """All tasks; the map changes with the next event."""
        return self._tasks

    def find(self, task_id: str, host: str) -> TaskView | None:
        """The task, if it is on this host."""
        task = self._tasks.get(task_id)
        return task if task is not None and task.host == host else None

    def on_host(self, host: str) -> list[TaskView]:
        """The tasks of a host."""
        return [task for task in self._tasks.values() if task.host == host]

    def in_shards(self, shards: Collection[int]) -> list[str]:
        """The ids of the tasks of these shards, sorted."""
        return sorted(task_id for task_id, task in self._tasks.items() if task.shard in shards)

    def without_lease(self) -> list[TaskView]:
        """Tasks that were started under a lease which has ended."""
        return [task for task in self._tasks.values() if task.lease_ended_at is not None]

    # ---- changes

    def starting(self, action: StartTask, start_id: int, now: float) -> TaskView:
        """The start of a task was sent to its host."""
        state = TaskState.STARTING
        task = TaskView(action.spec, action.shard, action.epoch, state, action.host, now, start_id)
        self._tasks[task.task_id] = task
        return task

    def started(self, task: TaskView, now: float) -> None:
        """The host has started the task."""
        self._tasks[task.task_id] = replace(task, state=TaskState.RUNNING, since=now)

    def stopping(self, task: TaskView, kill_at: float, now: float) -> None:
        """The task must stop, or its host is killed at `kill_at`."""
        since = task.since if task.state is TaskState.STOPPING else now
        self._tasks[task.task_id] = replace(task, state=TaskState.STOPPING, since=since, kill_at=kill_at)

    def ended(self, task: TaskView) -> None:
        """The task is no longer on its host."""
        del self._tasks[task.task_id]

    def adopted(self, task_id: str, spec: TaskSpec) -> None:
        """The task already runs as this spec asks."""
        self._tasks[task_id] = replace(self._tasks[task_id], spec=spec)

    def live_sent(self, task_id: str, spec: TaskSpec) -> None:
        """A live change was sent to the host."""
        self._tasks[task_id] = replace(self._tasks[task_id], pending_live=spec)

    def live_applied(self, task: TaskView, spec: TaskSpec) -> None:
        """The host has applied the live change."""
        self._tasks[task.task_id] = replace(task, spec=spec, pending_live=None)

    def live_refused(self, task: TaskView) -> None:
        """The host has refused the live change."""
        self._tasks[task.task_id] = replace(task, pending_live=None, live_failed=True)

    def lease_ended(self, ended_at: float) -> None:
        """The lease of all present tasks ended. A later lease does not cover them."""
        for task_id, task in self._tasks.items():
            if task.lease_ended_at is None:
                self._tasks[task_id] = replace(task, lease_ended_at=ended_at)

    def reshard(self, sharding: Sharding) -> list[tuple[int, int]]:
        """Gives each task its shard under another sharding; returns (old, new) shard for each task.

        A task that no shard of the new sharding contains keeps its old shard until it ends.
        """
        moved: list[tuple[int, int]] = []
        for task_id, task in self._tasks.items():
            config = task.spec.config
            shard = sharding.shard_of(task_id, selector(config.region, config.container_labels))
            new = task.shard if shard is None else shard
            self._tasks[task_id] = replace(task, shard=new)
            moved.append((task.shard, new))
        return moved
