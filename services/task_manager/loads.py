"""The load of each task: the mean of what its host measured lately, and when it is told. Pure; `now` is passed in."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.tasks.dimensions import Amounts
from services.task_manager.model import LoadPeriods


@dataclass(slots=True)
class _Measured:
    since: float
    samples: deque[tuple[float, Amounts]] = field(default_factory=deque)
    told: frozenset[str] = frozenset()
    told_at: float | None = None


class Loads:
    """Measurements by task id since the task was started here; a dimension that was never measured is missing."""

    def __init__(self, periods: LoadPeriods) -> None:
        self._periods = periods
        self._tasks: dict[str, _Measured] = {}

    def take(self, task_id: str, load: Amounts, now: float) -> None:
        """A host measured a task."""
        measured = self._tasks.setdefault(task_id, _Measured(now))
        measured.samples.append((now, load))
        self._trim(measured, now)

    def forget(self, task_id: str) -> None:
        """The task has ended here."""
        self._tasks.pop(task_id, None)

    def mean(self, task_id: str, now: float) -> dict[str, float]:
        """A task's load; empty while it is unknown."""
        measured = self._tasks.get(task_id)
        if measured is None or now - measured.since < self._periods.first:
            return {}
        self._trim(measured, now)
        return _means(load for _, load in measured.samples)

    def due(self, now: float) -> dict[str, dict[str, float]]:
        """The loads that are to be told: when it is time, or a dimension is known for the first time."""
        waiting = (task_id for task_id, measured in self._tasks.items() if self._may_tell(measured, now))
        loads = {task_id: self.mean(task_id, now) for task_id in waiting}
        return {task_id: load for task_id, load in loads.items() if self._is_news(self._tasks[task_id], load, now)}

    def told(self, loads: Mapping[str, Amounts], now: float) -> None:
        """The Task Service has taken these."""
        for task_id in loads.keys() & self._tasks.keys():
            self._tasks[task_id].told = frozenset(loads[task_id])
            self._tasks[task_id].told_at = now

    def _may_tell(self, measured: _Measured, now: float) -> bool:
        """Cheap, for every report asks it of every task: only a sample can bring a dimension that was never told."""
        newest = measured.samples[-1][1] if measured.samples else {}
        return self._is_time(measured, now) or not measured.told.issuperset(newest)

    def _is_news(self, measured: _Measured, load: Amounts, now: float) -> bool:
        return bool(load) and (self._is_time(measured, now) or not measured.told.issuperset(load))

    def _is_time(self, measured: _Measured, now: float) -> bool:
        return measured.told_at is None or now - measured.told_at >= self._periods.report

    def _trim(self, measured: _Measured, now: float) -> None:
        while measured.samples and now - measured.samples[0][0] > self._periods.window:
            measured.samples.popleft()


def _means(samples: Iterable[Amounts]) -> dict[str, float]:
    """The mean of each dimension over the samples that have it, to four digits that count."""
    amounts: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        for name, amount in sample.items():
            amounts[name].append(amount)
    return {name: float(f"{sum(values) / len(values):.4g}") for name, values in amounts.items()}
