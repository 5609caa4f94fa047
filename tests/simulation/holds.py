"""No task is kept from its rows for long while another task of its job is lost, and the cell is well."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from penstock.model.health import SILENT
from penstock.model.reports import TaskState
from services.state_syncer.decide.whereabouts import AWAITED_CRASHES
from tests.simulation.owners import is_calm, is_up
from tests.simulation.processes import Machine
from tests.simulation.programs import LEADER_LEASE_SECONDS, Surroundings

LOOK_EVERY_SECONDS = 1.0
EVIDENCE_SECONDS = 15.0
"""So long after the time of its silence it takes until a container counts as silent; or until a task, known to be lost
at once, is waited for no more."""
MARGIN_SECONDS = 10.0
BOUND_SECONDS = (SILENT.total_seconds() + EVIDENCE_SECONDS + LEADER_LEASE_SECONDS) * 1.04 + MARGIN_SECONDS
"""An election among it; clocks 3 % slow."""
_SERVICES = ("syncer", "shards", "tasks")


class Holds:
    """To be looked at once a second, from `due_at`. A task is lost while no run of it lives: one whose host or machine
    stands still may go on."""

    def __init__(self, around: Surroundings, machines: dict[str, Machine]) -> None:
        self._around = around
        self._machines = machines
        self.due_at = LOOK_EVERY_SECONDS
        self._well_since = 0.0
        self._lost_since: dict[tuple[str, int], float] = {}

    def look(self, now: float) -> Iterator[str]:
        """The tasks that were waited for too long."""
        self.due_at = now + LOOK_EVERY_SECONDS
        if not self._is_well():
            self._well_since = now
        lost = set(self._lost())
        self._lost_since = {key: self._lost_since.get(key, now) for key in sorted(lost)}
        for (job, index), since in self._lost_since.items():
            seconds = now - max(since, self._well_since)
            if seconds > BOUND_SECONDS:
                self._lost_since[job, index] = now
                yield f"tasks of {job} have taken no rows for {seconds:.0f} s, in which its task {index} was lost"

    def began(self, job: str, index: int) -> None:
        """A task runs again, though it may be lost before anybody looks."""
        self._lost_since.pop((job, index), None)

    def _lost(self) -> Iterator[tuple[str, int]]:
        """The tasks that are lost, of jobs that have others which take no rows."""
        for job, entry in self._around.database.memory.running.items():
            if not entry.row.quiescing:
                continue
            runs = [each for each in self._around.ground.running.of(job) if not each.is_over and not each.is_denied]
            there = {each.spec.index for each in runs if not each.host.process.is_dead}
            if not any(each.is_held for each in runs if each.spec.index in there):
                continue
            count = int(orjson.loads(entry.row.config)["task_count"])
            yield from ((job, index) for index in range(count) if index not in there and self._is_awaited(job, index))

    def _is_awaited(self, job: str, index: int) -> bool:
        told = (each for tasks in self._around.database.memory.tasks.values() for each in tasks)
        return not any(
            each.state is TaskState.HELD or each.crashes >= AWAITED_CRASHES
            for each in told
            if (each.job, each.index) == (job, index)
        )

    def _is_well(self) -> bool:
        """Whether nothing keeps the State Syncers from what they have to know, and to do."""
        up = {name for name, machine in self._machines.items() if is_up(machine)}
        services = {name for name in self._machines if name.startswith(_SERVICES)}
        return is_calm(self._around) and services <= up and any(name.startswith("c") for name in up)
