"""The load of each task: the mean of its host's recent measurements, and when it is reported. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.tasks.dimensions import Amounts
from services.task_manager.decide.model import Limits


@dataclass(slots=True)
class _Measured:
    since: float
    samples: deque[tuple[float, Amounts]] = field(default_factory=deque)
    reported: frozenset[str] = frozenset()
    reported_at: float | None = None


class Loads:
    """Measurements by task id since the task started here. A dimension that was never measured is missing."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tasks: dict[str, _Measured] = {}

    def add(self, task_id: str, load: Amounts, now: float) -> None:
        """Adds a measurement of a task."""
        measured = self._tasks.setdefault(task_id, _Measured(now))
        measured.samples.append((now, load))
        self._trim(measured, now)

    def forget(self, task_id: str) -> None:
        """The task has ended here."""
        self._tasks.pop(task_id, None)

    def mean(self, task_id: str, now: float) -> dict[str, float]:
        """A task's load by dimension; empty while it is unknown."""
        measured = self._tasks.get(task_id)
        if measured is None or now - measured.since < self._limits.load_first_seconds:
            return {}
        self._trim(measured, now)
        return _means(load for _, load in measured.samples)

    def due(self, now: float) -> dict[str, dict[str, float]]:
        """The loads to report now: those whose period is over, and those with a dimension never reported before."""
        candidates = (task_id for task_id, measured in self._tasks.items() if self._may_be_due(measured, now))
        loads = {task_id: self.mean(task_id, now) for task_id in candidates}
        return {task_id: load for task_id, load in loads.items() if self._is_due(self._tasks[task_id], load, now)}

    def reported(self, loads: Mapping[str, Amounts], now: float) -> None:
        """The Task Service has stored these loads."""
        for task_id in loads.keys() & self._tasks.keys():
            self._tasks[task_id].reported = frozenset(loads[task_id])
            self._tasks[task_id].reported_at = now

    def _may_be_due(self, measured: _Measured, now: float) -> bool:
        """A cheap check without a mean: only a sample can bring a dimension that was never reported."""
        newest = measured.samples[-1][1] if measured.samples else {}
        return self._is_time(measured, now) or not measured.reported.issuperset(newest)

    def _is_due(self, measured: _Measured, load: Amounts, now: float) -> bool:
        return bool(load) and (self._is_time(measured, now) or not measured.reported.issuperset(load))

    def _is_time(self, measured: _Measured, now: float) -> bool:
        return measured.reported_at is None or now - measured.reported_at >= self._limits.load_report_seconds

    def _trim(self, measured: _Measured, now: float) -> None:
        while measured.samples and now - measured.samples[0][0] > self._limits.load_window_seconds:
            measured.samples.popleft()


def _means(samples: Iterable[Amounts]) -> dict[str, float]:
    """The mean of each dimension over the samples that have it, to four significant digits."""
    amounts: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        for name, amount in sample.items():
            amounts[name].append(amount)
    return {name: float(f"{sum(values) / len(values):.4g}") for name, values in amounts.items()}
