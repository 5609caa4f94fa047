"""What is recorded of a job: its minutes, and what the stored decisions about it were made from. Pure.

Rows that came in are those that were read and those by which the backlog grew. What a task gets through is measured
only while tasks are busy: an idle minute has the median of the busy ones, or more where it shows more.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from pydantic import ValidationError

from penstock.config.model import JobConfig
from penstock.model.job_metrics import MINUTE, JobMinutes, Values
from penstock.tasks.rates import stopped_seconds
from penstock.tasks.spec import key_group_count
from services.auto_scaler.decide import estimates
from services.auto_scaler.decide.decision import REASON, WHY, DecisionInputs
from services.auto_scaler.decide.model import ScalerState
from services.auto_scaler.decide.patterns import JobMinute, arrivals
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.replay.model import RescaleCost

METRICS = (
    "input_rows_per_second",
    "processed_rows_per_second",
    "backlog_records",
    "busy_share",
    "lag_seconds",
    "tasks_running",
)
# Of a job that has no rescale of its own: the small ones of `rescale` in tests/bench/README.md.
USUAL_COST = RescaleCost(lead_seconds=2.0, down_seconds=2.0)
_MOST_SHARE = 0.9
_MEASURED_THEN = {"rate": None, "load": None, "state_size": None, "workload": None, "day": None}
_BUSY_BACKLOG_SECONDS = 30.0


class RecordedMinute(NamedTuple):
    """A minute as it was; rates in rows per second, None is unknown. `rate_per_task`: what a task gets through."""

    at: datetime
    arrived: float | None
    rate_per_task: float | None
    tasks: int | None
    lag_seconds: float | None
    backlog: float | None


class Known(NamedTuple):
    """What was known of a job from a moment on, besides its minutes and its changes."""

    since: datetime
    config: JobConfig
    state: ScalerState


class StoredDecision(NamedTuple):
    """A row of the ledger."""

    at: datetime
    action: str
    change: Mapping[str, Any] | None
    outcome: str
    inputs: Mapping[str, Any]


class RecordedJob(NamedTuple):
    """All that a replay goes by. `before`: minutes from before the replay, for past days. `known`: oldest first, at
    least one. `decisions`: those of the replayed time. `cost`: None when the job has not been rescaled yet."""

    job: str
    minutes: Sequence[RecordedMinute]
    before: Sequence[JobMinute]
    known: Sequence[Known]
    decisions: Sequence[StoredDecision]
    skew: float
    cost: RescaleCost | None

    def known_at(self, moment: datetime) -> Known:
        """What was known then; of the time before the first decision, what was known at it."""
        return self.known[max(0, bisect_right(self.known, moment, key=lambda one: one.since) - 1)]


def recorded_job(
    job: str,
    since: datetime,
    found: JobMinutes,
    decisions: Sequence[StoredDecision],
    present: Known,
    rescale_seconds: Mapping[str, float] | None,
    policy: Policy,
) -> RecordedJob:
    """What is recorded, from rows; `found` and `decisions` may begin before `since`.

    `present`: what is known now, for a job without decisions.
    """
    read = inputs_of(decisions)
    known = [Known(one.now, one.config, one.state.model_copy(update=_MEASURED_THEN)) for one in read] or [present]
    minutes = _minutes(found, policy)
    history = zip(minutes, found.values["input_rows_per_second"], strict=True)
    return RecordedJob(
        job=job,
        minutes=[minute for minute in minutes if minute.at >= since],
        before=[JobMinute(one.at, rows, one.backlog) for one, rows in history if one.at < since and rows is not None],
        known=known,
        decisions=[one for one in decisions if one.at >= since],
        skew=_skew(read),
        cost=cost_of(rescale_seconds),
    )


def inputs_of(decisions: Sequence[StoredDecision]) -> list[DecisionInputs]:
    """The inputs of the decisions that this release understands."""
    return [inputs for one in decisions if (inputs := read_inputs(one)) is not None]


def read_inputs(decision: StoredDecision) -> DecisionInputs | None:
    """The inputs of a decision; None when another release stored them in a way that this one does not understand."""
    try:
        return DecisionInputs.model_validate(
            {key: value for key, value in decision.inputs.items() if key not in (REASON, WHY)}
        )
    except ValidationError:
        return None


def cost_of(seconds: Mapping[str, float] | None) -> RescaleCost | None:
    """The cost of a rescale, from the seconds of the steps of the job's last one."""
    down = stopped_seconds(seconds)
    if seconds is None or down is None:
        return None
    return RescaleCost(lead_seconds=max(0.0, seconds["total"] - down), down_seconds=max(0.0, down))


def _minutes(found: JobMinutes, policy: Policy) -> list[RecordedMinute]:
    columns = [found.values[name] for name in METRICS]
    times = [found.since + number * MINUTE for number in range(len(columns[0]))]
    read, _, backlog, _, lag, running = columns
    known = [
        JobMinute(at, rows, waiting) for at, rows, waiting in zip(times, read, backlog, strict=True) if rows is not None
    ]
    came = arrivals(known)
    rates = rates_per_task(found, policy)
    return [
        RecordedMinute(at, came.get(at), rate, int(tasks) if tasks else None, seconds, waiting)
        for at, rate, tasks, seconds, waiting in zip(times, rates, running, lag, backlog, strict=True)
    ]


def rates_per_task(found: JobMinutes, policy: Policy) -> list[float | None]:
    """What a task gets through in each minute; None when no minute at all tells it."""
    _, processed, backlog, busy, _, running = (found.values[name] for name in METRICS)
    shown = [rate / tasks if rate and tasks else None for rate, tasks in zip(processed, running, strict=True)]
    was_busy = [_is_busy(*minute, policy=policy) for minute in zip(shown, running, backlog, busy, strict=True)]
    usual = _usual(shown, was_busy)
    if usual is None:
        return [None] * len(shown)
    return [
        rate if rate is not None and is_busy else max(rate or 0.0, usual)
        for rate, is_busy in zip(shown, was_busy, strict=True)
    ]


def _is_busy(
    rate: float | None, tasks: float | None, backlog: float | None, busy: float | None, *, policy: Policy
) -> bool:
    if rate is None or not tasks:
        return False
    return (busy or 0.0) >= policy.busy_share or (backlog or 0.0) >= _BUSY_BACKLOG_SECONDS * rate * tasks


def _usual(shown: Values | Sequence[float | None], was_busy: Sequence[bool]) -> float | None:
    """The median of the busy minutes; without any, what one minute in ten exceeds, which is less than a task can do."""
    busy = [rate for rate, is_busy in zip(shown, was_busy, strict=True) if rate is not None and is_busy]
    if busy:
        return median(busy)
    known = sorted(rate for rate in shown if rate is not None)
    return known[int(_MOST_SHARE * (len(known) - 1))] if known else None


def _skew(read: Sequence[DecisionInputs]) -> float:
    """How much more the busiest task had than its share of the key groups: the median of what decisions saw."""
    seen = [_skew_of(one) for one in read if one.state.load is not None and one.config.task_count > 1]
    return median(seen) if seen else 1.0


def _skew_of(inputs: DecisionInputs) -> float:
    load, tasks, key_groups = inputs.state.load, inputs.config.task_count, key_group_count(inputs.config)
    by_key_groups = tasks * math.ceil(key_groups / tasks) / key_groups
    return 1.0 if load is None else max(1.0, estimates.skew(load, tasks) / by_key_groups)
