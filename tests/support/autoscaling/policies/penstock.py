"""Penstock's own decisions: the rounds of `services.auto_scaler.replay`, with the default policy.

The only file of the comparison that knows what a decision needs. An ablation is a subclass with another `policy`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

from penstock.config.keygroups import bounds_in_force
from penstock.config.model import JobConfig
from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.model import BOUNDS, ScalerState
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.replay.rounds import JobRounds, SeenMinute
from tests.support.autoscaling.jobs import KEY_GROUPS, MAX_TASKS, SLO_SECONDS, Job
from tests.support.autoscaling.seen import Seen, Wanted
from tests.support.store.jobs import make_config

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC)
CONTAINER_MEMORY_BYTES = 16 * 2**30
# No change takes so long, so a job that nobody was asked about was stopped by its owner.
STOPPED_MINUTES = 30


class Penstock:
    """Rounds of one job. Nobody declared more than one task. That its owner starts it again is a commit, and no sample
    from before the last commit is read."""

    policy = Policy()

    def __init__(self, job: Job) -> None:
        self._rounds = JobRounds(job.trace.name, self.policy)
        self._asked_at: int | None = None
        self._restarted_at = 0
        self._known = ScalerState(
            converged=True,
            running_since=BEGINNING,
            declared_memory_bytes=job.memory_bytes,
            container_memory_bytes=CONTAINER_MEMORY_BYTES,
        )
        self._bounds: tuple[int, ...] | None = None

    def wanted(self, seen: Seen) -> Wanted:
        """What the layer asks for after the round at the end of this minute."""
        if self._asked_at is not None and seen.minute > self._asked_at + STOPPED_MINUTES:
            self._restarted_at = seen.minute
        self._asked_at = seen.minute
        seen = seen._replace(started=max(seen.started, self._restarted_at))
        bounds = bounds_in_force(KEY_GROUPS, seen.tasks, self._bounds)
        config = config_of(seen.tasks, seen.memory_bytes, bounds)
        decision = self._rounds.decide(seen_minute(seen), config, self._known)
        change = (decision.change if decision is not None else None) or {}
        memory = change.get("resources", {}).get("memory_bytes", seen.memory_bytes)
        if BOUNDS in change:
            self._bounds = tuple(change[BOUNDS])
        return Wanted(change.get("task_count", seen.tasks), memory, self._bounds)


class Reactive(Penstock):
    """Ablation: no estimate is ever sure and no past day is known, so tasks double on lag."""

    policy = Policy(least_busy_minutes=10**9, least_days=10**9, prescale=False)


class Proactive(Penstock):
    """Ablation: estimates, and no past days."""

    policy = Policy(least_days=10**9, prescale=False)


def seen_minute(seen: Seen) -> SeenMinute:
    """The minute as the rounds take it."""
    return SeenMinute(
        at=_at(seen.minute),
        started_at=_at(seen.started),
        tasks=seen.tasks,
        memory_bytes=seen.memory_bytes,
        read=seen.processed_rate,
        backlog=seen.backlog,
        is_measured=is_measured(seen),
        lags=seen.backlog >= 1 and bool((seen.task_backlogs > SLO_SECONDS * seen.task_rates + 1).any()),
        out_of_memory=seen.out_of_memory,
        memory_used=int(seen.memory_used),
        busiest=busiest(seen),
        by_task=partial(task_minutes, seen),
        by_key_group=partial(key_group_rates, seen),
    )


def is_measured(seen: Seen) -> bool:
    """The minute of a change has not measured what runs now."""
    return seen.started == 0 or seen.minute > seen.started


def task_minutes(seen: Seen) -> list[TaskMinute]:
    """What each task measured in the minute."""
    columns = (column[: seen.tasks].tolist() for column in (seen.task_reads, seen.task_rates, seen.task_backlogs))
    return [_minute(seen, task, *figures) for task, figures in enumerate(zip(*columns, strict=True))]


def key_group_rates(seen: Seen) -> tuple[float | None, ...]:
    """What came into each key group, in rows per second."""
    return tuple(seen.group_rates.tolist())


def busiest(seen: Seen) -> TaskMinute:
    """What the task measured that has most to do."""
    column = seen.task_backlogs if seen.backlog >= 1 else seen.task_reads
    task = int(column.argmax())
    figures = (float(column[task]) for column in (seen.task_reads, seen.task_rates, seen.task_backlogs))
    return _minute(seen, task, *figures)


def _minute(seen: Seen, task: int, read: float, rate: float, backlog: float) -> TaskMinute:
    """A task that did nothing has no rate."""
    return TaskMinute(_at(seen.minute), task, read, rate or None, backlog if backlog >= 1 else 0.0)


@lru_cache(maxsize=4096)
def config_of(tasks: int, memory_bytes: int, bounds: tuple[int, ...] | None = None) -> JobConfig:
    """The configuration that runs."""
    return JobConfig.model_validate(
        make_config(
            inputs={"events": {"key_groups": KEY_GROUPS}},
            task_count=tasks,
            key_group_bounds=bounds,
            max_task_count=MAX_TASKS,
            resources={"memory_bytes": memory_bytes},
            slo={"max_lag_seconds": SLO_SECONDS},
        )
    )


@lru_cache(maxsize=65536)
def _at(minute: int) -> datetime:
    return BEGINNING + timedelta(minutes=minute)
