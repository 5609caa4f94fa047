"""A job that lives by the decisions, minute by minute: no I/O, and a model of tasks that could not be simpler."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from services.auto_scaler.decide.decision import decide, needs_past, needs_recent
from services.auto_scaler.decide.estimates import TaskMinute, estimate_load, estimate_rate
from services.auto_scaler.decide.model import Action, DayHistory, PastChange, ScalerState, Situation
from services.auto_scaler.decide.patterns import JobMinute, arrivals, workload
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import JobSymptoms, TaskSample, detect
from tests.support.auto_scaler import NOW, job

POLICY = Policy(history_days=2)
CONFIGS = {tasks: job(tasks) for tasks in range(1, 33)}
P = 100.0
SLO = 90.0
DAY = 1440
Rate = Callable[[int], float]


class LivingJob:
    """64 key groups, a declared task, rows that come in and are dealt evenly; a change stops the tasks for a minute.

    `speed`: the part of P that so many tasks reach in a minute, such as while a sink is slow.
    """

    def __init__(self, comes_in: Rate, speed: Callable[[int, int], float] = lambda minute, tasks: 1.0) -> None:
        self.comes_in = comes_in
        self.speed = speed
        self.tasks, self.backlog, self.minute = 1, 0.0, 0
        self.started_at = NOW - timedelta(days=1)
        self.acted: list[tuple[int, Action, int]] = []
        self.untriaged: list[int] = []
        self.lagging: deque[bool] = deque(maxlen=DAY)
        self.minutes: deque[list[TaskMinute]] = deque(maxlen=POLICY.rate_minutes)
        self.read: deque[JobMinute] = deque(maxlen=2)
        self.arrived: dict[datetime, float] = {}
        self.last_change: PastChange | None = None
        self.is_stopped = False
        self.slo_minutes_missed = 0

    def run(self, minutes: int) -> None:
        for _ in range(minutes):
            self._work()
            self._decide()
            self.minute += 1

    def _work(self) -> None:
        came = self.comes_in(self.minute)
        rate = 0.0 if self.is_stopped else P * self.speed(self.minute, self.tasks)
        done = min(self.backlog / 60 + came, rate * self.tasks)
        self.backlog = max(0.0, self.backlog + (came - done) * 60)
        lag = self.backlog / (P * self.tasks)
        self.lagging.append(lag > SLO)
        self.slo_minutes_missed += lag > SLO
        now = NOW + timedelta(minutes=self.minute)
        self.read.append(JobMinute(now, done, self.backlog))
        self.arrived[now] = arrivals(list(self.read))[now]
        each = [
            TaskMinute(now, index, done / self.tasks, rate or None, self.backlog / self.tasks)
            for index in range(self.tasks)
        ]
        if not self.is_stopped:
            self.minutes.append(each)
        self.is_stopped = False

    def _decide(self) -> None:
        now = NOW + timedelta(minutes=self.minute + 1)
        newest = self.minutes[-1] if self.minutes else []
        samples = [
            TaskSample(index=m.task, processed_rows_per_second=m.processed_rows, backlog_records=int(m.backlog or 0))
            for m in newest
        ]
        state = ScalerState(
            converged=True,
            running_since=self.started_at,
            last_action_at=None if self.last_change is None else self.last_change.at,
            declared_memory_bytes=job().resources.memory_bytes,
            last_change=self.last_change,
        )
        case = Situation(detect(samples, self.tasks), CONFIGS[self.tasks], state, POLICY, now)
        decision = decide(*case._replace(state=self._with_more(case)))
        if decision.untriaged:
            self.untriaged.append(self.minute)
        if decision.change is not None:
            self._change(decision.action, decision.change["task_count"], now, case.symptoms)

    def _with_more(self, case: Situation) -> ScalerState:
        is_past_needed = self.minute % POLICY.history_every_minutes == 0 and needs_past(case)
        if not (is_past_needed or needs_recent(case)):
            return case.state
        flat = [each for minute in self.minutes for each in minute]
        present = [each for each in flat if each.minute >= self.started_at]
        more: dict[str, Any] = {
            "rate": estimate_rate(flat, POLICY),
            "load": estimate_load(present, self.tasks, POLICY),
        }
        if is_past_needed:
            more |= {"day": self._day(), "workload": workload(self.arrived, case.now, POLICY)}
        return case.state.model_copy(update=more)

    def _day(self) -> DayHistory:
        quiet = next((ago for ago, lagged in enumerate(reversed(self.lagging)) if lagged), len(self.lagging))
        return DayHistory(
            minutes_measured=len(self.lagging),
            minutes_lagging=sum(self.lagging),
            minutes_out_of_memory=0,
            minutes_quiet=quiet,
        )

    def _change(self, action: Action, wanted: int, now: datetime, found: JobSymptoms) -> None:
        self.acted.append((self.minute, action, wanted))
        self.last_change = PastChange(
            at=now,
            action=action,
            tasks_before=self.tasks,
            tasks_after=wanted,
            lag_seconds=found.time_lagged_seconds,
            processed_rows_per_second=found.processed_rows_per_second,
        )
        self.tasks, self.started_at, self.is_stopped = wanted, now, True


def test_the_job_follows_steps_up_without_flapping() -> None:
    """60, 150 and 350 rows/s, half an hour each: the job goes once for each step to what it needs."""
    living = LivingJob(lambda minute: 60.0 if minute < 30 else 150.0 if minute < 60 else 350.0)
    living.run(120)
    assert [action for _, action, _ in living.acted] == [Action.INCREASE_TASKS] * len(living.acted)
    assert living.tasks * P >= 350.0
    assert len(living.acted) <= 3
    assert living.untriaged == []


def test_a_backlog_is_worked_off_in_the_time_asked() -> None:
    """A job of one task finds five hours of rows: within half an hour it is through, by a growth or two."""
    living = LivingJob(lambda minute: 50.0)
    living.backlog = 50.0 * 5 * 3600
    living.run(40)
    assert living.backlog == 0.0
    assert len(living.acted) <= 2


def test_a_sink_that_is_slow_for_everybody_is_left_to_people() -> None:
    """The sink takes 60 rows/s, however many tasks write. The job grows once and goes back; then people are asked for
    as long as it lasts. When the sink is fast again, the job works off what waits."""
    living = LivingJob(lambda minute: 80.0, lambda minute, tasks: 0.6 / tasks if 60 <= minute < 300 else 1.0)
    living.run(300)
    assert [(action, tasks) for _, action, tasks in living.acted] == [(Action.INCREASE_TASKS, 2), (Action.UNDO, 1)]
    assert living.untriaged[-1] == 299
    living.run(60)
    assert living.backlog == 0.0


def test_a_slower_release_gets_more_tasks_and_keeps_them() -> None:
    """At 60 minutes each task does half as much as before, for good."""
    living = LivingJob(lambda minute: 90.0, lambda minute, tasks: 0.5 if minute >= 60 else 1.0)
    living.run(400)
    assert living.acted[-1][0] < 120
    assert {action for _, action, _ in living.acted} == {Action.INCREASE_TASKS}
    assert living.backlog == 0.0


def test_the_daily_tide_is_followed_and_then_foreseen() -> None:
    """80 rows/s, and 320 for eight hours of the day. On the third day the job is ready before that, and it is small
    again after it. A day has few changes."""
    living = LivingJob(lambda minute: 320.0 if 360 <= minute % DAY < 840 else 80.0)
    living.run(2 * DAY)
    missed, done = living.slo_minutes_missed, len(living.acted)
    living.run(DAY)
    assert living.slo_minutes_missed == missed
    last = living.acted[done:]
    assert len(last) <= 4
    assert {action for _, action, _ in last} == {Action.INCREASE_TASKS, Action.DECREASE_TASKS}
    assert living.tasks == 1
