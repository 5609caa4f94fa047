"""Machines and processes: a process can be killed or stopped at any moment, a machine keeps its clock and its disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.clock import VirtualClock
from tests.simulation.scheduler import Scheduler, Thread


class Machine:
    """`disk` outlives processes. `is_up` is False while the machine is off."""

    def __init__(self, name: str, clock: VirtualClock) -> None:
        self.name = name
        self.clock = clock
        self.is_up = True
        self.disk: dict[str, Any] = {}
        self.processes: list[Process] = []

    def living(self) -> list[Process]:
        """Its processes that have not ended."""
        self.processes = [process for process in self.processes if not process.is_dead]
        return list(self.processes)


class Process:
    """One life of a program. `on_death` is called once it has ended, however it did."""

    def __init__(self, scheduler: Scheduler, machine: Machine, name: str) -> None:
        self.name = name
        self.machine = machine
        self.is_dead = False
        self.is_paused = False
        self.went_on_at = float("-inf")
        self.dies_in_calls: int | None = None
        self.on_death: list[Callable[[], None]] = []
        self._scheduler = scheduler
        self._threads: dict[int, Thread] = {}
        self._deferred: list[Callable[[], object]] = []
        machine.processes.append(self)

    def to_true_seconds(self, seconds: float) -> float:
        return seconds / self.machine.clock.rate

    def begin(self, name: str, run: Callable[[], Any]) -> Thread:
        """Starts a thread of it."""
        return self._scheduler.spawn(self, name, run)

    def adopt(self, thread: Thread) -> None:
        """One more thread is its own."""
        self._threads[thread.number] = thread

    def release(self, thread: Thread) -> None:
        self._threads.pop(thread.number, None)

    def defer(self, call: Callable[[], object]) -> None:
        self._deferred.append(call)

    def pause(self) -> None:
        """As by SIGSTOP."""
        self.is_paused = True

    def go_on(self) -> None:
        """As by SIGCONT; what it missed comes at once."""
        if self.is_paused and not self.is_dead:
            self.is_paused = False
            self.went_on_at = self._scheduler.now
            deferred, self._deferred = self._deferred, []
            for call in deferred:
                self._scheduler.after(0.0, call)

    def kill(self) -> None:
        """As by SIGKILL. Not from one of its own threads."""
        if self.is_dead:
            return
        self.is_dead = True
        for thread in list(self._threads.values()):
            self._scheduler.end(thread)
        self._threads, self._deferred = {}, []
        for call in self.on_death:
            call()

    def end_here(self) -> None:
        """The running thread's process ends at this very point."""
        self._scheduler.after(0.0, self.kill)
        self._scheduler.block()

    def port_call(self) -> None:
        """Every call to the outside passes here, where a process may be marked to die."""
        if self.dies_in_calls is not None:
            self.dies_in_calls -= 1
            if self.dies_in_calls <= 0:
                self.end_here()
