"""What the store knows of a job, and the input of a decision that follows from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, NamedTuple

from penstock.config.merge import leaves, overlay
from penstock.config.model import JobConfig, Resources
from penstock.config.tree import dotted
from penstock.model.traffic import Rates
from penstock.tasks.profile import LEAST_BATCHES, is_as_fast
from services.auto_scaler.decide.estimates import TaskMinute, estimate_load, estimate_rate, with_profile
from services.auto_scaler.decide.model import (
    DayHistory,
    JobUpdate,
    PastChange,
    PastMove,
    PastRebalance,
    ScalerState,
    Use,
)
from services.auto_scaler.decide.patterns import JobMinute, arrivals, workload
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.state_size import estimate_state


class LastDecision(NamedTuple):
    """The newest stored decision about a job."""

    symptom: str
    action: str
    outcome: str
    change: Mapping[str, Any] | None = None
    reason: str = ""

    def says(self, other: LastDecision) -> bool:
        """Whether it says the same, whatever the numbers in its reason."""
        return self._replace(reason=_shape(self.reason)) == other._replace(reason=_shape(other.reason))


def _shape(reason: str) -> str:
    return _NUMBER.sub("#", reason)


_NUMBER = re.compile(r"[0-9][0-9.,:-]*")


class Profile(NamedTuple):
    """The newest profile of a job: the configuration that it ran, the batches that count, and the rate that nine in ten
    of them reached."""

    config: Mapping[str, Any]
    batches: int
    low_rows_per_second: float | None


class ScaledJob(NamedTuple):
    """A job with tasks. `below` and `above`: the layers around the scaler's, lowest first.

    `layer_version` is the version of the scaler's layer, 0 when the layer was never written. `acted_at`: when the
    scaler last wrote the layer, began to, or was refused, or asked for a move, though nobody answered. `update`: the
    newest write to another layer that runs.
    What was measured before `created_at` is of a former job of this name.
    """

    job: str
    created_at: datetime
    config: Mapping[str, Any]
    committed_at: datetime
    converged: bool
    layer_version: int
    below: tuple[Mapping[str, Any], ...]
    above: tuple[Mapping[str, Any], ...]
    last: LastDecision | None
    acted_at: datetime | None
    actions_last_hour: int = 0
    last_change: PastChange | None = None
    update: JobUpdate | None = None
    profile: Profile | None = None


class Past(NamedTuple):
    """What is read for one job at a time, when it is due: the last day, the past days by minute, the memory of the
    largest task, and what the largest one takes of disk and network."""

    day: DayHistory
    minutes: Sequence[JobMinute]
    memory_used_bytes: int | None
    uses: tuple[Use, ...] = ()


class Dealing(NamedTuple):
    """What is read of a job that lags: what comes into each key group, the container of each task, the newest
    rebalance, and the moves of the last day."""

    traffic: Rates
    containers: tuple[str | None, ...]
    last_rebalance: PastRebalance | None
    moves: tuple[PastMove, ...]


def rounded(rates: Rates) -> Rates:
    """The rates to four digits, which is more than they are measured to, and as they are stored with a decision."""
    return tuple(None if rate is None else float(f"{rate:.4g}") for rate in rates)


def scaler_state(job: ScaledJob, container_memory_bytes: int | None) -> ScalerState:
    """What is known of a job besides its measurements, without what is read for one job at a time."""
    declared: Mapping[str, Any] = reduce(overlay, job.below, {})
    return ScalerState(
        converged=job.converged,
        running_since=job.committed_at,
        last_action_at=job.acted_at,
        declared_task_count=declared.get("task_count", _DEFAULT_TASK_COUNT),
        declared_memory_bytes=_declared_memory(declared),
        pinned=frozenset(dotted(path) for layer in job.above for path, _ in leaves(layer)),
        container_memory_bytes=container_memory_bytes,
        last_change=job.last_change,
        update=job.update,
        actions_last_hour=job.actions_last_hour,
    )


def measured_since(job: ScaledJob, now: datetime, policy: Policy) -> datetime:
    """From when on minutes say what a task of the job can do: a commit by the scaler's own hand changes nothing of it,
    any other one may."""
    earliest = now - timedelta(minutes=policy.rate_minutes)
    is_own = job.update is not None and job.acted_at is not None and job.acted_at > job.update.at
    of_this_kind = job.update.at if is_own and job.update is not None else job.committed_at
    return max(earliest, of_this_kind)


def with_recent(
    state: ScalerState, minutes: Sequence[TaskMinute], job: ScaledJob, task_count: int, policy: Policy
) -> ScalerState:
    """The state with what the tasks can do and what comes in; the latter since the last commit only."""
    present = [minute for minute in minutes if minute.minute >= job.committed_at]
    return state.model_copy(
        update={
            "rate": with_profile(estimate_rate(minutes, policy), _profiled(job)),
            "load": estimate_load(present, task_count, policy),
            "state_size": estimate_state(present),
        }
    )


def _profiled(job: ScaledJob) -> float | None:
    """The rate of the job's profile, if it has enough batches and holds for what runs."""
    profile = job.profile
    if profile is None or profile.batches < LEAST_BATCHES or not is_as_fast(profile.config, job.config):
        return None
    return profile.low_rows_per_second


def with_past(state: ScalerState, past: Past, now: datetime, policy: Policy) -> ScalerState:
    """The state with the last day and the past days."""
    return state.model_copy(
        update={
            "day": past.day,
            "workload": workload(arrivals(past.minutes), now, policy),
            "memory_used_bytes": past.memory_used_bytes,
            "uses": past.uses,
        }
    )


def _declared_memory(declared: Mapping[str, Any]) -> int:
    resources = declared.get("resources", {})
    return int(resources.get("memory_bytes", _DEFAULT_MEMORY_BYTES))


_DEFAULT_TASK_COUNT: int = JobConfig.model_fields["task_count"].default
_DEFAULT_MEMORY_BYTES: int = Resources.model_fields["memory_bytes"].default
