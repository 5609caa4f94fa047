"""The port of the Auto Scaler to the job store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Engine

from penstock.config.model import JobConfig
from penstock.control.errors import Conflict
from penstock.model.alerts import SCALING_ALERTS
from penstock.model.traffic import measured
from penstock.store import leases
from penstock.store.alerts import Found, replace_alerts
from penstock.store.engine import transaction
from penstock.tasks.dimensions import MEMORY
from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import TaskSample
from services.auto_scaler.evidence import Dealing, Past, ScaledJob, rounded, scaler_state
from services.auto_scaler.replay.recorded import Known, RecordedJob, recorded_job
from services.auto_scaler.store import dealing, decisions, evidence, past, replay

# A task whose newest sample is older counts as not measured.
FRESH = timedelta(minutes=3)
# How long a task's end by lack of memory counts.
REMEMBERED = timedelta(minutes=10)
# Tasks tell their loads every ten minutes: an older one is not known to hold still.
PRESENT_LOAD = timedelta(minutes=30)


class Cluster(NamedTuple):
    """All that a round reads at once: jobs with tasks, samples by job, bytes of the smallest live container."""

    jobs: Sequence[ScaledJob]
    samples: Mapping[str, Sequence[TaskSample]]
    container_memory_bytes: int | None


class Recorded(NamedTuple):
    """`is_cut`: of the decisions only the first ones were read."""

    job: RecordedJob
    is_cut: bool


class ScalingStore:
    """The job store for the Auto Scaler. Every call may raise Unavailable."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._smallest: Mapping[str, float] | None = None
        self._snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def read(self, now: datetime) -> Cluster:
        """Jobs and measurements of one moment."""
        with transaction(self._snapshot) as connection:
            rows = evidence.read_samples(connection, since=now - REMEMBERED, fresh_since=now - FRESH)
            memory = evidence.smallest_container_memory(connection)
            self._smallest = past.smallest_capacities(connection)
            jobs = evidence.read_scaled_jobs(connection, now)
        return Cluster(jobs, evidence.samples_of(rows), memory)

    def recent(self, job: str, since: datetime) -> list[TaskMinute]:
        """What each task of a job measured in each minute since a time."""
        with transaction(self._engine) as connection:
            return past.read_recent(connection, job, since=since)

    def dealing(self, job: str, config: JobConfig, now: datetime, *, created_at: datetime, policy: Policy) -> Dealing:
        """What comes into each key group of a job, where its tasks are, its newest rebalance and the last moves."""
        with transaction(self._snapshot) as connection:
            reports = dealing.read_reports(connection, job)
            return Dealing(
                rounded(measured(reports, config, now, min_seconds=policy.traffic_seconds)),
                dealing.containers_of(reports, config.task_count),
                dealing.last_rebalance(connection, job, since=created_at),
                dealing.moves(connection, job, since=max(created_at, now - timedelta(seconds=policy.stopped_seconds))),
            )

    def past(
        self,
        job: str,
        now: datetime,
        *,
        created_at: datetime,
        task_count: int,
        slo_seconds: float,
        policy: Policy,
    ) -> Past:
        """The time in which a job must have been quiet, and as much of the days before as its policy compares. The
        containers are those of the newest `read`."""
        before = timedelta(minutes=max(policy.recent_minutes, policy.slack_minutes) + 1)
        after = timedelta(minutes=max(policy.ahead_minutes, policy.soon_minutes) + policy.slack_minutes)
        since = max(created_at, now - timedelta(days=policy.history_days) - before)
        quiet = timedelta(minutes=max(policy.quiet_minutes, policy.known_quiet_minutes))
        with transaction(self._snapshot) as connection:
            largest = past.largest_loads(connection, job, task_count, measured_since=now - PRESENT_LOAD)
            return Past(
                past.read_day(connection, job, since=max(created_at, now - quiet), slo_seconds=slo_seconds),
                past.read_past_days(connection, job, now, since=since, before=before, after=after),
                int(largest[MEMORY]) if MEMORY in largest else None,
                past.uses(largest, past.smallest_capacities(connection) if self._smallest is None else self._smallest),
            )

    def recorded(self, job: str, before: datetime, since: datetime, until: datetime, policy: Policy) -> Recorded | None:
        """What is recorded of a job from `since` until before `until`, and its minutes from `before` on for past days.

        None when it has no tasks now. Raises Conflict when another release wrote its running configuration.
        """
        with transaction(self._snapshot) as connection:
            present = evidence.read_scaled_job(connection, job, until)
            if present is None:
                return None
            memory = evidence.smallest_container_memory(connection)
            rows = replay.read_rows(
                connection, job, created_at=present.created_at, before=before, since=since, until=until
            )
        now = Known(until, _understood(present), scaler_state(present, memory))
        found = recorded_job(job, since, rows.minutes, rows.decisions, now, rows.rescale_seconds, policy)
        return Recorded(found, rows.is_cut)

    def record(self, new: Sequence[decisions.NewDecision], leader_epoch: int) -> list[int]:
        """Stores decisions; their ids. Raises Fenced."""
        with transaction(self._engine) as connection:
            return decisions.insert_decisions(connection, new, leader_epoch)

    def record_outcome(self, decision_id: int, outcome: str) -> None:
        """Stores the outcome of a pending decision."""
        with transaction(self._engine) as connection:
            decisions.record_outcome(connection, decision_id, outcome)

    def replace_alerts(self, found: Found, keep: Collection[str], leader_epoch: int) -> None:
        """Makes `found` the open alerts about scaling; those about the subjects to `keep` stay. Raises Fenced."""
        with leases.fenced(self._engine, decisions.AUTO_SCALER, leader_epoch) as connection:
            replace_alerts(connection, SCALING_ALERTS, found, keep=keep)


def _understood(job: ScaledJob) -> JobConfig:
    try:
        return JobConfig.model_validate(job.config)
    except ValidationError as error:
        raise Conflict(
            f"the running configuration of {job.job} is not understood", field="job", rule="understood"
        ) from error
