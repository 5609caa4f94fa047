"""The rounds of one job over minutes that a model tells: the real decisions, and what the store would keep in between.

As in a round of the service, recent minutes count for a job that lags, and past days every few minutes for a healthy
one. `python -m tests.bench.autoscaling` compares these rounds with policies of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import classify_symptom, decide, needs_past, needs_recent
from services.auto_scaler.decide.estimates import TaskMinute, estimate_load, estimate_rate
from services.auto_scaler.decide.model import (
    BOUNDS,
    TASK_COUNT,
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
from services.auto_scaler.decide.patterns import JobMinute, arrivals, recent_mean, workload
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import JobSymptoms, TaskSample, detect
from services.auto_scaler.due import DueJobs

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# A task out of memory counts so long in the reads of the service.
_OUT_OF_MEMORY = timedelta(minutes=10)


class SeenMinute(NamedTuple):
    """A minute of a job; rates in rows per second.

    `started_at`: the minute of its last change. `is_measured`: the minute has measured what runs now. `lags`: its worst
    task was beyond the SLO. `memory_used`: bytes of the task that uses most. `busiest`: the task with most to do.
    `by_task`: what each task measured. `by_key_group`: rows per second that came into each key group, None where that
    is not known. Both are asked only in minutes in which they matter.
    """

    at: datetime
    started_at: datetime
    tasks: int
    memory_bytes: int
    read: float
    backlog: float
    is_measured: bool
    lags: bool
    out_of_memory: bool
    memory_used: int | None
    busiest: TaskMinute
    by_task: Callable[[], list[TaskMinute]]
    by_key_group: Callable[[], tuple[float | None, ...] | None] = lambda: None


class JobRounds:
    """Decides about one job minute by minute. Every change that is decided counts as done."""

    def __init__(self, job: str, policy: Policy) -> None:
        self._job = job
        self._policy = policy
        self._due = DueJobs(policy.history_every_minutes)
        self._past = _Past(policy)
        self._was_healthy = False
        self._out_of_memory_at: datetime | None = None
        self._acted: deque[datetime] = deque(maxlen=60)
        self._last_change: PastChange | None = None
        self._last_rebalance: PastRebalance | None = None

    def remember(self, minute: JobMinute) -> None:
        """Takes a minute from before the first round, in order: past days count it, nothing is decided."""
        self._past.remember_arrivals(minute)

    def decide(self, seen: SeenMinute, config: JobConfig, known: ScalerState) -> ScalingDecision | None:
        """The decision after a minute about a job that runs `config`; None when its last decision stands.

        `known` is what is known of the job besides its minutes and its changes.
        """
        now = seen.at + _MINUTE
        is_due = self._due.take(self._job, now)
        if seen.out_of_memory:
            self._out_of_memory_at = seen.at
        self._past.remember(seen)
        if self._was_healthy and not is_due and seen.backlog < 1 and not self._is_short(seen):
            return None
        case = self._case(seen, config, known, now)
        is_healthy = classify_symptom(case.symptoms, case.config, case.policy) is Symptom.NONE
        if is_healthy and self._was_healthy and not is_due:
            return None
        self._was_healthy = is_healthy
        case = case._replace(state=self._with_more(case, seen, is_due=is_due))
        found = decide(*case)
        self._note(found, case)
        return found

    def _note(self, found: ScalingDecision, case: Situation) -> None:
        if found.change is None:
            return
        self._acted.append(case.now)
        lag = case.symptoms.time_lagged_seconds
        if BOUNDS in found.change:
            self._last_rebalance = PastRebalance(at=case.now, tasks=case.tasks, lag_seconds=lag)
        if TASK_COUNT in found.change:
            self._last_change = PastChange(
                at=case.now,
                action=found.action,
                tasks_before=case.tasks,
                tasks_after=found.change[TASK_COUNT],
                lag_seconds=lag,
                processed_rows_per_second=case.symptoms.processed_rows_per_second,
                input_rows_per_second=None if case.state.load is None else case.state.load.rows_per_second,
            )

    def _case(self, seen: SeenMinute, config: JobConfig, known: ScalerState, now: datetime) -> Situation:
        """What is read of all jobs at once."""
        own = {
            "running_since": seen.started_at,
            "last_action_at": self._acted[-1] if self._acted else None,
            "last_change": self._last_change,
            "actions_last_hour": sum(at > now - _HOUR for at in self._acted),
        }
        return Situation(self._symptoms(seen), config, known.model_copy(update=own), self._policy, now)

    def _symptoms(self, seen: SeenMinute) -> JobSymptoms:
        samples = [
            TaskSample.model_construct(
                index=one.task,
                input_rows_per_second=one.input_rows,
                processed_rows_per_second=one.processed_rows,
                backlog_records=int(one.backlog or 0),
            )
            for one in (seen.by_task() if seen.is_measured else ())
        ]
        return detect(samples, seen.tasks).model_copy(update={"out_of_memory": self._is_short(seen)})

    def _is_short(self, seen: SeenMinute) -> bool:
        return self._out_of_memory_at is not None and seen.at - self._out_of_memory_at < _OUT_OF_MEMORY

    def _with_more(self, case: Situation, seen: SeenMinute, *, is_due: bool) -> ScalerState:
        """What is read only of jobs of which it matters now."""
        is_past_needed, is_recent_needed = is_due and needs_past(case), needs_recent(case)
        if not (is_past_needed or is_recent_needed):
            return case.state
        state = self._past.with_recent(case.state, seen)
        if is_recent_needed:
            dealing = {"traffic": seen.by_key_group(), "last_rebalance": self._last_rebalance}
            return state.model_copy(update=dealing)
        return self._past.with_past(state, seen) if is_past_needed else state


class _Past:
    """The minutes of a job. Of each one the busiest task counts for P: all of them would take minutes of CPU."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._one_day = policy.model_copy(update={"history_days": 1})
        self._busiest: deque[TaskMinute] = deque(maxlen=policy.rate_minutes)
        self._latest: deque[SeenMinute] = deque(maxlen=policy.load_minutes)
        self._read: deque[JobMinute] = deque(maxlen=2)
        self._arrived: dict[datetime, float] = {}
        self._days: dict[datetime, PastDay | None] = {}
        self._first: datetime | None = None
        self._lag: deque[tuple[datetime, bool, bool]] = deque()
        self._lagging = self._out_of_memory = self._quiet = 0

    def remember_arrivals(self, minute: JobMinute) -> None:
        self._first = self._first or minute.minute
        self._read.append(minute)
        self._arrived[minute.minute] = arrivals(self._read)[minute.minute]

    def remember(self, seen: SeenMinute) -> None:
        if seen.is_measured:
            self._latest.append(seen._replace(by_task=cache(seen.by_task)))
            self._busiest.append(seen.busiest)
        self.remember_arrivals(JobMinute(seen.at, seen.read, seen.backlog))
        self._lag.append((seen.at, seen.lags, seen.out_of_memory))
        self._lagging += seen.lags
        self._out_of_memory += seen.out_of_memory
        self._quiet = 0 if seen.lags or seen.out_of_memory else self._quiet + 1
        while self._lag[0][0] <= seen.at - _DAY:
            _, was_lagging, was_out_of_memory = self._lag.popleft()
            self._lagging -= was_lagging
            self._out_of_memory -= was_out_of_memory

    def with_recent(self, state: ScalerState, seen: SeenMinute) -> ScalerState:
        present = [one for each in self._latest if each.started_at == seen.started_at for one in each.by_task()]
        more = {
            "rate": estimate_rate([*self._busiest, *present], self._policy),
            "load": estimate_load(present, seen.tasks, self._policy),
        }
        return state.model_copy(update=more)

    def with_past(self, state: ScalerState, seen: SeenMinute) -> ScalerState:
        found = self._workload(seen.at + _MINUTE)
        more = {"day": self._day(), "workload": found, "memory_used_bytes": seen.memory_used}
        return state.model_copy(update=more)

    def _day(self) -> DayHistory:
        return DayHistory(
            minutes_measured=len(self._lag),
            minutes_lagging=self._lagging,
            minutes_out_of_memory=self._out_of_memory,
            minutes_quiet=min(self._quiet, len(self._lag)),
        )

    def _workload(self, now: datetime) -> Workload:
        """What came in on past days: yesterday is new, the days before it have been looked at then."""
        recent = recent_mean(self._arrived, now, self._policy)
        known = [(ago, self._day_at(now - ago * _DAY)) for ago in range(1, self._policy.history_days + 1)]
        days = [day.model_copy(update={"days_ago": ago}) for ago, day in known if day is not None]
        return Workload(recent=recent, days=tuple(days))

    def _day_at(self, then: datetime) -> PastDay | None:
        if self._first is None or then < self._first:
            return None
        if then not in self._days:
            days = workload(self._arrived, then + _DAY, self._one_day).days
            self._days[then] = days[0] if days else None
        return self._days[then]
