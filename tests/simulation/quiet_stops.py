"""No job is stopped for a rescale before all of its tasks have answered the order to take no more rows, and still run.

What a State Syncer knows is some seconds old. A task that ended just before the stop is no violation.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.health import SILENT
from penstock.model.reports import TaskState
from services.state_syncer.decide.whereabouts import AWAITED_CRASHES
from tests.simulation.ground import Instance
from tests.simulation.network import Weather
from tests.simulation.programs import Surroundings
from tests.support.memory.store import RunningEntry

KNOWN_SECONDS = SILENT.total_seconds() + 15.0
"""A container that is silent for longer is known to be. The rest is for the way of reports, and for a slow store."""
UNWELL_SECONDS = 60.0
"""So long after a time in which reports may come very late, or a process stands still, nothing is asked."""


class QuietStops:
    """To be looked at after every event: `look`, then `committed` for each running row that is new."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._orders: dict[str, RunningEntry] = {}
        self._quiet_at: dict[tuple[str, int], float] = {}
        self._unwell_at = float("-inf")

    def look(self) -> None:
        """Which tasks are quiet now."""
        now = self._around.ground.scheduler.now
        if self._orders and self._is_unwell():
            self._unwell_at = now
        for job, order in self._orders.items():
            for instance in self._around.ground.running.of(job):
                if _is_quiet(instance, order):
                    self._quiet_at[job, instance.spec.index] = now

    def committed(self, job: str, entry: RunningEntry | None) -> Iterator[str]:
        """A job has another running row, or none."""
        order = self._orders.pop(job, None)
        is_quiescing = entry is not None and entry.row.quiescing
        if entry is not None and is_quiescing:
            self._orders[job] = entry
        if order is None or (entry is not None and is_quiescing and order.row.level_ms == entry.row.level_ms):
            return
        if entry is not None and entry.row.stopping and not self._around.database.memory.jobs[job].deleting:
            yield from self._too_early(job, order)
        self._quiet_at = {key: at for key, at in self._quiet_at.items() if key[0] != job}

    def _too_early(self, job: str, order: RunningEntry) -> Iterator[str]:
        now = self._around.ground.scheduler.now
        if now - self._unwell_at < UNWELL_SECONDS:
            return
        for index in range(int(order.config["task_count"])):
            at = self._quiet_at.get((job, index), float("-inf"))
            if now - at > KNOWN_SECONDS and not self._will_not_run(job, index):
                yield f"{job} is stopped for a rescale, and its task {index} is not quiet"

    def _will_not_run(self, job: str, index: int) -> bool:
        """Whether nobody waits for the task, by what is reported."""
        told = (each for tasks in self._around.database.memory.tasks.values() for each in tasks)
        return any(
            each.state is TaskState.HELD or each.crashes >= AWAITED_CRASHES
            for each in told
            if (each.job, each.index) == (job, index)
        )

    def _is_unwell(self) -> bool:
        return self._around.network.weather != Weather() or bool(self._around.network.cut)


def _is_quiet(instance: Instance, order: RunningEntry) -> bool:
    process = instance.host.process
    is_there = not (instance.is_over or instance.is_denied or process.is_dead or process.is_paused)
    return is_there and instance.is_held and instance.is_quiet and instance.level_ms == order.row.level_ms
