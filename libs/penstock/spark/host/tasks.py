"""The tasks of a host: what runs, how far it is, what ended by itself."""

from __future__ import annotations

import gc
import json
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.model.reports import TaskProgress, TaskState
from penstock.spark.channel import TaskEnded
from penstock.spark.failures import Cause, classify
from penstock.spark.fence import Mark
from penstock.spark.measure.progress import task_progress
from penstock.spark.measure.traffic import Samples, rates, with_record
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

_NO_CAUSE = Cause("StreamingQueryException", "the query ended without an error")


@dataclass
class _Entry:
    task: RunningTask
    state: TaskState
    progress: TaskProgress | None = None
    traffic: Samples = ()


class Running(NamedTuple):
    """A task that runs. `run` is Spark's id of its query."""

    spec: TaskSpec
    run: str | None
    checkpoint: str
    progress: TaskProgress | None


@dataclass(frozen=True)
class PollResult:
    """One poll of all queries: the progress of running ones, and the queries that ended by themselves."""

    progress: dict[str, TaskProgress]
    ended: tuple[TaskEnded, ...]


class TaskTable:
    """Tasks by id. Commands of one task come one at a time (`TaskQueues`); polls may come in between."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._has_garbage = False

    def start(self, spec: TaskSpec, epoch: int, commit_number: int = 0) -> dict[str, Any]:
        """Starts a task; one that runs already with this spec and epoch is left alone.

        Raises Unavailable when it runs with another, otherwise what `RunningTask.start` raises.
        """
        entry = self._entries.get(spec.task_id)
        if entry is not None:
            return self._describe_same(entry, spec, epoch)
        entry = _Entry(RunningTask(self._runtime, spec, epoch, Mark(commit_number)), TaskState.STARTING)
        with self._lock:
            self._entries[spec.task_id] = entry
        try:
            entry.task.start()
        except BaseException:
            self._remove_unless_active(entry)
            raise
        entry.state = TaskState.RUNNING
        return _describe(entry)

    def stop(self, task_id: str, *, finish_pending: bool, patient: bool = True) -> dict[str, Any]:
        """Stops a task; one that does not run is stopped already. Raises what `RunningTask.stop` raises."""
        entry = self._entries.get(task_id)
        if entry is None:
            return {"was_running": False}
        entry.state = TaskState.STOPPING
        try:
            outcome = entry.task.stop(finish_pending=finish_pending, patient=patient)
        finally:
            self._remove_unless_active(entry)
        return {
            "was_running": True,
            "clean": outcome.clean,
            "last_offset": outcome.last_offset,
            "last_commit": outcome.last_commit,
        }

    def live(self, spec: TaskSpec) -> dict[str, Any]:
        """From now on the task's spec is `spec`. Raises Unavailable when the task does not run."""
        entry = self._entries.get(spec.task_id)
        if entry is None:
            raise Unavailable(f"{spec.task_id} does not run here")
        entry.task.spec = spec
        return _describe(entry)

    def ids(self) -> list[str]:
        """The tasks that run, start or stop."""
        with self._lock:
            return list(self._entries)

    def running(self) -> dict[str, Running]:
        """The tasks that run, by id."""
        with self._lock:
            entries = dict(self._entries)
        return {
            task_id: Running(entry.task.spec, entry.task.run_id, entry.task.checkpoint, entry.progress)
            for task_id, entry in entries.items()
            if entry.state is TaskState.RUNNING
        }

    def poll(self) -> PollResult:
        """Stores the newest progress and removes the tasks whose query has ended by itself."""
        ended = []
        for record in json.loads(self._runtime.watch.poll()):
            entry = self._entries.get(record["task"])
            if entry is None or entry.task.run_id != record["run"] or entry.state is TaskState.STOPPING:
                continue
            if "progress" in record:
                _take_in(entry, record["progress"])
            if not record["active"] and entry.state is TaskState.RUNNING:
                ended.append(self._end(entry, record.get("causes", [])))
        with self._lock:
            progress = {task_id: entry.progress for task_id, entry in self._entries.items() if entry.progress}
        self._collect_garbage()
        return PollResult(progress, tuple(ended))

    def _collect_garbage(self) -> None:
        """Lets the JVM free the sessions of tasks that were removed since the last poll.

        A data frame and its session refer to each other, so Python gives them up only in a full collection of garbage.
        The host freezes all that it has imported, or such a collection would take a good part of a second.
        """
        if self._has_garbage:
            self._has_garbage = False
            gc.collect()

    def _end(self, entry: _Entry, causes: list[dict[str, str]]) -> TaskEnded:
        task_id = entry.task.spec.task_id
        entry.task.forget()
        self._remove(task_id)
        failure = classify([Cause(**cause) for cause in causes] or [_NO_CAUSE])
        log.warning("task ended", task=task_id, revision=entry.task.spec.revision, kind=failure.error_kind)
        return TaskEnded(
            task_id=task_id,
            error=failure.error,
            error_kind=failure.error_kind,
            out_of_memory=failure.out_of_memory,
        )

    def _remove_unless_active(self, entry: _Entry) -> None:
        """A query that could not be stopped stays listed: whoever asks must not take it for gone."""
        if not entry.task.is_active:
            self._remove(entry.task.spec.task_id)

    def _remove(self, task_id: str) -> None:
        with self._lock:
            self._entries.pop(task_id, None)
        self._has_garbage = True

    def _describe_same(self, entry: _Entry, spec: TaskSpec, epoch: int) -> dict[str, Any]:
        if entry.task.spec != spec or entry.task.epoch != epoch:
            raise Unavailable(f"{spec.task_id} runs with another spec or epoch: stop it first")
        return _describe(entry)


def _take_in(entry: _Entry, progress: dict[str, Any]) -> None:
    entry.traffic = with_record(entry.traffic, progress)
    entry.progress = task_progress(progress).model_copy(update={"key_group_rates": rates(entry.traffic)})


def _describe(entry: _Entry) -> dict[str, Any]:
    spec = entry.task.spec
    return {
        "state": entry.state.value,
        "revision": spec.revision,
        "generation": spec.generation,
        "restarts": spec.restarts,
        "epoch": entry.task.epoch,
        "token": entry.task.token,
        "checkpoint": entry.task.checkpoint,
    }
