"""The order in which a host prepares tasks, so that one that hangs holds up no other.

Work that has begun cannot be ended from outside: it is given up, and its thread is left to it. The tasks of a job wait
for each other, and are not prepared while one of them hangs. Once as many hang as may be begun at once, the host
prepares nothing until one of them ends, or the host does: its tasks then start more slowly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.spark.host.queues import Done
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

# The job's tasks run meanwhile, so one at a time, unless it takes long: then the next one begins.
ALONE_SECONDS = 5.0
MOST_SECONDS = 60.0
MOST_AT_ONCE = 3
REMEDY = (
    "restart its container (penstock drain, restart, penstock uncordon): until then rescales are slower on this host"
)

Work = Callable[[threading.Event], dict[str, Any]]
GiveUp = Callable[[TaskSpec], object]


class _Entry:
    """A task to prepare. `given_up`: nobody wants it any more. `is_answered`: it was given up here, or has ended."""

    def __init__(self, spec: TaskSpec, work: Work, done: Done) -> None:
        self.spec = spec
        self.work = work
        self.done = done
        self.given_up = threading.Event()
        self.began_at = 0.0
        self.is_answered = False

    def run(self) -> Future[Any]:
        """Its future, with its end."""
        future: Future[Any] = Future()
        try:
            future.set_result(self.work(self.given_up))
        except BaseException as error:  # noqa: BLE001 -- whatever it is, whoever asked is told
            future.set_exception(error)
        return future

    def is_of(self, task_id: str, generation: int) -> bool:
        return (self.spec.task_id, self.spec.generation) == (task_id, generation)

    def is_young(self, now: float) -> bool:
        """Whether the others may still wait for its end."""
        return now - self.began_at < ALONE_SECONDS

    def hangs(self, now: float) -> bool:
        """Whether it does not end, though nobody wants it any more."""
        return self.given_up.is_set() and not self.is_young(now)


class PrepareQueue:
    """Thread-safe; no call blocks. `give_up` is told of what has begun and is not wanted any more."""

    def __init__(self, clock: Clock, give_up: GiveUp) -> None:
        self._clock = clock
        self._give_up = give_up
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._begun: list[_Entry] = []
        self._idle: list[ThreadPoolExecutor] = []
        self._is_over = False
        self._is_told = False

    def submit(self, spec: TaskSpec, work: Work, done: Done) -> None:
        """Does `work` when it is its turn; it gets the event that says that it is not wanted any more. `done` gets its
        future, or one with `prepared` false when it was given up before it had ended."""
        with self._lock:
            is_over = self._is_over
            if not is_over:
                self._waiting.append(_Entry(spec, work, done))
        if is_over:
            done(_nothing())
        self.proceed()

    def give_up(self, task_id: str, generation: int) -> None:
        """The task of this generation is not wanted any more."""
        self._end([entry for entry in self._all() if entry.is_of(task_id, generation)])

    def end(self) -> None:
        """Gives up everything, also what comes later: the host ends."""
        with self._lock:
            self._is_over = True
        self._end(self._all())

    def proceed(self) -> None:
        """Begins what can begin, and gives up what takes too long. To be called from time to time."""
        now = self._clock.monotonic()
        with self._lock:
            late = [entry for entry in self._begun if now - entry.began_at >= MOST_SECONDS]
        for entry in self._end(late):
            seconds = round(now - entry.began_at, 1)
            log.warning("prepare given up", job=entry.spec.job, task=entry.spec.task_id, seconds=seconds)
        with self._lock:
            hopeless = [entry for entry in self._waiting if is_hopeless(entry, self._begun, now)]
        for entry in self._end(hopeless):
            log.warning("not prepared: another one hangs", job=entry.spec.job, task=entry.spec.task_id)
        self._tell_of_end(now)
        with self._lock:
            while (following := next_of(self._waiting, self._begun, now)) is not None:
                self._begin(following, now)

    def _tell_of_end(self, now: float) -> None:
        """Once each time that so many hang that nothing can be prepared."""
        with self._lock:
            hanging = [entry.spec.task_id for entry in self._begun if entry.hangs(now)]
            is_new = len(hanging) >= MOST_AT_ONCE and not self._is_told and not self._is_over
            self._is_told = len(hanging) >= MOST_AT_ONCE
        if is_new:
            log.warning("nothing is prepared until one of these ends", tasks=hanging, remedy=REMEDY)

    def _begin(self, entry: _Entry, now: float) -> None:
        self._waiting.remove(entry)
        self._begun.append(entry)
        entry.began_at = now
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="prepare")
        thread.submit(self._run, entry, thread)

    def _run(self, entry: _Entry, thread: ThreadPoolExecutor) -> None:
        future = entry.run()
        with self._lock:
            self._begun.remove(entry)
            self._idle.append(thread)
            is_answered, entry.is_answered = entry.is_answered, True
        if not is_answered:
            self._log(entry, future)
            entry.done(future)
        self.proceed()

    def _log(self, entry: _Entry, future: Future[Any]) -> None:
        if future.exception() is None and future.result()["prepared"]:
            seconds = round(self._clock.monotonic() - entry.began_at, 2)
            log.info("task prepared", task=entry.spec.task_id, generation=entry.spec.generation, seconds=seconds)

    def _end(self, entries: Collection[_Entry]) -> list[_Entry]:
        """Gives up those of them that were not answered, which are returned."""
        with self._lock:
            left = [entry for entry in entries if not entry.is_answered]
            begun = [entry for entry in left if entry in self._begun]
            self._waiting = [entry for entry in self._waiting if entry not in left]
            for entry in left:
                entry.is_answered = True
                entry.given_up.set()
        for entry in begun:
            self._give_up(entry.spec)
        for entry in left:
            entry.done(_nothing())
        return left

    def _all(self) -> list[_Entry]:
        with self._lock:
            return [*self._waiting, *self._begun]


def is_hopeless(entry: _Entry, begun: Collection[_Entry], now: float) -> bool:
    """Whether a task cannot be prepared soon: one of its job hangs, or as many hang as may be begun at once. Pure."""
    hanging = [each for each in begun if each.hangs(now)]
    return len(hanging) >= MOST_AT_ONCE or any(each.spec.job == entry.spec.job for each in hanging)


def next_of(waiting: Collection[_Entry], begun: Collection[_Entry], now: float) -> _Entry | None:
    """What begins now: the first one of a job of which none has begun, when all that has begun takes long. Pure."""
    if len(begun) >= MOST_AT_ONCE or any(each.is_young(now) for each in begun):
        return None
    jobs = {each.spec.job for each in begun}
    return next((entry for entry in waiting if entry.spec.job not in jobs), None)


def _nothing() -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result({"prepared": False})
    return future
