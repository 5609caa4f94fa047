"""A Task Manager that runs nothing: it heartbeats and obeys orders about shards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from penstock.wire.cluster import Capacity, HeartbeatAnswer, HeartbeatRequest, ShardAnswers, ShardOrders, as_json
from tests.support import calls, identity
from tests.support.shard_manager.manager import RunningShardManager

CAPACITY = Capacity(cpu_cores=2.0, memory_bytes=2**31, disk_bytes=2**34)


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
        response = calls.post(
            f"{manager.url}/v1/heartbeats",
            json=as_json(request),
            timeout=10,
            auth=identity.auth_of_container(self.name),
        )
        if response.status_code != 200:
            self.refusal = response
            return None
        self.refusal = None
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
