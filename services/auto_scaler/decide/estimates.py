"""What a job needs, from what its tasks measured: equations 2 and 3 of Turbine (ICDE 2020, section V-B).

A number of tasks is enough when the task with most key groups keeps up. Key groups are whole, so `ceil(key groups /
tasks)` of them is what counts: 5, 6 and 7 tasks carry no more of 8 key groups than 4 tasks do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from statistics import fmean, median
from typing import NamedTuple

from services.auto_scaler.decide.model import Load, PastChange, RateEstimate
from services.auto_scaler.decide.policy import Policy

_BUSY_BACKLOG_SECONDS = 30.0
_BEST_SHARE = 0.9


class TaskMinute(NamedTuple):
    """What one task measured in one minute; rates are per second, None is unknown."""

    minute: datetime
    task: int
    input_rows: float | None = None
    processed_rows: float | None = None
    backlog: float | None = None
    state_rows: float | None = None
    state_bytes: float | None = None


def estimate_rate(minutes: Iterable[TaskMinute], policy: Policy) -> RateEstimate | None:
    """The rate of one task; None when no task processed anything. The median bears a few wild minutes."""
    worked = [minute for minute in minutes if minute.processed_rows]
    if not worked:
        return None
    busy = [minute for minute in worked if is_busy(minute, policy)]
    best = sorted(_rate(minute) for minute in worked)[int(_BEST_SHARE * (len(worked) - 1))]
    if len(busy) < policy.least_busy_minutes:
        return RateEstimate(
            rows_per_second=_median(worked), busy_minutes=len(busy), is_lower_bound=True, best_rows_per_second=best
        )
    since = max(minute.minute for minute in worked) - timedelta(minutes=policy.latest_minutes)
    latest = [minute for minute in busy if minute.minute > since]
    return RateEstimate(
        rows_per_second=_median(busy),
        busy_minutes=len(busy),
        latest_rows_per_second=_median(latest) if len(latest) >= policy.least_busy_minutes else None,
        best_rows_per_second=best,
    )


def with_profile(rate: RateEstimate | None, profiled: float | None) -> RateEstimate | None:
    """The rate until the tasks have been busy for long enough: that of a staging run, which the paper bootstraps P
    with. What the tasks have shown to be more counts. A run has no sink, so where too few tasks do harm, in reductions,
    what was measured counts (`careful`). `profiled`: rows per second that nine batches in ten of the run did; None
    without a run of the same query."""
    if profiled is None or (rate is not None and not rate.is_lower_bound):
        return rate
    shown = 0.0 if rate is None else rate.rows_per_second
    return RateEstimate(
        rows_per_second=max(profiled, shown),
        busy_minutes=0 if rate is None else rate.busy_minutes,
        latest_rows_per_second=shown or None,
        best_rows_per_second=None if rate is None else rate.best_rows_per_second,
        of_profile=True,
    )


def _median(minutes: Sequence[TaskMinute]) -> float:
    return median(_rate(minute) for minute in minutes)


def is_busy(minute: TaskMinute, policy: Policy) -> bool:
    """Whether the task worked for most of the minute, or had half a minute of work waiting."""
    rate = _rate(minute)
    return (minute.input_rows or 0.0) >= policy.busy_share * rate or (
        minute.backlog or 0.0
    ) >= _BUSY_BACKLOG_SECONDS * rate


def _rate(minute: TaskMinute) -> float:
    return minute.processed_rows or 0.0


def estimate_load(minutes: Iterable[TaskMinute], task_count: int, policy: Policy) -> Load | None:
    """What comes in, from the newest minutes of which every task measured its input; None without any."""
    ordered = sorted(minutes, key=lambda minute: minute.minute)
    by_minute = [list(group) for _, group in groupby(ordered, key=lambda minute: minute.minute)]
    whole = [group for group in by_minute if _is_whole(group, task_count)][-policy.load_minutes :]
    if not whole:
        return None
    found = [_by_task(group) for group in whole]
    by_task = [_load([[each[task]] for each in found]) for task in range(task_count)]
    busiest = max(by_task, key=lambda load: (load.backlog_records or 0.0, load.rows_per_second))
    return _load(whole).model_copy(
        update={
            "busiest_rows_per_second": busiest.rows_per_second,
            "busiest_backlog_records": busiest.backlog_records,
        }
    )


def _by_task(group: Sequence[TaskMinute]) -> dict[int, TaskMinute]:
    """The first minute of each task."""
    return {minute.task: minute for minute in reversed(group)}


def _load(groups: Sequence[Sequence[TaskMinute]]) -> Load:
    """What came in to some tasks. A growth that has just begun shows in the last two minutes, and is not averaged."""
    read = fmean(sum(minute.input_rows or 0.0 for minute in group) for group in groups)
    growth = _backlog_growth(groups)
    latest = sum(minute.input_rows or 0.0 for minute in groups[-1]) + (_backlog_growth(groups[-2:]) or 0.0)
    is_growing = growth is not None and growth > 0
    return Load(
        rows_per_second=max(0.0, read + (growth or 0.0), latest if is_growing else 0.0),
        backlog_records=_backlog(groups[-1]),
        backlog_growth_per_second=growth,
    )


def _is_whole(group: Sequence[TaskMinute], task_count: int) -> bool:
    known = {minute.task for minute in group if minute.input_rows is not None}
    return known >= set(range(task_count))


def _backlog(group: Sequence[TaskMinute]) -> float | None:
    known = [minute.backlog for minute in group if minute.backlog is not None]
    return sum(known) if len(known) == len(group) else None


def _backlog_growth(groups: Sequence[Sequence[TaskMinute]]) -> float | None:
    first, last = _backlog(groups[0]), _backlog(groups[-1])
    seconds = (groups[-1][0].minute - groups[0][0].minute).total_seconds()
    return None if first is None or last is None or not seconds else (last - first) / seconds


def work_per_second(load: Load, backlog: float, recovery_seconds: float, tasks: int) -> float:
    """X + B/t: rows per second that a job must process to work off its backlog within the time (equation 3).

    Tasks are as many as the busiest one needs: its key groups are split when there are more tasks.
    """
    together = load.rows_per_second + backlog / recovery_seconds
    if load.busiest_rows_per_second is None:
        return together
    busiest = load.busiest_rows_per_second + (load.busiest_backlog_records or 0.0) / recovery_seconds
    return max(together, tasks * busiest)


def skew(load: Load, tasks: int) -> float:
    """What comes in to the busiest task, in parts of what comes in to a task on average."""
    if load.busiest_rows_per_second is None or load.rows_per_second <= 0:
        return 1.0
    return max(1.0, tasks * load.busiest_rows_per_second / load.rows_per_second)


def recovery_seconds(slo_seconds: float, policy: Policy) -> float:
    """t: how long a job may take to work off its backlog. A job with a strict SLO gets less time."""
    return min(policy.recovery_seconds, policy.recovery_per_slo * slo_seconds)


def tasks_needed(work: float, rate: float, key_groups: int) -> int:
    """The fewest tasks of which each keeps up: n >= work / (P k), dealt in whole key groups (equations 2 and 3).

    More than there are key groups when not even one key group for each task is enough.
    """
    if work <= 0:
        return 1
    # Before it is made whole: next to no work would be infinitely many.
    most_key_groups = math.floor(min(key_groups * rate / work, key_groups))
    if most_key_groups < 1:
        return max(key_groups + 1, math.ceil(work / rate))
    return math.ceil(key_groups / most_key_groups)


def fewest_alike(tasks: int, key_groups: int) -> int:
    """The smallest number of tasks that carries as much as `tasks` do."""
    return math.ceil(key_groups / math.ceil(key_groups / tasks))


def next_larger(tasks: int, key_groups: int) -> int | None:
    """The smallest number of tasks that carries more than `tasks` do; None when there is none."""
    most_key_groups = math.ceil(key_groups / tasks)
    return math.ceil(key_groups / (most_key_groups - 1)) if most_key_groups > 1 else None


def rate_without_lag(rate: RateEstimate, load: Load, tasks: int) -> float:
    """P, corrected upwards: tasks that do not lag can do what they do (section V-C 1)."""
    return max(rate.careful, load.rows_per_second / tasks)


def rate_with_lag(
    rate: RateEstimate, load: Load, tasks: int, present: float | None, shrunk: PastChange | None, policy: Policy
) -> float:
    """P, corrected downwards (section V-C 1).

    After a decrease that made the job lag, P is between X/n and what it was thought to be: the middle. Tasks that are
    slower now (`present`, of one task) count as slow as they are, and faster ones have shown that they can.
    """
    value = max(rate.rows_per_second, present or 0.0)
    if shrunk is not None:
        value = min(value, (load.rows_per_second / tasks + value) / 2)
    if present is not None and not is_outage(rate, present, policy):
        value = min(value, present)
    return value


def is_outage(rate: RateEstimate, present: float, policy: Policy) -> bool:
    """Whether a task does so little of what it can that no number of tasks is an answer."""
    return present < policy.slow_share * rate.best


def memory_needed(used_bytes: int, policy: Policy) -> int:
    """Bytes for a task that uses so many."""
    return math.ceil(used_bytes * (1 + policy.memory_headroom))


def tasks_for_memory(used_bytes: int, tasks: int, memory_bytes: int, policy: Policy) -> int:
    """The fewest tasks whose memory is enough for the state of all: fewer tasks have more of it each."""
    return math.ceil(tasks * memory_needed(used_bytes, policy) / memory_bytes)
