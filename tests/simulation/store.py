"""The job store as processes reach it: slow, away, with commits that fail, and with commits whose answer is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.control.errors import Unavailable
from tests.simulation.network import DATABASE, Network
from tests.simulation.processes import Process
from tests.simulation.scheduler import Scheduler
from tests.support.memory.store import MemoryStore

CONNECT_SECONDS = 5.0


@dataclass
class Trouble:
    """How the store is now. `fails`, `forgets`: shares of calls whose commit fails, or whose answer is lost."""

    is_away: bool = False
    slow_seconds: float = 0.0
    fails: float = 0.0
    forgets: float = 0.0


class News:
    """Stands for the store's condition: NOTIFY, which may be lost and only ever wakes."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        """One thread at a time runs anyway."""

    def __exit__(self, *_: object) -> None:
        """There is nothing to release."""

    def notify_all(self) -> None:
        for listener in self.listeners:
            listener()


class Database:
    """The store and the way to it."""

    def __init__(self, scheduler: Scheduler, network: Network, shard_count: int) -> None:
        self.memory = MemoryStore(lambda: scheduler.now, shard_count)
        self.news = News()
        self.memory.news = self.news  # type: ignore[assignment]
        self.trouble = Trouble()
        self._scheduler = scheduler
        self._network = network

    def port(self, port: Any, process: Process) -> Any:
        """A port's in-memory form as a process reaches it."""
        return Port(self, port, process)

    def listen(self, process: Process, wake: Callable[[], None]) -> None:
        """NOTIFY wakes a process, unless it cannot be reached now."""

        def notify() -> None:
            if not process.is_dead and not self.trouble.is_away and self._reaches(DATABASE, process):
                self._scheduler.after(0.001 + self._scheduler.random.random() * 0.01, wake)

        self.news.listeners.append(notify)
        process.on_death.append(lambda: self.news.listeners.remove(notify))

    def before(self, process: Process) -> None:
        """The way there. Raises Unavailable: nothing was done."""
        process.port_call()
        self._travel()
        if self.trouble.is_away or not self._reaches(process.machine.name, DATABASE):
            self._scheduler.wait(self._scheduler.random.choice((0.01, CONNECT_SECONDS)))
            raise Unavailable("the job store cannot be reached")
        if self._scheduler.random.random() < self.trouble.fails:
            raise Unavailable("the job store broke the connection before the commit")

    def after(self, process: Process) -> None:
        """The way back. Raises Unavailable: what was done is done."""
        self._travel()
        process.port_call()
        is_lost = self._scheduler.random.random() < self.trouble.forgets
        if is_lost or self.trouble.is_away or not self._reaches(DATABASE, process):
            raise Unavailable("the job store broke the connection after the commit")

    def _travel(self) -> None:
        chance = self._scheduler.random.random()
        self._scheduler.block(0.0002 + 0.002 * chance + self.trouble.slow_seconds * chance)

    def _reaches(self, source: str | Process, target: str | Process) -> bool:
        cut = self._network.cut
        return not cut or (_place(source), _place(target)) not in cut


def _place(end: str | Process) -> str:
    return end if isinstance(end, str) else end.machine.name


class Port:
    """Every method of a port, with the way there and back."""

    def __init__(self, database: Database, port: Any, process: Process) -> None:
        self._database = database
        self._port = port
        self._process = process

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._port, name)

        def call(*args: Any, **options: Any) -> Any:
            self._database.before(self._process)
            result = method(*args, **options)
            self._database.after(self._process)
            return result

        self.__dict__[name] = call
        return call


class SyncPort(Port):
    """`read` of a `SyncStore` is good inside a block."""

    @contextmanager
    def read(self, *args: Any) -> Iterator[Any]:
        self._database.before(self._process)
        with self._port.read(*args) as found:
            self._database.after(self._process)
            yield found
