"""What runs here: reports for the Task Service, and a summary for people and metrics. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.model.reports import ErrorClass, TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.tasks.dimensions import Amounts
from penstock.tasks.spec import TaskSpec
from penstock.tasks.spec import task_id as name_of
from services.task_manager.decide.host_choice import host_key
from services.task_manager.decide.model import Crash, DesiredTask, HostKey, Observed
from services.task_manager.membership.membership import Membership
from services.task_manager.membership.overrun import OverrunMeter
from services.task_manager.state import State


@dataclass(frozen=True, slots=True)
class Summary:
    """The container at one moment, for people and metrics.

    `event_time_skew_seconds` is by task id; tasks whose skew is unknown are missing.
    """

    incarnation: str
    lease_seconds_left: float
    shards: Mapping[int, int]
    version: int
    commit_number: int | None
    observed: Observed
    waiting: int
    totals: Mapping[str, int]
    past_lease_seconds: float
    double_run_seconds: float
    event_time_skew_seconds: Mapping[str, float]


def summary_of(
    now: float,
    membership: Membership,
    state: State,
    meter: OverrunMeter,
    commit_number: int | None,
    owned: Collection[str],
) -> Summary:
    """The container at `now`; `owned`: the ids of the tasks of its shards."""
    observed = state.observed
    return Summary(
        incarnation=membership.incarnation,
        lease_seconds_left=max(0.0, membership.lease_until - now),
        shards=dict(membership.ownership.shards),
        version=membership.ownership.version,
        commit_number=commit_number,
        observed=observed.copy(),
        waiting=len(set(owned) - observed.tasks.keys()),
        totals=dict(state.totals),
        past_lease_seconds=meter.past_lease_seconds,
        double_run_seconds=meter.double_run_seconds,
        event_time_skew_seconds=event_time_skews(state.known_progress(now)),
    )


def task_reports(
    desired: Mapping[str, DesiredTask],
    observed: Observed,
    progress: Mapping[str, TaskProgress],
    loads: Mapping[str, Amounts],
) -> tuple[TaskReport, ...]:
    """Reports of ALL tasks of the container, in order of id.

    These are the tasks on hosts, and desired tasks that back off after a failure or were refused (state `held`).
    `loads`: the loads that are due, by task.
    """
    reports = {
        task_id: _report(
            task.spec,
            task.epoch,
            task.state,
            **_of_crash(observed.crashes.get(task_id)),
            progress=progress.get(task_id),
            load=loads.get(task_id),
        )
        for task_id, task in observed.tasks.items()
    }
    for task_id, task in desired.items():
        report = _of_waiting(task, observed) if task_id not in reports else None
        if report is not None:
            reports[task_id] = report
    return tuple(reports[task_id] for task_id in sorted(reports))


def reported_loads(batch: TaskReportBatch) -> dict[str, dict[str, float]]:
    """The loads in a report, by task id."""
    return {name_of(task.job, task.index): task.load for task in batch.tasks if task.load is not None}


def event_time_skews(progress: Mapping[str, TaskProgress]) -> dict[str, float]:
    """Event-time skew in seconds by task; tasks whose skew is unknown are missing."""
    known = {task_id: measured.event_time_skew_seconds for task_id, measured in progress.items()}
    return {task_id: seconds for task_id, seconds in known.items() if seconds is not None}


def _of_waiting(task: DesiredTask, observed: Observed) -> TaskReport | None:
    """A desired task without a host; None when it only waits for its first start."""
    if task.refusal is not None:
        return _report(task.spec, task.epoch, TaskState.HELD, error=task.refusal)
    crash = observed.crashes.get(task.spec.task_id)
    if crash is not None:
        # With the revision that crashed: the desired revision may not have been tried yet.
        return _report(crash.spec, crash.epoch, TaskState.CRASHED, **_of_crash(crash))
    failure = observed.host_failures.get(host_key(task.spec)) if observed.host_failures else None
    if failure is None:
        return None
    error = f"its Spark host did not start: {failure.error}"
    return _report(
        task.spec, task.epoch, TaskState.CRASHED, crashes=failure.count, error=error, error_class=ErrorClass.HOST
    )


def _of_crash(crash: Crash | None) -> dict[str, Any]:
    if crash is None:
        return {}
    return {
        "crashes": crash.count,
        "error": crash.error,
        "error_class": crash.error_class,
        "out_of_memory": crash.out_of_memory,
    }


def _report(spec: TaskSpec, epoch: int, state: TaskState, **more: Any) -> TaskReport:
    return TaskReport(
        job=spec.job,
        index=spec.index,
        state=state,
        revision=spec.revision,
        generation=spec.generation,
        restarts=spec.restarts,
        epoch=epoch,
        **more,
    )


def host_labels(key: HostKey) -> dict[str, object]:
    """A host's key as labels for people."""
    name, version, _ = key.package
    return {
        "package": name,
        "version": version,
        "isolated_task": key.isolated_task or None,
        "memory_bytes": key.memory_bytes or None,
        "settings": dict(key.static_settings),
    }
