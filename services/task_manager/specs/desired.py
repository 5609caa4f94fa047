"""The tasks of the owned shards, computed again only when specs or shards changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.wire.cluster import Identity
from services.task_manager.decide.model import DesiredTask
from services.task_manager.specs.spec_cache import SpecCache


class DesiredTasks:
    """Remembers the last answer, since a commit seldom changes the tasks of one container."""

    def __init__(self, here: Identity) -> None:
        self._here = here
        self._specs: SpecCache | None = None
        self._owned: Mapping[int, int] = {}
        self._tasks: Mapping[str, DesiredTask] = {}

    def of(self, specs: SpecCache | None, owned: Mapping[int, int]) -> Mapping[str, DesiredTask]:
        """The tasks of the owned shards (shard to epoch) by id; none before the first specs."""
        if specs is not None and (specs is not self._specs or owned != self._owned):
            jobs = {task.spec.job for task in self._tasks.values()}
            if owned != self._owned or not specs.has_same_tasks(self._specs, owned, jobs):
                self._tasks = specs.desired(owned, self._here)
            self._specs, self._owned = specs, owned
        return self._tasks
