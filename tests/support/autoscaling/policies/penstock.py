"""Penstock's own decisions: the real `decide` of `services.auto_scaler`, with its default policy.

The only file of the comparison that knows what a decision needs. An ablation is a subclass with another `policy`.
As in a round, recent minutes are read for a job that lags, and past days every ten minutes for a healthy one.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from penstock.config.keygroups import bounds_in_force
from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import classify_symptom, decide, needs_past, needs_recent
from services.auto_scaler.decide.estimates import TaskMinute, estimate_load, estimate_rate
from services.auto_scaler.decide.model import (
    BOUNDS,
    DayHistory,
    PastChange,
    PastDay,
    PastRebalance,
    ScalerState,
    ScalingDecision,
    Situation,
    Symptom,
    Workload,
)
from services.auto_scaler.decide.patterns import JobMinute, arrivals, workload
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import JobSymptoms, TaskSample, detect
from services.auto_scaler.due import DueJobs
from tests.support.autoscaling.jobs import KEY_GROUPS, MAX_TASKS, SLO_SECONDS, Job
from tests.support.autoscaling.seen import Seen, Wanted
from tests.support.store.jobs import make_config

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC)
DAY, HOUR = 1440, 60
CONTAINER_MEMORY_BYTES = 16 * 2**30
# A task out of memory counts so long in the reads of the real service.
OUT_OF_MEMORY_MINUTES = 10


class Penstock:
    """What the store would keep of the job between two rounds. Nobody declared more than one task."""

    policy = Policy()

    def __init__(self, job: Job) -> None:
        self._name = job.trace.name
        self._declared_memory_bytes = job.memory_bytes
        self._due = DueJobs(self.policy.history_every_minutes)
        self._past = _Past(self.policy)
        self._was_healthy = False
        self._ended_at = -OUT_OF_MEMORY_MINUTES
        self._acted: deque[datetime] = deque(maxlen=HOUR)
        self._last_change: PastChange | None = None
        self._last_rebalance: PastRebalance | None = None
        self._bounds: tuple[int, ...] | None = None

    def wanted(self, seen: Seen) -> Wanted:
        """What the layer asks for after the round at the end of this minute."""
        now = _at(seen.minute + 1)
        is_due = self._due.take(self._name, now)
        if seen.out_of_memory:
            self._ended_at = seen.minute
        self._past.remember(seen)
        if self._was_healthy and not is_due and seen.backlog < 1 and not self._is_short(seen):
            return self._as_it_is(seen)
        case = self._case(seen, now)
        is_healthy = classify_symptom(case.symptoms, case.config, case.policy) is Symptom.NONE
        if is_healthy and self._was_healthy and not is_due:
            return self._as_it_is(seen)
        self._was_healthy = is_healthy
        change = self._decision(case, seen, is_due=is_due).change or {}
        memory = change.get("resources", {}).get("memory_bytes", seen.memory_bytes)
        if BOUNDS in change:
            self._bounds = tuple(change[BOUNDS])
        return self._as_it_is(seen)._replace(tasks=change.get("task_count", seen.tasks), memory_bytes=memory)

    def _as_it_is(self, seen: Seen) -> Wanted:
        return Wanted(seen.tasks, seen.memory_bytes, self._bounds)

    def _decision(self, case: Situation, seen: Seen, *, is_due: bool) -> ScalingDecision:
        found = decide(*case._replace(state=self._with_more(case, seen, is_due=is_due)))
        if found.change is None:
            return found
        self._acted.append(case.now)
        if BOUNDS in found.change:
            lag = case.symptoms.time_lagged_seconds
            self._last_rebalance = PastRebalance(at=case.now, tasks=seen.tasks, lag_seconds=lag)
        if "task_count" in found.change:
            self._last_change = PastChange(
                at=case.now,
                action=found.action,
                tasks_before=seen.tasks,
                tasks_after=found.change["task_count"],
                lag_seconds=case.symptoms.time_lagged_seconds,
                processed_rows_per_second=case.symptoms.processed_rows_per_second,
                input_rows_per_second=seen.input_rate,
            )
        return found

    def _case(self, seen: Seen, now: datetime) -> Situation:
        """What is read of all jobs at once."""
        state = ScalerState(
            converged=True,
            running_since=_at(seen.started),
            last_action_at=self._acted[-1] if self._acted else None,
            declared_memory_bytes=self._declared_memory_bytes,
            container_memory_bytes=CONTAINER_MEMORY_BYTES,
            last_change=self._last_change,
            actions_last_hour=sum(at > now - timedelta(hours=1) for at in self._acted),
        )
        bounds = bounds_in_force(KEY_GROUPS, seen.tasks, self._bounds)
        config = config_of(seen.tasks, seen.memory_bytes, bounds)
        return Situation(self._symptoms(seen), config, state, self.policy, now)

    def _symptoms(self, seen: Seen) -> JobSymptoms:
        samples = [
            TaskSample.model_construct(
                index=one.task,
                input_rows_per_second=one.input_rows,
                processed_rows_per_second=one.processed_rows,
                backlog_records=int(one.backlog or 0),
            )
            for one in (task_minutes(seen) if is_measured(seen) else ())
        ]
        return detect(samples, seen.tasks).model_copy(update={"out_of_memory": self._is_short(seen)})

    def _is_short(self, seen: Seen) -> bool:
        return seen.minute - self._ended_at < OUT_OF_MEMORY_MINUTES

    def _with_more(self, case: Situation, seen: Seen, *, is_due: bool) -> ScalerState:
        """What is read only of jobs of which it matters now."""
        is_past_needed, is_recent_needed = is_due and needs_past(case), needs_recent(case)
        if not (is_past_needed or is_recent_needed):
            return case.state
        state = self._past.with_recent(case.state, seen)
        if is_recent_needed:
            dealing = {"traffic": tuple(seen.group_rates.tolist()), "last_rebalance": self._last_rebalance}
            return state.model_copy(update=dealing)
        return self._past.with_past(state, seen) if is_past_needed else state


class Reactive(Penstock):
    """Ablation: no estimate is ever sure and no past day is known, so tasks double on lag."""

    policy = Policy(least_busy_minutes=10**9, least_days=10**9, prescale=False)


class Proactive(Penstock):
    """Ablation: estimates, and no past days."""

    policy = Policy(least_days=10**9, prescale=False)


class _Past:
    """The minutes of a job. Of each one the busiest task counts for P: all of them would take minutes of CPU."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._one_day = policy.model_copy(update={"history_days": 1})
        self._busiest: deque[TaskMinute] = deque(maxlen=policy.rate_minutes)
        self._latest: deque[Seen] = deque(maxlen=policy.load_minutes)
        self._read: deque[JobMinute] = deque(maxlen=2)
        self._arrived: dict[datetime, float] = {}
        self._days: dict[int, PastDay | None] = {}
        self._lag: deque[tuple[int, bool, bool]] = deque()
        self._lagging = self._out_of_memory = self._quiet = 0

    def remember(self, seen: Seen) -> None:
        if is_measured(seen):
            self._latest.append(seen)
            self._busiest.append(busiest(seen))
        now = _at(seen.minute)
        self._read.append(JobMinute(now, seen.processed_rate, seen.backlog))
        self._arrived[now] = arrivals(self._read)[now]
        lagging = seen.backlog >= 1 and bool((seen.task_backlogs > SLO_SECONDS * seen.task_rates + 1).any())
        self._lag.append((seen.minute, lagging, seen.out_of_memory))
        self._lagging += lagging
        self._out_of_memory += seen.out_of_memory
        self._quiet = 0 if lagging or seen.out_of_memory else self._quiet + 1
        while self._lag[0][0] <= seen.minute - DAY:
            _, was_lagging, was_out_of_memory = self._lag.popleft()
            self._lagging -= was_lagging
            self._out_of_memory -= was_out_of_memory

    def with_recent(self, state: ScalerState, seen: Seen) -> ScalerState:
        present = [one for each in self._latest if each.started == seen.started for one in task_minutes(each)]
        more = {
            "rate": estimate_rate([*self._busiest, *present], self._policy),
            "load": estimate_load(present, seen.tasks, self._policy),
        }
        return state.model_copy(update=more)

    def with_past(self, state: ScalerState, seen: Seen) -> ScalerState:
        used = int(seen.memory_used)
        more = {"day": self._day(), "workload": self._workload(seen.minute + 1), "memory_used_bytes": used}
        return state.model_copy(update=more)

    def _day(self) -> DayHistory:
        return DayHistory(
            minutes_measured=len(self._lag),
            minutes_lagging=self._lagging,
            minutes_out_of_memory=self._out_of_memory,
            minutes_quiet=min(self._quiet, len(self._lag)),
        )

    def _workload(self, minute: int) -> Workload:
        """What came in on past days: yesterday is new, the days before it have been looked at then."""
        recent = workload(self._arrived, _at(minute), self._one_day).recent
        known = [(ago, self._day_at(minute - ago * DAY)) for ago in range(1, self._policy.history_days + 1)]
        days = [day.model_copy(update={"days_ago": ago}) for ago, day in known if day is not None]
        return Workload(recent=recent, days=tuple(days))

    def _day_at(self, minute: int) -> PastDay | None:
        if minute < 0:
            return None
        if minute not in self._days:
            days = workload(self._arrived, _at(minute + DAY), self._one_day).days
            self._days[minute] = days[0] if days else None
        return self._days[minute]


def is_measured(seen: Seen) -> bool:
    """The minute of a change has not measured what runs now."""
    return seen.started == 0 or seen.minute > seen.started


def task_minutes(seen: Seen) -> list[TaskMinute]:
    """What each task measured in the minute."""
    columns = (column[: seen.tasks].tolist() for column in (seen.task_reads, seen.task_rates, seen.task_backlogs))
    return [_minute(seen, task, *figures) for task, figures in enumerate(zip(*columns, strict=True))]


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
