"""Answers of the Job Service about the cluster: tasks, sync, decisions, metrics, shards, alerts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import Field

from penstock.model.alert_rules import runbook_of, severity_of
from penstock.tasks.shards import MOST_SHARDS
from penstock.wire.jobs import JsonObject, View, WithReason


class TaskView(View):
    """A task of a job: where it should run (`owner`), and where and how it is reported.

    `expected` false: the running configuration has no such task. `state` is that of the report; `unknown` while no
    container reports the task, while reports do not arrive, or while its Spark host is silent; `lost` since
    `reported_at` when the container is silent.
    Fields that come from a report are null without one. `error`: why the task does not run well; null when it has
    finished a batch since. `lag_seconds`: backlog over processing rate, and no less than the age of an unfinished
    batch; null: unknown. `watermark_behind_seconds`: how many seconds its watermark is behind the most advanced task
    of the job, if it has read all and keeps state; else null. `load`: the last known mean use over 10 minutes, by
    dimension; null: never known. A dimension that is missing is unknown. `avoids`: containers that it was moved away
    from, as long as it stays away.
    """

    task: str
    index: int
    shard: int | None
    expected: bool
    owner: str | None
    state: str
    container: str | None = None
    revision: int | None = None
    generation: int | None = None
    restarts: int | None = None
    epoch: int | None = None
    crashes: int | None = None
    error: str | None = None
    out_of_memory: bool | None = None
    progress: JsonObject | None = None
    lag_seconds: float | None = None
    watermark_behind_seconds: float | None = None
    load: dict[str, float] | None = None
    avoids: tuple[str, ...] = ()
    reported_at: datetime | None = None


class Tasks(View):
    """The tasks of a job by index; empty before the first commit, and when the tasks of a job that stops have gone. A
    task that two containers report is listed twice."""

    job: str
    tasks: list[TaskView]


class ContainerTaskView(TaskView):
    """A task that a container reports. `owner` is another container while the task moves. `watermark_behind_seconds`
    is always null: it takes the other tasks of the job."""

    job: str


class ContainerTasks(View):
    """The tasks that a container reports, by job and index; `next` is the cursor of the next page, null at the end."""

    container: str
    tasks: list[ContainerTaskView]
    next: str | None = None


def total(tasks: Iterable[TaskView], figure: str) -> float | None:
    """The sum of a figure of the tasks' progress; None (unknown) if it is unknown of a task, or there is no task."""
    values = [(task.progress or {}).get(figure) for task in tasks]
    return None if not values or None in values else float(sum(value for value in values if value is not None))


class GenerationView(View):
    """A generation of a job's checkpoints whose files exist. `attempted`: a plan wrote it and it was never committed.
    `unused_since` null: the job runs it, or a plan writes it. `detail`: why its files could not be deleted."""

    generation: int
    attempted: bool
    unused_since: datetime | None
    collecting: bool
    detail: str


class SyncView(View):
    """How far a job is on its way from running to expected. Null: unknown, before the State Syncer's first round.

    `change_kind` and `changed_fields` are of the change that is asked for; `none` and empty once the job is synced.
    `plan` is the recorded plan, if there is one. `kind` `rescale`: its steps, the generation that is written, and the
    container that writes it. `kind` `rollout`: `wave` counts from 0, `ends` has the number of upgraded tasks at the end
    of each wave. `step` is the index of the plan's step, from 0. `rejected`: the package that was rolled back, with the
    wave, the task and its error, until the package is given up or asked for again. `rollout_order`: who paused or
    aborted a rollout, and why. `generations`: the known ones, if the job had several.
    """

    job: str
    state: str
    expected_revision: int
    running_revision: int | None
    generation: int | None
    commit_number: int | None
    committed_at: datetime | None
    sync_revision: int | None
    detail: str | None
    change_kind: str | None
    changed_fields: list[str] | None
    plan: Any
    rejected: JsonObject | None
    rollout_order: JsonObject | None = None
    step: int | None
    failures: int | None
    next_attempt_at: datetime | None
    updated_at: datetime | None
    generations: list[GenerationView] = Field(default_factory=list)


class DecisionView(View):
    """A scaling decision with all its inputs."""

    id: int
    at: datetime
    symptom: str
    action: str
    inputs: JsonObject
    change: JsonObject | None
    outcome: str


class DecisionPage(View):
    """Newest first; `next` is the cursor of the next page, null at the end."""

    decisions: list[DecisionView]
    next: str | None = None


class SampleView(View):
    """A task's measurements of one minute; null is unknown."""

    index: int
    minute: datetime
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    input_bytes_per_second: float | None
    backlog_records: int | None
    backlog_bytes: int | None
    lag_seconds: float | None
    state_rows: int | None
    state_memory_bytes: int | None
    batch_seconds: float | None
    busy_share: float | None
    late_rows_per_second: float | None
    cpu_cores: float | None
    memory_bytes: float | None
    out_of_memory: bool


class TaskSamples(View):
    """Samples, newest first; `complete` false when there were more than one answer carries."""

    job: str
    samples: list[SampleView]
    complete: bool


class MetricSeries(View):
    """A metric with a value of each step; null is unknown, never zero. Those of a job are in
    `penstock.model.job_metrics`."""

    metric: str
    unit: str
    values: list[float | None]


class Series(View):
    """What was measured from `since` until before `until`; the last step may be shorter than the others."""

    since: datetime
    until: datetime
    step_seconds: int
    series: list[MetricSeries]


class JobSeries(Series):
    """What a job measured."""

    job: str


class ShardView(View):
    """A shard and its owner; null: nobody owns it."""

    shard: int
    container: str | None
    epoch: int
    moved_at: datetime


class ShardCountWrite(WithReason):
    """`PUT /v1/shards`: the number of shards that is wanted, a multiple or a divisor of the present one."""

    shard_count: int = Field(ge=1, le=MOST_SHARDS)


class ShardCount(View):
    """How many shards there are, and how many are asked for: on the way there tasks run on."""

    shard_count: int
    wanted_shard_count: int


class ShardPage(ShardCount):
    """Shards by number."""

    shards: list[ShardView]
    next: str | None = None


class AlertRow(View):
    """An alert as it is stored; `cleared_at` null while it is open.

    `acknowledged_by` null: nobody said that they work on it; `acknowledged_until` null: until it closes. `silence`: the
    number of the silence that leaves it out of lists; null: none.
    """

    id: int
    kind: str
    subject: str
    message: str
    details: JsonObject
    times: int
    raised_at: datetime
    last_at: datetime
    cleared_at: datetime | None
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    acknowledged_until: datetime | None = None
    acknowledged_reason: str | None = None
    silence: int | None = None


class AlertView(AlertRow):
    """An alert with what its kind says. `severity`: `page` or `ticket`. `runbook`: what to do, a URL where the Job
    Service knows one, else the path of the page and its row."""

    severity: str = ""
    runbook: str = ""

    @classmethod
    def of(cls, row: AlertRow, runbook_url: str) -> AlertView:
        """The alert with links to the files of this repository at `runbook_url`; empty: with paths."""
        said = {"severity": severity_of(row.kind).value, "runbook": runbook_of(row.kind, runbook_url)}
        return cls(**dict(row), **said)


class AlertPage(View):
    """Alerts, newest first."""

    alerts: list[AlertView]
    next: str | None = None


class LeaderView(View):
    """Who leads a loop, and at which address it is reached.

    `epoch` grows with each new leader. `expires_in_seconds`: when its lease runs out unless it is renewed; 0 or less:
    nobody leads. `leads_for_seconds`: since it became the leader; null: unknown.
    """

    loop: str
    holder: str
    url: str
    epoch: int
    expires_in_seconds: float
    leads_for_seconds: float | None = None


class Leaders(View):
    """The leaders by the name of their loop, and the last leader of a loop without one."""

    leaders: list[LeaderView]
