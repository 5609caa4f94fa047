"""Work of different tasks at the same time, work of one task in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

Work = Callable[[], Any]
Done = Callable[["Future[Any]"], None]

_URGENT_THREADS = 128


class _Job(NamedTuple):
    work: Work
    done: Done
    urgent: bool


class TaskQueues:
    """A thread pool that never runs two pieces of work of the same key at once.

    Urgent work has threads of its own: it waits for earlier work of its key only. Otherwise the stop of a task would
    wait for starts and host tasks of others, and for stops that wait for the end of their batches.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="task-command")
        self._urgent_pool = ThreadPoolExecutor(_URGENT_THREADS, thread_name_prefix="urgent-command")
        self._lock = threading.Lock()
        # The head of a queue is being run.
        self._waiting: dict[str, deque[_Job]] = {}

    def submit(self, key: str, work: Work, done: Done, *, urgent: bool = False) -> None:
        """Runs `work` after all earlier work of `key`, then `done` with its future; returns at once."""
        job = _Job(work, done, urgent)
        with self._lock:
            queue = self._waiting.setdefault(key, deque())
            queue.append(job)
            is_first = len(queue) == 1
        if is_first:
            self._launch(key, job)

    def _launch(self, key: str, job: _Job) -> None:
        pool = self._urgent_pool if job.urgent else self._pool
        pool.submit(job.work).add_done_callback(lambda future: self._finish(key, future, job.done))

    def _finish(self, key: str, future: Future[Any], done: Done) -> None:
        done(future)
        with self._lock:
            queue = self._waiting[key]
            queue.popleft()
            if not queue:
                del self._waiting[key]
                return
            following = queue[0]
        self._launch(key, following)
