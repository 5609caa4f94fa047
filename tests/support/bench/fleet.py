"""Simulated containers: the real loops and clients of Task Managers, with hosts that do at once what they are told.

Two things differ from a Task Manager's process. Steps are due on a few threads that all containers share; only waits
for deltas have a thread each. What containers compute from equal bytes is computed once (`tests.simulation.sharing`):
else the machine of the bench would have to do the work of 3,000 machines. Nothing is written to disk.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

import httpx
import psutil

import penstock.wire.task_client
import services.task_manager.loops.specs
from penstock.control.clock import SystemClock
from penstock.control.errors import RetryableError
from penstock.identity.outgoing import Outgoing
from penstock.model.reports import TaskProgress
from penstock.spark.channel import Command
from penstock.tasks.ownership import OwnedShards
from penstock.wire.cluster import Capacity, HeartbeatAnswer, HeartbeatRequest, Identity
from penstock.wire.endpoints import Endpoints
from penstock.wire.shard_client import ShardManagerClient
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.container import Container
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.task_manager import TaskManager
from services.task_manager.settings import TaskManagerSettings
from tests.simulation.sharing import Shared, Snapshots
from tests.support.identity import container
from tests.support.task_manager.fake_hosts import FakeHost, FakeHosts

CAPACITY = Capacity(cpu_cores=8.0, memory_bytes=2**35, disk_bytes=2**38)
BATCH_SECONDS = 10.0
TICK_SECONDS = 5.0
"""The product's second is work of the containers' own machines, which the machine of the bench would have to do."""
_STACK_BYTES = 512 * 1024
_HTTP_OVERHEAD_BYTES = 20


class Traffic:
    """Bytes that clients sent and received: lines, headers and bodies as they travel."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()

    def count(self, client: Endpoints) -> None:
        """Counts all that this client sends from now on."""
        client._client.event_hooks = {"request": [self._sent], "response": [self._received]}

    def _sent(self, request: httpx.Request) -> None:
        self._add(request.headers, len(request.method) + len(request.url.raw_path) + len(request.content))

    def _received(self, response: httpx.Response) -> None:
        response.read()
        self._add(response.headers, response.num_bytes_downloaded)

    def _add(self, headers: httpx.Headers, more: int) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in headers.raw)
        with self._lock:
            self.bytes += size + more + _HTTP_OVERHEAD_BYTES


class TimedShardManager(ShardManagerClient):
    """Notes how long each heartbeat took, in seconds."""

    def __init__(self, url: str, taken: list[float], caller: Outgoing) -> None:
        super().__init__(url, identity=caller)
        self._taken = taken

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        began = time.perf_counter()
        answer = super().heartbeat(request)
        self._taken.append(time.perf_counter() - began)
        return answer


class ObedientHosts(FakeHosts):
    """Hosts that do at once what they are told."""

    def start(self, *args: Any) -> FakeHost:
        host = super().start(*args)
        host.send = lambda command: self._send(host, command)  # type: ignore[method-assign]
        host.become_ready()
        return host

    def _send(self, host: FakeHost, command: Command) -> None:
        FakeHost.send(host, command)
        host.sent.clear()
        host.leases.clear()
        host.answer()

    def speak(self) -> None:
        """At each tick: the newest batch of each task, of which there is one every ten seconds."""
        progress = TaskProgress(
            batch_id=int(time.monotonic() / BATCH_SECONDS),
            batch_seconds=0.2,
            input_rows=100,
            input_rows_per_second=10.0,
            processed_rows_per_second=500.0,
            backlog_records=0,
        )
        for host in self.alive():
            host.speak(dict.fromkeys(host.tasks, progress))


class NoDisk:
    """In the place of the files of a Task Manager."""

    def load(self) -> None:
        return None

    def save(self, *_: Any) -> None:
        """Nothing is kept."""

    def former(self) -> tuple[str, ...]:
        return ()

    asking = granted = save


class NoStore:
    """In the place of a container's lease in the store: the Shard Manager of a bench does not go away."""

    def renew(self, incarnation: str) -> OwnedShards:
        raise RetryableError(f"{incarnation} has no store")

    adopt = renew


class SimulatedContainer:
    """One container and its loops."""

    def __init__(self, name: str, urls: tuple[str, str], traffic: Traffic, taken: list[float]) -> None:
        specs_url, manager_url = urls
        lives, clock = count(1), SystemClock()
        self.settings = TaskManagerSettings(container=name, reconcile_seconds=TICK_SECONDS)
        self.hosts = ObedientHosts()
        identity = Identity(container=name, url="http://127.0.0.1:9", region="local", capacity=CAPACITY)
        limits = self.settings.for_hosts(1.0).model_copy(update={"host_silent_seconds": 1e6, "host_hung_seconds": 1e6})
        self.container = Container(identity, limits, self.hosts, clock, lambda: f"{name}-{next(lives)}")
        caller = container(name)
        self.authority = TimedShardManager(manager_url, taken, caller)
        self.tasks = TaskServiceClient(specs_url, identity=caller)
        for client in (self.authority, self.tasks):
            traffic.count(client)
        no: Any = NoDisk()
        store: Any = NoStore()
        heartbeats = HeartbeatLoop(self.container, self.authority, store, no, clock, self.settings)
        self.specs = SpecLoop(self.container, self.tasks, no, clock, self.settings, Random(name))
        manager = TaskManager(self.container, heartbeats, self.specs, self.tasks, clock, self.settings, Random(name))
        self.steps: tuple[Callable[[], float], ...] = (heartbeats.step, manager.report, self._tick)

    def _tick(self) -> float:
        self.hosts.speak()
        self.container.tick()
        return self.settings.reconcile_seconds

    def close(self) -> None:
        self.authority.close()
        self.tasks.close()


class Fleet:
    """Many containers, whose steps come due on shared threads."""

    def __init__(self, count_: int, urls: tuple[str, str], *, threads: int = 24) -> None:
        self.traffic, self.heartbeats, self.failures = Traffic(), [], 0
        self.members = [SimulatedContainer(f"c{n:04d}", urls, self.traffic, self.heartbeats) for n in range(count_)]
        self._pool = ThreadPoolExecutor(threads)
        self._due: list[tuple[float, int, Callable[[], float]]] = []
        self._changed = threading.Condition()
        self._numbers = count()
        self._stopping = threading.Event()

    def running(self) -> int:
        """Tasks that run."""
        return sum(len(host.tasks) for member in self.members for host in member.hosts.alive())

    @contextmanager
    def at_work(self, spread_seconds: float) -> Iterator[None]:
        """All loops run until the end of the block; they begin within `spread_seconds`."""
        threading.stack_size(_STACK_BYTES)
        now = time.monotonic()
        for number, member in enumerate(self.members):
            begin = now + spread_seconds * number / len(self.members)
            for step in member.steps:
                self._later(begin, step)
            threading.Thread(target=self._fetch, args=(member, begin), daemon=True).start()
        threading.Thread(target=self._dispatch, daemon=True).start()
        try:
            yield
        finally:
            self._stopping.set()
            with self._changed:
                self._changed.notify_all()
            self._pool.shutdown(cancel_futures=True)
            for member in self.members:
                member.close()

    def _fetch(self, member: SimulatedContainer, begin: float) -> None:
        self._stopping.wait(max(0.0, begin - time.monotonic()))
        while not self._stopping.is_set():
            self._stopping.wait(self._safely(member.specs.step))

    def _safely(self, step: Callable[[], float]) -> float:
        try:
            return step()
        except Exception as error:
            if not self._stopping.is_set():
                self.failures += 1
                if not isinstance(error, RetryableError):
                    raise
            return 2.0

    def _later(self, at: float, step: Callable[[], float]) -> None:
        with self._changed:
            heapq.heappush(self._due, (at, next(self._numbers), step))
            self._changed.notify_all()

    def _dispatch(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                wait = self._due[0][0] - time.monotonic() if self._due else 1.0
                if wait > 0:
                    self._changed.wait(min(wait, 1.0))
                    continue
                _, _, step = heapq.heappop(self._due)
            self._pool.submit(self._run, step)

    def _run(self, step: Callable[[], float]) -> None:
        began = time.monotonic()
        pause = self._safely(step)
        if not self._stopping.is_set():
            self._later(began + pause, step)


@contextmanager
def shared_results() -> Iterator[None]:
    """What containers compute from equal bytes is computed once, until the end of the block."""
    client, loop = penstock.wire.task_client, services.task_manager.loops.specs
    snapshot, updated = client.Snapshot, loop.updated
    client.Snapshot = Locked(Snapshots(snapshot.model_validate_json).model_validate_json)  # type: ignore[misc,assignment]
    loop.updated = Locked(Shared(updated, 2))  # type: ignore[assignment]
    try:
        yield
    finally:
        client.Snapshot, loop.updated = snapshot, updated  # type: ignore[misc]


class Locked:
    """One thread at a time computes, the others wait for its result."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call, self._lock = call, threading.Lock()

    def __call__(self, *values: Any) -> Any:
        with self._lock:
            return self._call(*values)

    model_validate_json = __call__


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and of all that it has started, also of those that have ended."""
    root, total = psutil.Process(pid), 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
