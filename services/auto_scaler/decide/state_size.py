"""The memory that a job's state takes, learned from what its tasks measured of it. Pure.

Two lines are fitted by least squares over minutes of tasks: bytes of state by its rows, and rows of state by the rows
that come in. The rows of an aggregation by keys are its keys, and do not depend on the input. A join or a window keeps
each row as long as its window and the disorder of its input ask: the slope of the second line, in seconds. Rows of a
join that match several others are in the slope, too. A line counts only with evidence (`_slope`), and within bounds.
Otherwise nothing is estimated, and the rules that go by used memory alone hold.

With both lines, the memory after a change is that of now plus the bytes of the rows that come to a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import correlation, linear_regression

from services.auto_scaler.decide.estimates import TaskMinute, memory_needed
from services.auto_scaler.decide.model import StateSize
from services.auto_scaler.decide.policy import Policy

LEAST_MINUTES = 20
"""Minutes of tasks that make a line."""
_LEAST_SPREAD = 0.1
"""Of the greatest value of a line's points, how far they must lie apart: a line through one place has any slope."""
_LEAST_EXPLAINED = 0.8
"""The part of the variance that a line must explain."""
_MOST_BYTES_PER_ROW = 2.0**20
_MOST_SECONDS_KEPT = 7 * 86_400.0


def estimate_state(minutes: Iterable[TaskMinute]) -> StateSize | None:
    """What a row of state takes, and what the rows depend on; None without evidence for the first of these.

    `rows`: of the task that has most, in the newest minute.
    """
    known = [minute for minute in minutes if minute.state_rows is not None]
    if not known:
        return None
    measured = [(minute.state_rows, minute.state_bytes) for minute in known]
    bytes_per_row = _slope([(rows, size) for rows, size in measured if rows is not None and size is not None])
    if bytes_per_row is None or bytes_per_row > _MOST_BYTES_PER_ROW:
        return None
    newest = max(minute.minute for minute in known)
    read = [(minute.input_rows, minute.state_rows) for minute in known]
    seconds_kept = _slope([(came, rows) for came, rows in read if came is not None and rows is not None])
    return StateSize(
        bytes_per_row=bytes_per_row,
        rows=max(minute.state_rows or 0.0 for minute in known if minute.minute == newest),
        seconds_kept=seconds_kept if (seconds_kept or 0.0) <= _MOST_SECONDS_KEPT else None,
        minutes=len(measured),
    )


def bytes_in_tasks(used_bytes: int, size: StateSize, tasks: int, fewer: int) -> int:
    """What the largest of `fewer` tasks would use: its state is dealt anew, and all else of a task stays.

    The state of a task is never more than what it uses.
    """
    return math.ceil(used_bytes + _state_bytes(used_bytes, size) * (tasks / fewer - 1))


def bytes_with_input(used_bytes: int, size: StateSize, more_rows_per_second: float) -> int:
    """What the largest task would use with so much more input each; as now where rows do not depend on the input."""
    more_rows = (size.seconds_kept or 0.0) * max(0.0, more_rows_per_second)
    return math.ceil(used_bytes + size.bytes_per_row * more_rows)


def tasks_for_state(used_bytes: int, size: StateSize, tasks: int, memory_bytes: int, policy: Policy) -> int:
    """The fewest tasks, at most those of now, in which the state has room."""
    fits = (
        fewer
        for fewer in range(1, tasks)
        if memory_needed(bytes_in_tasks(used_bytes, size, tasks, fewer), policy) <= memory_bytes
    )
    return next(fits, tasks)


def _state_bytes(used_bytes: int, size: StateSize) -> float:
    return min(float(used_bytes), size.bytes_per_row * size.rows)


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the line of least squares, when it rises; None when there are few points, they lie in one place, or
    they do not lie on a line."""
    if len(points) < LEAST_MINUTES:
        return None
    across = [point[0] for point in points]
    up = [point[1] for point in points]
    if not _is_spread(across) or not _is_spread(up):
        return None
    related = correlation(across, up)
    if related <= 0 or related**2 < _LEAST_EXPLAINED:
        return None
    return linear_regression(across, up).slope


def _is_spread(values: Sequence[float]) -> bool:
    return max(values) - min(values) > _LEAST_SPREAD * max(values)
