"""What the Auto Scaler needs of the job store and of the Job Service, and the real forms of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Engine

from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
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


class ScalingStore(Protocol):
    """The port to the job store. Every call may raise Unavailable."""

    def read(self, now: datetime) -> Cluster:
        """Jobs and measurements of one moment."""
        ...

    def day(self, job: str, now: datetime, slo_seconds: float) -> DayHistory:
        """The minutes of a job's last day."""
        ...

    def record(self, new: Sequence[decisions.NewDecision], leader_epoch: int) -> list[int]:
        """Stores decisions; their ids. Raises Fenced."""
        ...

    def record_outcome(self, decision_id: int, outcome: str) -> None:
        """Stores the outcome of a pending decision."""
        ...


class LayerWriter(Protocol):
    """The port to the Job Service: the only way to change an expected configuration."""

    def patch(self, job: str, change: Mapping[str, Any], *, version: int, reason: str, key: str) -> int:
        """Merge-patches the scaler's layer if it still has `version` (0: never written); the revision.

        The same `key` again is the same write. Raises VersionConflict, another UserError when the change is
        refused, and Unavailable.
        """
        ...


class JobServiceWriter:
    """The port on the Job Service's client."""

    def __init__(self, client: JobClient) -> None:
        self._client = client

    def patch(self, job: str, change: Mapping[str, Any], *, version: int, reason: str, key: str) -> int:
        """See the port."""
        written = self._client.patch_layer(
            job,
            evidence.SCALER_LAYER,
            change,
            if_match=version,
            reason=reason,
            expires_in_seconds=None,
            idempotency_key=key,
        )
        return written.revision


class PostgresScalingStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def read(self, now: datetime) -> Cluster:
        """See the port."""
        with transaction(self._snapshot) as connection:
            samples = evidence.read_samples(connection, since=now - REMEMBERED, fresh_since=now - FRESH)
            memory = evidence.smallest_container_memory(connection)
            return Cluster(evidence.read_scaled_jobs(connection), samples, memory)

    def day(self, job: str, now: datetime, slo_seconds: float) -> DayHistory:
        """See the port."""
        with transaction(self._engine) as connection:
            return evidence.read_day(connection, job, since=now - DAY, slo_seconds=slo_seconds)

    def record(self, new: Sequence[decisions.NewDecision], leader_epoch: int) -> list[int]:
        """See the port."""
        with transaction(self._engine) as connection:
            return decisions.insert_decisions(connection, new, leader_epoch)

    def record_outcome(self, decision_id: int, outcome: str) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            decisions.record_outcome(connection, decision_id, outcome)
