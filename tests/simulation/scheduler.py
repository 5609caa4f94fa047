"""Threads as greenlets on one virtual time line: which runs next follows from the seed alone.

Code between two waits runs undisturbed; every port call waits (for the network, the store), so there others come in
between. Nothing here reads a real clock.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

SWITCH_SECONDS = 0.002
"""A thread that was woken runs within so long."""


class Owner(Protocol):
    """A simulated process, as far as its threads know it."""

    name: str
    is_dead: bool
    is_paused: bool

    def defer(self, call: Callable[[], object]) -> None:
        """Does it once the process goes on."""
        ...

    def adopt(self, thread: Thread) -> None:
        """One more thread is its own."""
        ...

    def release(self, thread: Thread) -> None:
        """A thread of it is over."""
        ...

    def to_true_seconds(self, seconds: float) -> float:
        """True seconds that pass while the process's clock counts so many."""
        ...


class Thread:
    """A greenlet of a process. `token` numbers its waits, so that a late alarm wakes nobody."""

    def __init__(self, scheduler: Scheduler, process: Owner, number: int, run: Callable[[], Any], name: str) -> None:
        self.process = process
        self.number = number
        self.name = name
        self.token = 0
        self.was_woken = False
        self.is_over = False
        self.watchers: list[Callable[[], object]] = []
        self._scheduler = scheduler
        self._run = run
        self.greenlet = greenlet(self._body, parent=scheduler.hub)

    def _body(self) -> None:
        try:
            self._run()
        except GreenletExit:
            pass
        except Exception as error:  # noqa: BLE001 - told to whoever checks
            self._scheduler.on_crash(self, error)
        finally:
            self.is_over = True
            self.process.release(self)
            for watcher in self.watchers:
                watcher()


class Scheduler:
    """The time line. `random` is the only source of chance; `trace` sums up what ran when."""

    def __init__(self, seed: str, on_crash: Callable[[Thread, Exception], None]) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.hub = getcurrent()
        self.current: Thread | None = None
        self.events = 0
        self.trace = 0
        self.on_crash = on_crash
        self._alarms: list[tuple[float, int, Callable[[], object] | None, Thread | None, int]] = []
        """When, in which order, and either what to call or which thread goes on, if it still waits."""
        self._numbers = count()
        self._threads = count()

    def at(self, when: float, call: Callable[[], object]) -> None:
        """Calls back at a time, outside of all threads."""
        heappush(self._alarms, (max(when, self.now), next(self._numbers), call, None, 0))

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """The same, after true seconds."""
        self.at(self.now + seconds, call)

    def spawn(self, process: Owner, name: str, run: Callable[[], Any]) -> Thread:
        """A thread that begins soon."""
        thread = Thread(self, process, next(self._threads), run, name)
        process.adopt(thread)
        self.wake(thread)
        return thread

    def run_until(self, end: float, after_event: Callable[[], object]) -> None:
        """All that happens up to a time; `after_event` is called after each event."""
        alarms = self._alarms
        while alarms and alarms[0][0] <= end:
            self.now, _, call, thread, token = heappop(alarms)
            self.events += 1
            if call is not None:
                call()
            elif thread is None or not self._resume(thread, token):
                continue
            after_event()
        self.now = end

    # ---- for threads

    def block(self, seconds: float | None = None) -> bool:
        """The running thread waits to be woken, for so many true seconds at most; whether it was."""
        thread = self.current
        assert thread is not None, "only threads wait"
        if thread.process.is_dead:
            raise GreenletExit
        thread.token += 1
        thread.was_woken = False
        if seconds is not None:
            self._alarm(max(0.0, seconds), thread)
        self.hub.switch()
        if thread.process.is_dead:
            raise GreenletExit
        return thread.was_woken

    def wait(self, seconds: float) -> None:
        """The running thread waits for so many seconds of its own clock."""
        assert self.current is not None
        self.block(self.current.process.to_true_seconds(seconds))

    def wake(self, thread: Thread) -> None:
        """A waiting thread goes on soon."""
        thread.was_woken = True
        self._alarm(self.random.random() * SWITCH_SECONDS, thread)

    def end(self, thread: Thread) -> None:
        """A thread of a dead process ends where it is. Not for the running one."""
        if not thread.is_over:
            thread.token += 1
            self._enter(thread, lambda: thread.greenlet.throw(GreenletExit))
            thread.is_over = True

    def _alarm(self, seconds: float, thread: Thread) -> None:
        heappush(self._alarms, (self.now + seconds, next(self._numbers), None, thread, thread.token))

    def _resume(self, thread: Thread, token: int) -> bool:
        """Whether the thread still waited for it, and went on."""
        process = thread.process
        if thread.token != token or thread.is_over or process.is_dead:
            return False
        if process.is_paused:
            process.defer(lambda: self._resume(thread, token))
            return False
        self.trace = hash((self.trace, self.now, thread.number))
        thread.token += 1
        self._enter(thread, thread.greenlet.switch)
        return True

    def _enter(self, thread: Thread, switch: Callable[[], Any]) -> None:
        before, self.current = self.current, thread
        try:
            switch()
        finally:
            self.current = before
