"""The port of the Auto Scaler to the job store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Engine

from penstock.store.engine import transaction
from services.auto_scaler.algorithm import DayHistory
from services.auto_scaler.evidence import ScaledJob
from services.auto_scaler.store import decisions, evidence
from services.auto_scaler.symptoms import TaskSample

# A task whose newest sample is older counts as not measured.
FRESH = timedelta(minutes=3)
# How long a task's end by lack of memory counts.
REMEMBERED = timedelta(minutes=10)
DAY = timedelta(days=1)


class Cluster(NamedTuple):
    """All that a round reads at once: jobs with tasks, samples by job, bytes of the smallest live container."""

    jobs: Sequence[ScaledJob]
    samples: Mapping[str, Sequence[TaskSample]]
    container_memory_bytes: int | None


class ScalingStore:
    """The job store for the Auto Scaler. Every call may raise Unavailable."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def read(self, now: datetime) -> Cluster:
        """Jobs and measurements of one moment."""
        with transaction(self._snapshot) as connection:
            samples = evidence.read_samples(connection, since=now - REMEMBERED, fresh_since=now - FRESH)
            memory = evidence.smallest_container_memory(connection)
            return Cluster(evidence.read_scaled_jobs(connection), samples, memory)

    def day(self, job: str, now: datetime, slo_seconds: float) -> DayHistory:
        """The minutes of a job's last day."""
        with transaction(self._engine) as connection:
            return evidence.read_day(connection, job, since=now - DAY, slo_seconds=slo_seconds)

    def record(self, new: Sequence[decisions.NewDecision], leader_epoch: int) -> list[int]:
        """Stores decisions; their ids. Raises Fenced."""
        with transaction(self._engine) as connection:
            return decisions.insert_decisions(connection, new, leader_epoch)

    def record_outcome(self, decision_id: int, outcome: str) -> None:
        """Stores the outcome of a pending decision."""
        with transaction(self._engine) as connection:
            decisions.record_outcome(connection, decision_id, outcome)
