"""What runs here, in the words of the wire. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.tasks.dimensions import Amounts
from penstock.tasks.spec import task_id as name_of
from penstock.wire.cluster import TaskProgress, TaskReport, TaskReportBatch, TaskState
from services.task_manager.model import Crash, HostKey, TaskView, WantedTask
from services.task_manager.placement import host_key
from services.task_manager.reconcile import Running


def task_reports(
    wanted: Mapping[str, WantedTask],
    running: Running,
    progress: Mapping[str, TaskProgress],
    loads: Mapping[str, Amounts],
) -> tuple[TaskReport, ...]:
    """ALL tasks of the container in order of id: those on hosts, and wanted ones that wait after a failure or are held.

    `loads` has those that are to be told, by task.
    """
    reports = {
        task_id: _of_task(task, running.crashes.get(task_id), progress.get(task_id), loads.get(task_id))
        for task_id, task in running.tasks.items()
    }
    for task_id, task in wanted.items():
        report = _of_waiting(task, running) if task_id not in reports else None
        if report is not None:
            reports[task_id] = report
    return tuple(reports[task_id] for task_id in sorted(reports))


def told_loads(batch: TaskReportBatch) -> dict[str, dict[str, float]]:
    """The loads that a report has, by task."""
    return {name_of(task.job, task.index): task.load for task in batch.tasks if task.load is not None}


def skews(progress: Mapping[str, TaskProgress]) -> dict[str, float]:
    """Event-time skew in seconds by task; tasks of which it is unknown are absent."""
    known = {task_id: measured.event_time_skew_seconds for task_id, measured in progress.items()}
    return {task_id: seconds for task_id, seconds in known.items() if seconds is not None}


def _of_task(task: TaskView, crash: Crash | None, progress: TaskProgress | None, load: Amounts | None) -> TaskReport:
    spec = task.spec
    return TaskReport(
        job=spec.job,
        index=spec.index,
        state=task.state,
        revision=spec.revision,
        generation=spec.generation,
        restarts=spec.restarts,
        epoch=task.epoch,
        crashes=crash.count if crash else 0,
        error=crash.error if crash else None,
        out_of_memory=crash.out_of_memory if crash else False,
        progress=progress,
        load=None if load is None else dict(load),
    )


def _of_waiting(task: WantedTask, running: Running) -> TaskReport | None:
    if task.refusal is not None:
        return _not_started(task, TaskState.HELD, task.refusal)
    crash = running.crashes.get(task.spec.task_id)
    if crash is not None:
        return _crashed(crash)
    failure = running.host_failures.get(host_key(task.spec)) if running.host_failures else None
    if failure is None:
        return None
    error = f"its Spark host did not start: {failure.error}"
    return _not_started(task, TaskState.CRASHED, error, crashes=failure.count)


def _crashed(crash: Crash) -> TaskReport:
    """The revision is the one that crashed: the wanted one may not have been tried yet."""
    return TaskReport(
        job=crash.spec.job,
        index=crash.spec.index,
        state=TaskState.CRASHED,
        revision=crash.spec.revision,
        generation=crash.spec.generation,
        restarts=crash.spec.restarts,
        epoch=crash.epoch,
        crashes=crash.count,
        error=crash.error,
        out_of_memory=crash.out_of_memory,
    )


def _not_started(task: WantedTask, state: TaskState, error: str, *, crashes: int = 0) -> TaskReport:
    spec = task.spec
    return TaskReport(
        job=spec.job,
        index=spec.index,
        state=state,
        revision=spec.revision,
        generation=spec.generation,
        restarts=spec.restarts,
        epoch=task.epoch,
        crashes=crashes,
        error=error,
    )


def host_labels(key: HostKey) -> dict[str, object]:
    """A host's key for people."""
    name, version, _ = key.package
    return {
        "package": name,
        "version": version,
        "isolated_task": key.isolated_task or None,
        "memory_bytes": key.memory_bytes or None,
        "settings": dict(key.static_settings),
    }
