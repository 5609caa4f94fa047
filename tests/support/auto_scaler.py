"""Builders of what the Auto Scaler decides from: a job of two tasks that runs for days, without a symptom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import decide
from services.auto_scaler.decide.model import (
    Action,
    DayHistory,
    Load,
    PastChange,
    PastDay,
    RateEstimate,
    ScalerState,
    ScalingDecision,
    Situation,
    Workload,
)
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import JobSymptoms
from tests.support.store.jobs import make_config

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
GIB, MIB = 2**30, 2**20
QUIET = DayHistory(minutes_measured=1440, minutes_lagging=0, minutes_out_of_memory=0, minutes_quiet=1440)


def job(task_count: int = 2, key_groups: int = 64, **overrides: Any) -> JobConfig:
    """A job whose number of key groups is no limit unless the test says so."""
    inputs = {"events": {"key_groups": key_groups}}
    return JobConfig.model_validate(make_config(task_count=task_count, inputs=inputs, **overrides))


def symptoms(lag: float | None = 0.0, **values: Any) -> JobSymptoms:
    known = {"tasks_expected": 2, "tasks_measured": 2, "lag_basis": "bytes", "imbalance": 0.0, "out_of_memory": False}
    return JobSymptoms.model_validate(known | {"time_lagged_seconds": lag} | values)


def state(**values: Any) -> ScalerState:
    known: dict[str, Any] = {
        "converged": True,
        "running_since": NOW - timedelta(days=2),
        "declared_task_count": 2,
        "declared_memory_bytes": 400 * MIB,
        "container_memory_bytes": 8 * GIB,
    }
    return ScalerState.model_validate(known | values)


def rate(rows: float = 100.0, busy: int = 60, **values: Any) -> RateEstimate:
    return RateEstimate(rows_per_second=rows, busy_minutes=busy, **values)


def load(rows: float, backlog: float | None = 0.0, growth: float | None = None) -> Load:
    return Load(rows_per_second=rows, backlog_records=backlog, backlog_growth_per_second=growth)


def past(recent: float | None = 100.0, *, soon: float = 100.0, ahead: float = 100.0, days: int = 3) -> Workload:
    """Past days that are all alike; `recent` is that of today, and the past days had 100."""
    known = [PastDay(days_ago=days_ago, recent=100.0, soon=soon, ahead=ahead) for days_ago in range(1, days + 1)]
    return Workload(recent=recent, days=tuple(known))


def change(action: Action, before: int, after: int, **values: Any) -> PastChange:
    """A change ten minutes ago."""
    return PastChange(
        **{"at": NOW - timedelta(minutes=10), "action": action, "tasks_before": before, "tasks_after": after} | values
    )


def situation(found: JobSymptoms, config: JobConfig, known: ScalerState, **policy: Any) -> Situation:
    return Situation(found, config, known, Policy(**policy), NOW)


def decided(found: JobSymptoms, config: JobConfig, known: ScalerState, **policy: Any) -> ScalingDecision:
    return decide(*situation(found, config, known, **policy))
