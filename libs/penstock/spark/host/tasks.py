"""The tasks of a host: what runs, how far it is, what ended by itself."""

from __future__ import annotations

import json
import threading
from time import monotonic, time
from typing import Any

from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.model.reports import TaskProgress, TaskState
from penstock.spark.channel import Access, TaskEnded
from penstock.spark.failures import Cause, classify
from penstock.spark.fence import Mark
from penstock.spark.host.levels import TaskLevels
from penstock.spark.measure import late, traffic, unread
from penstock.spark.measure.malformed import Count, Seen, reason, with_count
from penstock.spark.measure.own_rows import Record, with_own_rows
from penstock.spark.measure.progress import (
    not_awaited,
    rows_per_offset,
    task_progress,
    with_open_batch,
    with_unreadable,
)
from penstock.spark.measure.quiet import is_quiet, with_quiet
from penstock.spark.measure.rates import rates, warm_from, with_batch, work
from penstock.spark.prepared import PreparedTasks
from penstock.spark.producers import accepts_late
from penstock.spark.session import release_frames
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

NO_ACCESS = Access()
_INTERRUPT_SECONDS = 2.0
_NO_CAUSE = Cause("StreamingQueryException", "the query ended without an error")


class TaskTable:
    """Tasks by id. Commands of one task come one at a time (`TaskQueues`); polls may come in between."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._tasks: dict[str, RunningTask] = {}
        self._has_garbage = False
        self._levels = TaskLevels(runtime.settings.max_concurrent_starts)
        self._warm_from: float | None = None
        self._prepared = PreparedTasks()

    def start(self, spec: TaskSpec, epoch: int, commit_number: int = 0, access: Access = NO_ACCESS) -> dict[str, Any]:
        """Starts a task, which may use what `access` has; one that runs already with this spec and epoch is left alone.

        Raises Unavailable when it runs with another, otherwise what `RunningTask.start` raises.
        """
        task = self._tasks.get(spec.task_id)
        if task is not None:
            if task.spec != spec or task.epoch != epoch:
                raise Unavailable(f"{spec.task_id} runs with another spec or epoch: stop it first")
            return _describe(task)
        runtime = self._runtime.for_job(access)
        task = RunningTask(runtime, spec, epoch, Mark(commit_number))
        with self._lock:
            self._tasks[spec.task_id] = task
        # What is being prepared is awaited; from here on nothing is (`prepare`).
        task.prepared = self._prepared.take(spec, runtime.settings, monotonic())
        try:
            task.start()
        except BaseException:
            self._remove_unless_active(task)
            raise
        task.state = TaskState.RUNNING
        return _describe(task)

    def prepare(
        self, spec: TaskSpec, access: Access = NO_ACCESS, given_up: threading.Event | None = None
    ) -> dict[str, Any]:
        """Makes what a start of the task with this spec needs and that can be made before it. Safe to repeat.

        `given_up`, once it is set: it is not wanted any more. Raises what `make_frame` raises; nothing changes then.
        """
        if self._has_begun(spec):
            return {"prepared": False}
        name, watch = _name_of_prepare(spec.task_id, spec.generation), self._runtime.watch
        watch.starts(self._runtime.java_context, name)
        try:
            made = self._prepared.make(self._runtime.for_job(access), spec, monotonic(), given_up)
        finally:
            watch.started(self._runtime.java_context, name)
        # The start may have come just before it was noted that something is being made.
        is_late = self._has_begun(spec) and self._prepared.give_up(spec.task_id)
        self._has_garbage |= is_late or not made
        return {"prepared": made and not is_late}

    def give_up(self, task_id: str, generation: int) -> dict[str, Any]:
        """What was made ahead for the task of this generation, or is being made, is not wanted any more. What waits in
        the JVM is interrupted."""
        self._has_garbage |= self._prepared.give_up(task_id, generation)
        self._runtime.watch.interruptStart(self._runtime.java_context, _name_of_prepare(task_id, generation))
        return {}

    def _has_begun(self, spec: TaskSpec) -> bool:
        """Whether the task of this generation, or of a later one, starts or runs."""
        task = self._tasks.get(spec.task_id)
        return task is not None and task.spec.generation >= spec.generation

    def stop(self, task_id: str, *, finish_pending: bool, patient: bool = True) -> dict[str, Any]:
        """Stops a task; one that does not run is stopped already. Raises what `RunningTask.stop` raises."""
        task = self._tasks.get(task_id)
        if task is None:
            return {"was_running": False}
        task.state = TaskState.STOPPING
        try:
            return {"was_running": True, **task.stop(finish_pending=finish_pending, patient=patient)._asdict()}
        except BaseException:
            self._runtime.consumers.failed(task.spec.job)
            raise
        finally:
            self._remove_unless_active(task)

    def hurry_start(self, task_id: str, is_over: threading.Event) -> None:
        """Waits for the end of a start as long as for the end of a batch, then interrupts it until it is over."""
        if is_over.wait(self._runtime.settings.boundary_wait_seconds):
            return
        while not is_over.wait(_INTERRUPT_SECONDS):
            if self._runtime.watch.interruptStart(self._runtime.java_context, task_id):
                log.warning("start interrupted", task=task_id)

    def live(self, spec: TaskSpec) -> dict[str, Any]:
        """From now on the task's spec is `spec` (`RunningTask.follow`). Raises Unavailable when it does not run."""
        task = self._tasks.get(spec.task_id)
        if task is None:
            raise Unavailable(f"{spec.task_id} does not run here")
        task.follow(spec)
        return _describe(task)

    def ids(self) -> list[str]:
        """The tasks that run, start or stop."""
        with self._lock:
            return list(self._tasks)

    def running(self) -> dict[str, RunningTask]:
        """The tasks that run, by id."""
        with self._lock:
            return {task_id: task for task_id, task in self._tasks.items() if task.state is TaskState.RUNNING}

    def awaits_quiet(self) -> bool:
        """Whether a running task has an order to take no more rows and has not said that it is quiet."""
        return any(task.spec.quiescing and not is_quiet(task.progress, task.spec) for task in self.running().values())

    def poll(self) -> tuple[dict[str, TaskProgress], list[TaskEnded]]:
        """The newest progress by task, and the tasks whose query has ended by itself, which are removed."""
        ended = []
        for record in json.loads(self._runtime.watch.poll()):
            task = self._tasks.get(record["task"])
            if task is None or task.run_id != record["run"] or task.state is TaskState.STOPPING:
                continue
            if "progress" in record:
                self._warm_from = warm_from(self._warm_from, record["progress"], time())
                _take_in(task, record, self._warm_from, self._runtime.settings.late_alert_rows)
            if "open" in record:
                _take_in_open(task, record["open"])
            task.progress = with_unreadable(task.progress, task.input_problems)
            if task.progress is not None:
                task.progress = unread.oldest_at_most(task.progress, task.newest, task.unread_since, time())
            can_be_cut = self._levels.can_be_cut(task)
            quiet = None if can_be_cut is None else record.get("quiet")
            told, records = can_be_cut is True, self._levels.records(task.spec.task_id)
            task.progress = with_quiet(task.progress, task.spec, quiet, says_watermark=told, records=records)
            if not record["active"] and task.state is TaskState.RUNNING:
                ended.append(self._end(task, record.get("causes", [])))
        with self._lock:
            progress = {task_id: task.progress for task_id, task in self._tasks.items() if task.progress}
        self._collect_garbage()
        return progress, ended

    def _collect_garbage(self) -> None:
        """Lets the JVM free the sessions of tasks that were removed since the last poll.

        The host freezes all that it has imported, or such a collection would take a good part of a second.
        """
        if self._prepared.forget_old(monotonic()) or self._has_garbage:
            self._has_garbage = False
            release_frames()

    def _end(self, task: RunningTask, causes: list[dict[str, str]]) -> TaskEnded:
        task.forget()
        self._remove(task)
        self._runtime.consumers.failed(task.spec.job)
        failure = classify([Cause(**cause) for cause in causes] or [_NO_CAUSE])
        log.warning("task ended", task=task.spec.task_id, revision=task.spec.revision, kind=failure.error_kind)
        return TaskEnded(task_id=task.spec.task_id, **vars(failure))

    def _remove_unless_active(self, task: RunningTask) -> None:
        """A query that could not be stopped stays listed: whoever asks must not take it for gone."""
        if not task.is_active:
            self._remove(task)

    def _remove(self, task: RunningTask) -> None:
        with self._lock:
            self._tasks.pop(task.spec.task_id, None)
        self._levels.forget(task.spec.task_id)
        self._has_garbage = True


def _name_of_prepare(task_id: str, generation: int) -> str:
    """Beside starts of the same task, whose names are their ids."""
    return f"{task_id} of generation {generation}, ahead"


def _take_in(task: RunningTask, record: Record, warm_from: float | None, late_alert_rows: int) -> None:
    now = time()
    progress = with_own_rows(record["progress"], task.spec.config)
    task.traffic = traffic.with_record(task.traffic, progress)
    task.batches = with_batch(task.batches, progress, now, warm_from=warm_from)
    task.newest = unread.with_newest(task.newest, progress)
    task.rows_per_offset = rows_per_offset(progress)
    more: dict[str, Any] = {
        "key_group_rates": traffic.rates(task.traffic),
        "malformed_records": record.get("malformed"),
    }
    more |= rates(task.batches, now)._asdict() | work(task.batches, now)._asdict()
    task.unread_since = unread.unread_since(task.newest, progress)
    more["input_problems"] = _input_problems(task, record, late_alert_rows)
    task.progress = task_progress(progress).model_copy(update=more)


def _input_problems(task: RunningTask, record: Record, late_alert_rows: int) -> dict[str, str]:
    """What is wrong with the inputs, by kind of alert, after one more record of the task."""
    spec, malformed, late_rows = task.spec, record.get("malformed"), record.get("lateRows")
    problems = {**task.input_problems, **not_awaited(record["progress"], accepts_late=accepts_late(spec.config))}
    if malformed is not None:
        inputs = {name: Seen(*counted) for name, counted in record["records"].items()}
        task.malformed = with_count(task.malformed, Count(monotonic(), inputs))
        problems |= reason(task.malformed, spec.job, spec.config, lambda: task.goes_by_time)
    if late_rows is not None:
        task.late = with_count(task.late, late.count(monotonic(), late_rows))
        problems |= late.reason(task.late, spec.config, late_alert_rows)
    return problems


def _take_in_open(task: RunningTask, opened: dict[str, Any]) -> None:
    task.newest = unread.with_open_newest(task.newest, opened, time())
    task.unread_since = unread.unread_since(task.newest, opened, read="startOffset")
    task.progress = with_open_batch(task.progress or TaskProgress(), opened, task.rows_per_offset)


def _describe(task: RunningTask) -> dict[str, Any]:
    spec = task.spec
    return {
        "state": task.state.value,
        "revision": spec.revision,
        "generation": spec.generation,
        "restarts": spec.restarts,
        "epoch": task.epoch,
        "token": task.token,
        "checkpoint": task.checkpoint,
    }
