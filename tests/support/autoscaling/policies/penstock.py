"""Penstock's own decisions: the real `DecisionInputs.decide` of `services.auto_scaler`, with its default policy.

The only file of the comparison that knows what a decision needs. An ablation is a subclass with another `policy`.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from penstock.config.model import JobConfig
from services.auto_scaler.algorithm import (
    DayHistory,
    DecisionInputs,
    Policy,
    ScalerState,
    Symptom,
    can_shrink,
    classify_symptom,
)
from services.auto_scaler.symptoms import JobSymptoms
from tests.support.autoscaling.jobs import KEY_GROUPS, MAX_TASKS, SLO_SECONDS, Job
from tests.support.autoscaling.seen import Seen, Wanted
from tests.support.store.jobs import make_config

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC)
DAY = 1440
CONTAINER_MEMORY_BYTES = 16 * 2**30
# A task out of memory counts so long in the reads of the real service.
OUT_OF_MEMORY_MINUTES = 10


class Penstock:
    """What the store would keep of the job between two rounds. Nobody declared more than one task."""

    policy = Policy()

    def __init__(self, job: Job) -> None:
        self._declared_memory_bytes = job.memory_bytes
        self._day: deque[tuple[int, bool, bool]] = deque()
        self._lagging = self._out_of_memory = 0
        self._ended_at = -OUT_OF_MEMORY_MINUTES
        self._acted_at: int | None = None
        self._bounds: tuple[int, ...] | None = None

    def wanted(self, seen: Seen) -> Wanted:
        inputs = self.inputs(seen)
        change = inputs.decide().change
        if change is None:
            return Wanted(seen.tasks, seen.memory_bytes)
        self._acted_at = seen.minute
        memory = change.get("resources", {}).get("memory_bytes", seen.memory_bytes)
        bounds = change.get("key_group_bounds")
        self._bounds = None if bounds is None else tuple(bounds)
        return Wanted(change.get("task_count", seen.tasks), memory, self._bounds)

    def inputs(self, seen: Seen) -> DecisionInputs:
        """What the service would read at the end of this minute."""
        symptoms = self._symptoms(seen)
        self._remember(seen.minute, symptoms.time_lagged_seconds, seen.out_of_memory)
        config = config_of(seen.tasks, seen.memory_bytes, self._bounds)
        state = ScalerState(
            converged=True,
            running_since=_at(seen.started),
            last_action_at=None if self._acted_at is None else _at(self._acted_at),
            declared_memory_bytes=self._declared_memory_bytes,
            container_memory_bytes=CONTAINER_MEMORY_BYTES,
        )
        if classify_symptom(symptoms, config) is Symptom.NONE and can_shrink(config, state):
            state = state.model_copy(update={"day": self._history()})
        return DecisionInputs(symptoms=symptoms, config=config, state=state, policy=self.policy, now=_at(seen.minute))

    def _symptoms(self, seen: Seen) -> JobSymptoms:
        if seen.out_of_memory:
            self._ended_at = seen.minute
        lag = 0.0 if seen.backlog < 1 else seen.backlog / seen.true_rate if seen.true_rate > 0 else None
        return JobSymptoms(
            tasks_expected=seen.tasks,
            tasks_measured=seen.tasks,
            time_lagged_seconds=lag,
            lag_basis=None if lag is None else "records",
            imbalance=seen.imbalance,
            out_of_memory=seen.minute - self._ended_at < OUT_OF_MEMORY_MINUTES,
        )

    def _remember(self, minute: int, lag: float | None, out_of_memory: bool) -> None:
        lagging = lag is None or lag > SLO_SECONDS
        self._day.append((minute, lagging, out_of_memory))
        self._lagging += lagging
        self._out_of_memory += out_of_memory
        while self._day[0][0] <= minute - DAY:
            _, was_lagging, was_out_of_memory = self._day.popleft()
            self._lagging -= was_lagging
            self._out_of_memory -= was_out_of_memory

    def _history(self) -> DayHistory:
        return DayHistory(
            minutes_measured=len(self._day),
            minutes_lagging=self._lagging,
            minutes_out_of_memory=self._out_of_memory,
        )


@lru_cache(maxsize=4096)
def config_of(tasks: int, memory_bytes: int, bounds: tuple[int, ...] | None) -> JobConfig:
    """The configuration that runs."""
    return JobConfig.model_validate(
        make_config(
            inputs={"events": {"key_groups": KEY_GROUPS}},
            task_count=tasks,
            max_task_count=MAX_TASKS,
            key_group_bounds=bounds,
            resources={"memory_bytes": memory_bytes},
            slo={"max_lag_seconds": SLO_SECONDS},
        )
    )


def _at(minute: int) -> datetime:
    return BEGINNING + timedelta(minutes=minute)
