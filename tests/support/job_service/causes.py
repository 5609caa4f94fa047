"""Facts about a job that is not healthy, for the rules that look for causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.model.alerts import AlertKind
from penstock.model.health import JobFacts, Moment, TaskFacts, verdict
from penstock.model.jobs import JobState
from penstock.tasks.lag import MEASURED
from penstock.wire.jobs import ExplainedLeafView, HistoryEntry
from penstock.wire.overview import AlertRow
from services.job_service.causes.facts import Crashes, Facts
from services.job_service.store.overview import ReportedTask

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BUSY: Mapping[str, Any] = {
    "batch_id": 9,
    "backlog_records": 100_000,
    "processed_rows_per_second": 100.0,
    "input_rows_per_second": 120.0,
    "busy_share": 0.97,
}
"""A task that does what it can, and is 1,000 s behind."""
WELL: Mapping[str, Any] = BUSY | {"backlog_records": 10, "busy_share": 0.4, "input_rows_per_second": 90.0}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def task(index: int = 0, container: str = "c1", *, progress: Mapping[str, Any] = WELL, **changes: Any) -> ReportedTask:
    """A task that runs well."""
    row: dict[str, Any] = {
        "job": "etl",
        "index": index,
        "container": container,
        "state": "running",
        "revision": 7,
        "generation": 1,
        "restarts": 0,
        "epoch": 1,
        "crashes": 0,
        "error": None,
        "out_of_memory": False,
        "progress": progress,
        "reported_at": ago(1),
        "alive_at": ago(2),
    }
    return ReportedTask(**(row | changes))


def failed(error: str, index: int = 0, container: str = "c1", **changes: Any) -> ReportedTask:
    """A task that crashed three times."""
    crashed: dict[str, Any] = {"state": "crashed", "crashes": 3, "error": error, "progress": None}
    return task(index, container, **(crashed | changes))


def leaf(field: str, value: Any, layer: str = "oncall", **changes: Any) -> ExplainedLeafView:
    """A leaf that a layer sets."""
    row: dict[str, Any] = {
        "field": field,
        "path": field.split("."),
        "value": value,
        "layer": layer,
        "change": "live",
        "version": 2,
        "revision": 7,
        "author": "ann",
        "reason": "to save money",
        "written_at": ago(600),
        "expires_at": None,
        "hides": [],
    }
    return ExplainedLeafView(**(row | changes))


def change(old: Any, new: Any, seconds_ago: float = 600.0, layer: str = "oncall", **changes: Any) -> HistoryEntry:
    """A write that the job runs."""
    row: dict[str, Any] = {
        "id": 3,
        "job": "etl",
        "layer": layer,
        "version": 2,
        "revision": 7,
        "action": "patch",
        "author": "ann",
        "reason": "to save money",
        "at": ago(seconds_ago),
        "old": old,
        "new": new,
        "expires_at": None,
    }
    return HistoryEntry(**(row | changes))


def alert(kind: str, subject: str = "etl", **details: Any) -> AlertRow:
    """An open alert."""
    times = {"raised_at": ago(60), "last_at": ago(1), "cleared_at": None}
    return AlertRow(id=1, kind=kind, subject=subject, message=f"{kind} {subject}", details=details, times=1, **times)


def facts(tasks: Sequence[ReportedTask] = (), *, job: Mapping[str, Any] | None = None, **known: Any) -> Facts:
    """A job with these tasks, judged as the store judges it. Without others it has the newest report a second ago."""
    count = len({each.index for each in tasks}) or 1
    row: dict[str, Any] = {
        "job": "etl",
        "owner": "",
        "state": JobState.SYNCED,
        "revision": 7,
        "restarts": 0,
        "running_revision": 7,
        "generation": 1,
        "committed_at": ago(590),
        "mixed": False,
        "stopping": False,
        "wants_tasks": True,
        "task_count": count,
        "max_lag_seconds": 90.0,
        "detail": "",
    }
    of_job = JobFacts(**(row | dict(job or {})))
    moment = known.pop("moment", Moment(NOW, ago(1)))
    crashes = {each.index: each for each in known.get("crashes", ())}
    judged = verdict(of_job, [_judged(each, crashes.get(each.index)) for each in tasks], moment)
    # What the layers set runs, unless a test says otherwise.
    layers = {each.field: each.value for each in known.get("settings", ()) if len(each.path) == 1}
    config = layers | {"task_count": count, "inputs": {"in": {"topic": "t", "key_groups": 8}}} | known.pop("config", {})
    return Facts(of_job, judged, moment, tasks=tasks, config=config, **known)


def _judged(task: ReportedTask, crashes: Crashes | None) -> TaskFacts:
    progress = task.progress or {}
    names = ("batch_id", *MEASURED)
    names += ("held_back_by", "held_back_seconds", "silent_seconds")
    same = ("index", "container", "state", "revision", "generation", "epoch", "crashes", "error")
    same += ("reported_at", "alive_at", "failed_over")
    return TaskFacts(
        job="etl",
        **{name: getattr(task, name) for name in same},
        **{name: progress.get(name) for name in names},
        unreadable_input=progress.get("input_problems", {}).get(AlertKind.INPUT_UNREADABLE.value),
        late_rows=progress.get("input_problems", {}).get(AlertKind.LATE_ROWS.value),
        crashed_at=None if crashes is None else crashes.crashed_at,
        crash_revision=7,
    )
