"""What stands for the module `threading`, thread pools and timers in the real code: the same names on virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.simulation.scheduler import Scheduler
from tests.simulation.scheduler import Thread as Greenlet

OUTSIDE = object()


class Event:
    """As `threading.Event`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[Greenlet] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._scheduler.wake(thread)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set and (timeout is None or timeout > 0):
            thread = self._scheduler.current
            assert thread is not None
            self._waiting.append(thread)
            self._scheduler.block(None if timeout is None else thread.process.to_true_seconds(timeout))
            if thread in self._waiting:
                self._waiting.remove(thread)
        return self._is_set


class Lock:
    """As `threading.RLock`; `threading.Lock` where nobody takes it twice."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: object = None
        self._depth = 0
        self._waiting: deque[Greenlet] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self._scheduler.current or OUTSIDE
        is_free = self._owner in (None, me)
        if not is_free and (not blocking or not self._wait(timeout)):
            return False
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            if self._waiting:
                self._scheduler.wake(self._waiting.popleft())

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _wait(self, timeout: float) -> bool:
        thread = self._scheduler.current
        assert thread is not None, "nobody outside of threads may wait for a lock"
        seconds = None if timeout < 0 else thread.process.to_true_seconds(timeout)
        end = None if seconds is None else self._scheduler.now + seconds
        while self._owner is not None:
            left = None if end is None else end - self._scheduler.now
            if left is not None and left <= 0:
                return False
            self._waiting.append(thread)
            self._scheduler.block(left)
            if thread in self._waiting:
                self._waiting.remove(thread)
        return True


class Condition:
    """As `threading.Condition` with a lock of its own."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = Lock(scheduler)
        self._waiting: list[Greenlet] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._scheduler.wake(thread)

    def wait_for(self, is_done: Callable[[], Any], timeout: float | None = None) -> Any:
        thread = self._scheduler.current
        assert thread is not None
        end = None if timeout is None else self._scheduler.now + thread.process.to_true_seconds(timeout)
        while not (result := is_done()):
            left = None if end is None else end - self._scheduler.now
            if left is not None and left <= 0:
                break
            self._waiting.append(thread)
            self._lock.release()
            self._scheduler.block(left)
            self._lock.acquire()
            if thread in self._waiting:
                self._waiting.remove(thread)
        return result


class Thread:
    """As `threading.Thread`."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., Any],
        name: str = "thread",
        args: Iterable[Any] = (),
        daemon: bool = False,
    ) -> None:
        self.name = name
        self._scheduler = scheduler
        self._run = lambda: target(*args)
        self._thread: Greenlet | None = None

    def start(self) -> None:
        assert self._scheduler.current is not None
        self._thread = self._scheduler.spawn(self._scheduler.current.process, self.name, self._run)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._thread.is_over

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end."""
        if self._thread is not None and not self._thread.is_over:
            ended = Event(self._scheduler)
            self._thread.watchers.append(ended.set)
            ended.wait(timeout)


class Threading:
    """Stands for the module `threading`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Event(self) -> Event:
        return Event(self._scheduler)

    def Lock(self) -> Lock:
        return Lock(self._scheduler)

    RLock = Lock

    def Condition(self) -> Condition:
        return Condition(self._scheduler)

    def Thread(self, *, target: Callable[..., Any], **options: Any) -> Thread:
        return Thread(self._scheduler, target, **options)


class Pool:
    """As `ThreadPoolExecutor`, for callers that do not look at the future."""

    def __init__(self, scheduler: Scheduler, max_workers: int, thread_name_prefix: str = "pool") -> None:
        self._scheduler = scheduler
        self._most = max_workers
        self._name = thread_name_prefix
        self._queue: deque[Callable[[], Any]] = deque()
        self._workers = 0
        self._is_closed = False

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        """Raises RuntimeError after `shutdown`."""
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._queue.append(lambda: call(*args))
        if self._workers < self._most:
            self._workers += 1
            assert self._scheduler.current is not None
            self._scheduler.spawn(self._scheduler.current.process, self._name, self._work)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        self._is_closed = True
        self._queue.clear()

    def _work(self) -> None:
        while self._queue:
            self._queue.popleft()()
        self._workers -= 1


class Every(NamedTuple):
    """As `IntervalTrigger`."""

    seconds: float


class Once(NamedTuple):
    """As `DateTrigger`."""

    at: datetime


class Timers:
    """As `BackgroundScheduler`: jobs are due by the wall clock, which may be set; a missed run is made up for once."""

    def __init__(self, scheduler: Scheduler, now: Callable[[], datetime]) -> None:
        self._scheduler = scheduler
        self._now = now
        self._newest: dict[str, int] = {}
        self._calls: dict[str, Callable[[], Any]] = {}
        self._waiting: list[Callable[[], None]] = []
        self.running = False

    def add_job(self, call: Callable[[], Any], trigger: Every | Once, id: str, replace_existing: bool = False) -> None:
        number = self._newest[id] = self._newest.get(id, 0) + 1
        self._calls[id] = call
        due = trigger.at if isinstance(trigger, Once) else self._now() + timedelta(seconds=trigger.seconds)

        def run() -> None:
            at = due
            while self._is_due(id, number, at):
                call()
                if isinstance(trigger, Once):
                    return
                missed = (self._now() - at) // timedelta(seconds=trigger.seconds)
                at += (missed + 1) * timedelta(seconds=trigger.seconds)

        def begin() -> None:
            assert self._scheduler.current is not None
            self._scheduler.spawn(self._scheduler.current.process, f"timer-{id}", run)

        begin() if self.running else self._waiting.append(begin)

    def reschedule_job(self, id: str, trigger: Every) -> None:
        self.add_job(self._calls[id], trigger, id)

    def start(self) -> None:
        self.running = True
        for begin in self._waiting:
            begin()

    def shutdown(self, wait: bool = True) -> None:
        self.running = False

    def _is_due(self, id: str, number: int, at: datetime) -> bool:
        """Waits until then; False when the job is over or another by then."""
        while self.running and self._newest[id] == number:
            seconds = (at - self._now()).total_seconds()
            if seconds <= 0:
                return True
            self._scheduler.wait(seconds)
        return False
