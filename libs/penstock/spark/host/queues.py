"""Work of different tasks at the same time, work of one task in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Work = Callable[[], Any]
Done = Callable[["Future[Any]"], None]


class TaskQueues:
    """A thread pool that never runs two pieces of work of the same key at once."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="task-command")
        self._lock = threading.Lock()
        # The head of a queue is being run.
        self._waiting: dict[str, deque[tuple[Work, Done]]] = {}

    def submit(self, key: str, work: Work, done: Done) -> None:
        """Runs `work` after all earlier work of `key`, then `done` with its future; returns at once."""
        with self._lock:
            queue = self._waiting.setdefault(key, deque())
            queue.append((work, done))
            is_first = len(queue) == 1
        if is_first:
            self._launch(key, work, done)

    def _launch(self, key: str, work: Work, done: Done) -> None:
        self._pool.submit(work).add_done_callback(lambda future: self._finish(key, future, done))

    def _finish(self, key: str, future: Future[Any], done: Done) -> None:
        done(future)
        with self._lock:
            queue = self._waiting[key]
            queue.popleft()
            if not queue:
                del self._waiting[key]
                return
            work, next_done = queue[0]
        self._launch(key, work, next_done)
