"""What is made ahead of the tasks of a generation that a rescale is about to start: the frame of the query, and on heap
the content of its stores (`redistribute.preload`).

It may be lost at any time; the start then does all of it. It is used at most once, and only for the same query: the
same job, generation, index, key groups, configuration, connections and secrets. Inputs, outputs and the fence are
looked at by the start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.spark.redistribute.preload import Preloaded, preload
from penstock.spark.session import set_token
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime, TaskFrame, make_frame, versions_of
from penstock.tasks.spec import TaskSpec

# A frame with its session takes up to about 2 MB of the host's heap.
MOST = 32
MOST_SECONDS = 600.0
_TAKES_SECONDS = 60.0


@dataclass(frozen=True)
class _Query:
    """All that a frame is made of. A later revision may ask for the same query."""

    job: str
    generation: int
    index: int
    key_groups: KeyGroupRange
    config: JobConfig
    settings: SparkSettings

    @classmethod
    def of(cls, spec: TaskSpec, settings: SparkSettings) -> _Query:
        """The query of a task that may use what `settings` have."""
        return cls(spec.job, spec.generation, spec.index, spec.key_groups, spec.config, settings)


@dataclass(frozen=True)
class _Prepared:
    runtime: Runtime
    query: _Query
    checkpoint: str
    frame: TaskFrame
    stores: Preloaded | None
    at: float

    def owned(self, token: str) -> TaskFrame:
        """The frame, whose query publishes by `token`, the newest of its checkpoint."""
        session = self.frame.frame.sparkSession
        set_token(session, token)
        if self.stores is not None:
            self.stores.allow(self.runtime, token)
        # They write with the token that the session had when they were made.
        return self.frame._replace(tables=versions_of(self.runtime, session, self.checkpoint))

    def drop(self) -> None:
        """Gives up the stores that no query has taken."""
        if self.stores is not None:
            self.stores.drop(self.runtime)


def can_be_prepared(config: JobConfig) -> bool:
    """Whether a frame is the same minutes later: tables and streams are looked at when it is made. Pure."""
    return not config.tables and not config.streams


class PreparedTasks:
    """At most `MOST` tasks, each for at most `MOST_SECONDS`; the newest query of each. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_task: dict[str, _Prepared] = {}
        self._taken: list[_Prepared] = []

    def make(self, runtime: Runtime, spec: TaskSpec, now: float) -> bool:
        """Prepares a task; whether it is prepared now. Nothing is published, and no checkpoint is claimed.

        What there was of another query of the task is given up. Raises what `make_frame` and `preload` raise.
        """
        query = _Query.of(spec, runtime.settings)
        with self._lock:
            known = self._by_task.get(spec.task_id)
            if known is not None and known.query == query:
                return True
            self._forget([] if known is None else [spec.task_id])
            if not can_be_prepared(spec.config) or len(self._by_task) >= MOST:
                return False
        checkpoint = runtime.checkpoint(spec.job, spec.generation, spec.index)
        # Without a token: nothing can be published until the start sets the one that it got by its claim.
        frame = make_frame(runtime, spec, checkpoint, "")
        stores = preload(runtime, spec, frame.frame.sparkSession)
        with self._lock:
            self._by_task[spec.task_id] = _Prepared(runtime, query, checkpoint, frame, stores, now)
        return True

    def take(self, spec: TaskSpec, settings: SparkSettings, now: float) -> Callable[[str], TaskFrame] | None:
        """For exactly this query what gives its frame to the owner of its checkpoint. What there is for another query
        of the task is given up: the task has moved on."""
        with self._lock:
            prepared = self._by_task.get(spec.task_id)
            if prepared is None or prepared.query != _Query.of(spec, settings):
                self._forget([] if prepared is None else [spec.task_id])
                return None
            del self._by_task[spec.task_id]
            self._taken.append(replace(prepared, at=now))
        return prepared.owned

    def give_up(self, task_id: str) -> None:
        """Gives up what was made for a task, if anything."""
        with self._lock:
            self._forget([task_id] if task_id in self._by_task else [])

    def forget_old(self, now: float) -> bool:
        """Gives up what was made too long ago, and stores that a query did not take soon; whether there were any."""
        with self._lock:
            old = [task_id for task_id, known in self._by_task.items() if now - known.at > MOST_SECONDS]
            self._forget(old)
            late = [taken for taken in self._taken if now - taken.at > _TAKES_SECONDS]
            for taken in late:
                taken.drop()
                self._taken.remove(taken)
        return bool(old or late)

    def _forget(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            self._by_task.pop(task_id).drop()
