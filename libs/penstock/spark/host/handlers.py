"""The function of each kind of host task, and the host tasks of this host that have not ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from penstock.config.declare import Model
from penstock.control.clock import Clock
from penstock.control.errors import Conflict, Unavailable
from penstock.control.logs import logger
from penstock.spark.analysis.analyse import analyse_job
from penstock.spark.channel import Access
from penstock.spark.collect import collect
from penstock.spark.host.queues import Done, TaskQueues
from penstock.spark.host.tasks import NO_ACCESS
from penstock.spark.initialize import initialize
from penstock.spark.profile import profile
from penstock.spark.redistribute.copy import copy_state
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.seal import seal
from penstock.spark.savepoint.foreign import import_checkpoint
from penstock.spark.savepoint.take import remove, take
from penstock.spark.task import Runtime
from penstock.tasks.host_task import (
    ANALYSE,
    COPY_STATE,
    IMPORT_CHECKPOINT,
    INITIALIZE_SINK,
    POLICIES,
    PROFILE,
    REDISTRIBUTE,
    REMOVE_GENERATION,
    REMOVE_SAVEPOINT,
    SEAL,
    TAKE_SAVEPOINT,
    HostTask,
)

log = logger(__name__)

Handler = Callable[[Runtime, Any], Model | None]

HANDLERS: Mapping[str, Handler] = {
    COPY_STATE: copy_state,
    REDISTRIBUTE: redistribute,
    SEAL: seal,
    INITIALIZE_SINK: initialize,
    TAKE_SAVEPOINT: take,
    IMPORT_CHECKPOINT: import_checkpoint,
    REMOVE_SAVEPOINT: remove,
    REMOVE_GENERATION: collect,
    ANALYSE: analyse_job,
    PROFILE: profile,
}
"""By kind. Each is given the runtime and the kind's request, may be repeated, and returns the kind's `Report`."""


class _Begun(NamedTuple):
    """A task that runs, and since when."""

    task: HostTask
    at: float


class RunningHostTasks:
    """The host tasks that this host was given and that have not ended. `require_lease` raises without a good lease.

    They have `threads` of their own: one that hangs takes nothing from commands of jobs' tasks. A host with tasks is
    not killed for a host task, so one that hangs keeps its thread.
    """

    def __init__(self, runtime: Runtime, require_lease: Callable[[], None], clock: Clock, threads: int) -> None:
        self._runtime = runtime
        self._require_lease = require_lease
        self._clock = clock
        self._threads = threads
        self._queues = TaskQueues(threads)
        self._lock = threading.Lock()
        self._cancelled: dict[str, threading.Event] = {}
        self._begun: dict[threading.Event, _Begun] = {}
        self._reported: set[threading.Event] = set()

    def submit(
        self, task: HostTask, done: Done, report: Callable[[str], None] = lambda text: None, access: Access = NO_ACCESS
    ) -> None:
        """Carries a task out, which may use what `access` has, and then calls `done`; returns at once. Meanwhile
        `report` gets its progress, in words.

        The error is what the kind's handler raises, or Unavailable while every thread has a task that hangs.
        """
        hung = self.hung()
        if len(hung) >= self._threads:
            refused: Future[Any] = Future()
            refused.set_exception(
                Unavailable(f"every thread of this host has a host task that runs past its limit: {_keys(hung)}")
            )
            done(refused)
            return
        cancelled = threading.Event()
        with self._lock:
            self._cancelled[task.key] = cancelled
        self._queues.submit(task.request.queue, partial(self._run, task, access, cancelled, report), done)

    def hung(self) -> Mapping[threading.Event, _Begun]:
        """The tasks that have run for longer than their kind may (`Policy.longest_seconds`)."""
        now = self._clock.monotonic()
        with self._lock:
            return {
                run: begun
                for run, begun in self._begun.items()
                if now - begun.at > POLICIES[begun.task.request.kind].longest_seconds
            }

    def report_hung(self) -> None:
        """One line in the log for each task that hangs."""
        hung = self.hung()
        for run, begun in hung.items():
            if run not in self._reported:
                seconds = round(self._clock.monotonic() - begun.at)
                log.error("host task hangs", key=begun.task.key, seconds=seconds, threads=self._threads)
        self._reported = set(hung)

    def cancel(self, key: str) -> None:
        """The task must not begin, and must claim no checkpoint from now on (`Runtime.before_claim`)."""
        with self._lock:
            cancelled = self._cancelled.get(key)
        if cancelled is not None:
            cancelled.set()

    def _run(
        self, task: HostTask, access: Access, cancelled: threading.Event, report: Callable[[str], None]
    ) -> dict[str, Any]:
        def require_wanted() -> None:
            self._require_lease()
            if cancelled.is_set():
                raise Conflict(f"{task.key} was cancelled", field="key", rule="not_cancelled")

        with self._lock:
            self._begun[cancelled] = _Begun(task, self._clock.monotonic())
        try:
            require_wanted()
            runtime = replace(self._runtime.for_job(access), before_claim=require_wanted, report=report)
            answer = HANDLERS[task.request.kind](runtime, task.request)
            return {} if answer is None else answer.model_dump(mode="json")
        finally:
            with self._lock:
                del self._begun[cancelled]
                if self._cancelled.get(task.key) is cancelled:
                    del self._cancelled[task.key]


def _keys(hung: Mapping[threading.Event, _Begun]) -> str:
    return ", ".join(sorted(begun.task.key for begun in hung.values()))
