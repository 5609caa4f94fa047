"""The function of each kind of host task, and the host tasks of this host that have not ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.config.declare import Model
from penstock.control.errors import Conflict
from penstock.spark.analysis.analyse import analyse_job
from penstock.spark.collect import collect
from penstock.spark.initialize import initialize
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.seal import seal
from penstock.spark.savepoint.take import remove, take
from penstock.spark.task import Runtime
from penstock.tasks.host_task import (
    ANALYSE,
    INITIALIZE_SINK,
    REDISTRIBUTE,
    REMOVE_GENERATION,
    REMOVE_SAVEPOINT,
    SEAL,
    TAKE_SAVEPOINT,
    HostTask,
)

Handler = Callable[[Runtime, Any], Model | None]

HANDLERS: Mapping[str, Handler] = {
    REDISTRIBUTE: redistribute,
    SEAL: seal,
    INITIALIZE_SINK: initialize,
    TAKE_SAVEPOINT: take,
    REMOVE_SAVEPOINT: remove,
    REMOVE_GENERATION: collect,
    ANALYSE: analyse_job,
}
"""By kind. Each is given the runtime and the kind's request, may be repeated, and returns the kind's `Report`."""


class RunningHostTasks:
    """The host tasks that this host was given and that have not ended. `require_lease` raises without a good lease."""

    def __init__(self, runtime: Runtime, require_lease: Callable[[], None]) -> None:
        self._runtime = runtime
        self._require_lease = require_lease
        self._lock = threading.Lock()
        self._cancelled: dict[str, threading.Event] = {}

    def accept(self, task: HostTask) -> Callable[[], dict[str, Any]]:
        """Records a task; the returned function carries it out. Raises what the kind's handler raises."""
        cancelled = threading.Event()
        with self._lock:
            self._cancelled[task.key] = cancelled

        return partial(self._run, task, cancelled)

    def cancel(self, key: str) -> None:
        """The task must not begin, and must claim no checkpoint from now on (`Runtime.before_claim`)."""
        with self._lock:
            cancelled = self._cancelled.get(key)
        if cancelled is not None:
            cancelled.set()

    def _run(self, task: HostTask, cancelled: threading.Event) -> dict[str, Any]:
        def require_wanted() -> None:
            self._require_lease()
            if cancelled.is_set():
                raise Conflict(f"{task.key} was cancelled", field="key", rule="not_cancelled")

        try:
            require_wanted()
            runtime = replace(self._runtime, before_claim=require_wanted)
            report = HANDLERS[task.request.kind](runtime, task.request)
            return {} if report is None else report.model_dump(mode="json")
        finally:
            with self._lock:
                if self._cancelled.get(task.key) is cancelled:
                    del self._cancelled[task.key]
