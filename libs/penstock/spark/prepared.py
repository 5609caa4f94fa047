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
WAIT_SECONDS = 5.0
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

    def drops_for_room(self) -> bool:
        """Whether the heap was so short that the stores of all tasks were given up."""
        return self.stores is not None and self.stores.drop_if_short(self.runtime)

    def drop(self) -> None:
        """Gives up the stores that no query has taken."""
        if self.stores is not None:
            self.stores.drop(self.runtime)


def can_be_prepared(config: JobConfig) -> bool:
    """Whether a frame is the same minutes later: tables and streams are looked at when it is made. Pure."""
    return not config.tables and not config.streams


class _Making:
    """What is being made, and what has become of it, under the lock of `PreparedTasks`. `given_up` is set by whoever
    does not want it any more. `is_awaited`: its task starts, and takes it. `stores`: what is being loaded for it."""

    def __init__(self, runtime: Runtime, query: _Query, given_up: threading.Event) -> None:
        self.runtime = runtime
        self.query = query
        self.given_up = given_up
        self.over = threading.Event()
        self.is_awaited = False
        self.stores: Preloaded | None = None
        self.made: _Prepared | None = None

    def give_up(self) -> None:
        """From now on nobody waits for it. What is being loaded ends at its next read."""
        self.given_up.set()
        self.over.set()
        if self.stores is not None:
            self.stores.drop(self.runtime)


class PreparedTasks:
    """At most `MOST` tasks, each for at most `MOST_SECONDS`; the newest query of each. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._making: dict[str, _Making] = {}
        self._by_task: dict[str, _Prepared] = {}
        self._taken: list[_Prepared] = []

    def make(self, runtime: Runtime, spec: TaskSpec, now: float, given_up: threading.Event | None = None) -> bool:
        """Prepares a task; whether it is prepared now, or was meanwhile taken. Nothing is published, and no checkpoint
        is claimed. `given_up`, once it is set: it is not wanted any more.

        What there was, or is being made, of another query of the task is given up. Raises what `make_frame` and
        `preload` raise.
        """
        query = _Query.of(spec, runtime.settings)
        with self._lock:
            known = self._by_task.get(spec.task_id)
            if known is not None and known.query == query:
                return True
            self._forget([] if known is None else [spec.task_id])
            if not can_be_prepared(spec.config) or len(self._by_task) >= MOST:
                return False
            if (earlier := self._making.get(spec.task_id)) is not None:
                earlier.give_up()
            making = self._making[spec.task_id] = _Making(runtime, query, given_up or threading.Event())
        try:
            making.made = self._made(spec, making, now)
        finally:
            is_kept = self._end(spec.task_id, making)
        return is_kept

    def _made(self, spec: TaskSpec, making: _Making, now: float) -> _Prepared | None:
        runtime = making.runtime
        checkpoint = runtime.checkpoint(spec.job, spec.generation, spec.index)
        # Without a token: nothing can be published until the start sets the one that it got by its claim.
        frame = make_frame(runtime, spec, checkpoint, "")

        def begins(stores: Preloaded) -> bool:
            with self._lock:
                making.stores = stores
                return not making.given_up.is_set()

        if making.given_up.is_set():
            return None
        stores = preload(runtime, spec, frame.frame.sparkSession, begins)
        return _Prepared(runtime, making.query, checkpoint, frame, stores, now)

    def _end(self, task_id: str, making: _Making) -> bool:
        with self._lock:
            if self._making.get(task_id) is making:
                del self._making[task_id]
            making.over.set()
            made = making.made
            if made is None:
                return False
            if making.given_up.is_set():
                made.drop()
                return False
            if not making.is_awaited:
                self._by_task[task_id] = made
            return True

    def take(self, spec: TaskSpec, settings: SparkSettings, now: float) -> Callable[[str], TaskFrame] | None:
        """For exactly this query what gives its frame to the owner of its checkpoint. One that is just being made is
        awaited, for at most `WAIT_SECONDS`. What there is for another query of the task is given up: the task has moved
        on."""
        query = _Query.of(spec, settings)
        with self._lock:
            prepared = self._by_task.pop(spec.task_id, None)
            making = self._making.get(spec.task_id)
            if making is not None and making.query != query:
                making.give_up()
            elif making is not None:
                making.is_awaited = True
        if making is not None and making.is_awaited:
            prepared = self._awaited(making)
        if prepared is None or prepared.query != query:
            if prepared is not None:
                prepared.drop()
            return None
        with self._lock:
            self._taken.append(replace(prepared, at=now))
        return prepared.owned

    def _awaited(self, making: _Making) -> _Prepared | None:
        making.over.wait(WAIT_SECONDS)
        with self._lock:
            if making.given_up.is_set() or not making.over.is_set():
                making.give_up()
                return None
            return making.made

    def give_up(self, task_id: str, generation: int | None = None) -> bool:
        """Gives up what was made, or is being made, for a task; whether anything was made. With a generation only if it
        is for that one. What the start of the task has taken is left alone."""
        with self._lock:
            making, known = self._making.get(task_id), self._by_task.get(task_id)
            if making is not None and generation in (None, making.query.generation):
                making.give_up()
            is_known = known is not None and generation in (None, known.query.generation)
            self._forget([task_id] if is_known else [])
        return is_known

    def forget_old(self, now: float) -> bool:
        """Gives up what was made too long ago, stores that a query did not take soon, and all stores when the heap is
        short; whether there were any."""
        with self._lock:
            old = [task_id for task_id, known in self._by_task.items() if now - known.at > MOST_SECONDS]
            self._forget(old)
            late = [taken for taken in self._taken if now - taken.at > _TAKES_SECONDS]
            for taken in late:
                taken.drop()
                self._taken.remove(taken)
            kept = next((each for each in (*self._by_task.values(), *self._taken) if each.stores is not None), None)
        return (kept is not None and kept.drops_for_room()) or bool(old or late)

    def _forget(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            self._by_task.pop(task_id).drop()
