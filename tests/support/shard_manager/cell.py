"""Shard Managers in this process on real ports and a real store, and small Task Managers that speak to them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from penstock.control.process import wait_until
from penstock.local.ports import free_port
from penstock.wire.cluster import Capacity, HeartbeatAnswer, HeartbeatRequest, ShardAnswers, ShardOrders, as_json
from services.shard_manager.leader.view import View
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.wiring import ShardManagerProcess, build

CAPACITY = Capacity(cpu_cores=2.0, memory_bytes=2**31, disk_bytes=2**34)
PERIODS: dict[str, Any] = {
    "shard_manager_round_seconds": 0.1,
    "shard_manager_lease_seconds": 1.0,
    "container_lease_seconds": 1.0,
    "fail_over_seconds": 2.0,
    "drop_deadline_seconds": 1.0,
    "drop_retry_seconds": 0.5,
    "gather_seconds": 0.3,
    "gather_limit_seconds": 1.0,
    "save_heartbeats_seconds": 0.2,
}


@contextmanager
def serving(app: FastAPI, port: int) -> Iterator[str]:
    """Serves `app` on a thread; its url."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, 10, "the server to start")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


class RunningShardManager:
    """A Shard Manager and where it is."""

    def __init__(self, url: str, process: ShardManagerProcess) -> None:
        self.url = url
        self.process = process

    @property
    def view(self) -> View:
        """What it knows."""
        return self.process.view

    def lead(self) -> RunningShardManager:
        """Waits until it leads and has read the store."""
        wait_until(lambda: self.process.loop.rounds > 0, 10, "the shard manager to lead")
        return self


@contextmanager
def shard_manager(database_url: str, **settings: Any) -> Iterator[RunningShardManager]:
    """A Shard Manager with short periods, on a free port."""
    port = free_port()
    values = {**PERIODS, "database_url": database_url, "port": port, **settings}
    process = build(ShardManagerSettings(**values))
    process.start()
    try:
        with serving(process.app, port) as url:
            yield RunningShardManager(url, process)
    finally:
        process.stop()


class SmallTaskManager:
    """Obeys orders as a Task Manager must, runs nothing. Heartbeats when told, or every `beat` seconds."""

    def __init__(
        self,
        name: str,
        incarnation: str = "1",
        *,
        region: str = "local",
        labels: dict[str, str] | None = None,
        answers_orders: bool = True,
    ) -> None:
        self.name = name
        self.region = region
        self.labels = labels or {}
        self.incarnation = incarnation
        self.answers_orders = answers_orders
        self.held: dict[int, int] = {}
        self.dropped: dict[int, int] = {}
        self.orders: list[tuple[str, ShardOrders]] = []
        self.answer: HeartbeatAnswer | None = None
        self.refusal: httpx.Response | None = None
        self._version = -1
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._run(self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def heartbeat(self, manager: RunningShardManager) -> HeartbeatAnswer | None:
        """One heartbeat; its answer, None when it was refused."""
        with self._lock:
            request = HeartbeatRequest(
                container=self.name,
                incarnation=self.incarnation,
                url=self.url,
                region=self.region,
                labels=self.labels,
                capacity=CAPACITY,
                held=dict(self.held),
                dropped=dict(self.dropped),
                shard_count=0 if self.answer is None else self.answer.shard_count,
            )
        response = httpx.post(f"{manager.url}/v1/heartbeats", json=as_json(request), timeout=10)
        if response.status_code != 200:
            self.refusal = response
            return None
        answer = HeartbeatAnswer.model_validate_json(response.content)
        self._take_in(answer)
        return answer

    def beat(self, manager: RunningShardManager, seconds: float = 0.1) -> SmallTaskManager:
        """Heartbeats for ever, on a thread. When its life is over for the Shard Manager, it begins another, empty."""

        def loop() -> None:
            while not self._stopping.wait(seconds):
                try:
                    answer = self.heartbeat(manager)
                except httpx.HTTPError:
                    continue
                if answer is not None and not answer.known:
                    self._begin_another_life()

        self._run(loop)
        return self

    def stop(self) -> None:
        """Ends without a word, as by `kill -9`."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _run(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _take_in(self, answer: HeartbeatAnswer) -> None:
        with self._lock:
            self.answer = answer
            if not answer.known or answer.version < self._version:
                return
            self._version = answer.version
            for shard in self.held.keys() - answer.shards.keys():
                self.dropped[shard] = self.held.pop(shard)
            self._add(answer.shards)

    def _begin_another_life(self) -> None:
        with self._lock:
            self.incarnation += "'"
            self.held, self.dropped, self._version, self.answer = {}, {}, -1, None

    def _add(self, shards: dict[int, int]) -> None:
        for shard, epoch in shards.items():
            if epoch > self.dropped.get(shard, -1):
                self.dropped.pop(shard, None)
                self.held[shard] = epoch

    def _obey(self, verb: str, order: ShardOrders) -> ShardAnswers:
        with self._lock:
            self.orders.append((verb, order))
            self._version = max(self._version, order.version)
            if verb == "add":
                self._add(order.shards)
            else:
                for shard, epoch in order.shards.items():
                    self.held.pop(shard, None)
                    self.dropped[shard] = epoch
            return ShardAnswers(tasks=dict.fromkeys(order.shards, ()))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = 500, {}
                if manager.answers_orders:
                    order = ShardOrders.model_validate_json(body)
                    status, answer = 200, as_json(manager._obey(self.path.rsplit("/", 1)[1], order))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Keeps the tests' output quiet."""

        return Handler


@contextmanager
def task_managers(*names: str, **options: Any) -> Iterator[list[SmallTaskManager]]:
    """Small Task Managers that are stopped at the end."""
    managers = [SmallTaskManager(name, **options) for name in names]
    try:
        yield managers
    finally:
        for manager in managers:
            manager.stop()
