"""What must hold of releases, told by commits and by the tasks that begin: a package goes out in waves, one task first,
no further before the tasks of a wave have run, and never two packages beside the one that was good before. A package is
rejected by what containers have reported of its tasks, and never since they reported nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson

from penstock.model.reports import TaskReport, TaskState
from penstock.tasks.rollout import ROLLOUT_SHARE
from penstock.tasks.spec import TaskSpec
from tests.simulation.packages import breaks, is_bad
from tests.support.memory.store import MemoryStore, ReportEntry, RunningEntry

# So long after the last report that spoke against a package it may still be rejected by it.
LATEST_EVIDENCE_SECONDS = 40.0
CRASHES = 3


class Evidence:
    """What containers report against the packages that go out: by job and revision, when they did last."""

    def __init__(self, memory: MemoryStore) -> None:
        self._memory = memory
        self._seen: dict[str, ReportEntry] = {}
        self._against: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self._rejected: dict[str, Any] = {}
        self._transactions = -1

    def look(self) -> Iterator[str]:
        """Notes the reports that came with the last event, and complains of a rejection that nothing speaks for."""
        if self._memory.transactions == self._transactions:
            return
        self._transactions = self._memory.transactions
        if self._memory.plans:
            for container, entry in self._memory.reports.items():
                if self._seen.get(container) is not entry:
                    self._seen[container] = entry
                    self._note(self._memory.tasks.get(container, ()))
        for job, record in self._memory.rejected.items():
            if self._rejected.get(job) is not record:
                yield from self._of(job, record)
        self._rejected = dict(self._memory.rejected)

    def _note(self, tasks: tuple[TaskReport, ...]) -> None:
        for task in tasks:
            if task.crashes >= CRASHES:
                self._against[task.job][task.revision] = float("inf")
            elif task.crashes or task.state in (TaskState.STARTING, TaskState.CRASHED):
                before = self._against[task.job].get(task.revision, 0.0)
                self._against[task.job][task.revision] = max(before, self._memory.now())

    def _of(self, job: str, record: Any) -> Iterator[str]:
        version = next((leaf["new"] for leaf in record["leaves"] if leaf["path"] == ["package", "version"]), None)
        found = [at for revision, at in self._against[job].items() if revision >= record["revision"]]
        is_spoken_against = max(found, default=float("-inf")) >= self._memory.now() - LATEST_EVIDENCE_SECONDS
        if version is not None and not is_bad(version) and not is_spoken_against:
            yield f"{job}: {version} is rejected, and no report speaks against it: {record['task']}: {record['error']}"


class Row:
    """A running row as far as a release goes. `settled`: the package of the tasks that are not upgraded; `upgraded`:
    how many run the row's own."""

    def __init__(self, entry: RunningEntry) -> None:
        row, config = entry.row, orjson.loads(entry.row.config)
        self.generation = row.generation
        self.package: Any = config["package"]
        self.task_count = int(config["task_count"])
        self.runs = row.started and not row.stopping and config["desired_state"] == "running"
        before = None if row.rollout is None else row.rollout["before"]["config"]["package"]
        self.settled = self.package if before is None else before
        is_whole = row.rollout is None or self.settled == self.package
        self.upgraded = self.task_count if is_whole else int(row.rollout["upgraded"])


class Releases:
    """Looks at each commit of a job, beside the one before."""

    def __init__(self, memory: MemoryStore) -> None:
        self._memory = memory
        self._began: defaultdict[str, set[tuple[int, int, str]]] = defaultdict(set)
        self._former: dict[str, Any] = {}

    def began(self, spec: TaskSpec) -> None:
        """A task runs."""
        self._began[spec.job].add((spec.generation, spec.index, spec.config.package.version))

    def committed(self, job: str, before: RunningEntry, after: RunningEntry) -> Iterator[str]:
        """What does not hold."""
        old, new = Row(before), Row(after)
        if not (old.runs and new.runs and old.generation == new.generation):
            return
        if new.package == old.package:
            yield from self._wave(job, old, new)
        elif not self._is_known_good(job, old, new):
            yield from self._first_wave(job, old, new)
        if new.package != old.package or old.upgraded < new.upgraded == new.task_count:
            self._former[job] = old.settled

    def forget(self, job: str) -> None:
        """The job is gone."""
        self._began.pop(job, None)
        self._former.pop(job, None)

    def _wave(self, job: str, old: Row, new: Row) -> Iterator[str]:
        if new.upgraded <= old.upgraded:
            return
        where = f"wave of {job} from {old.upgraded} to {new.upgraded} of {new.task_count} tasks"
        if new.upgraded - old.upgraded > max(1, math.ceil(ROLLOUT_SHARE * new.task_count)):
            yield f"{where}: too many at once"
        version = str(new.package["version"])
        unseen = [index for index in range(old.upgraded) if (old.generation, index, version) not in self._began[job]]
        if unseen:
            yield f"{where}: tasks {unseen} never ran {version}"
        if breaks(version):
            yield f"{where}: {version} cannot run"
        if new.settled not in (old.settled, new.package):
            yield f"{where}: other tasks run {new.settled}, before they ran {old.settled}"

    def _is_known_good(self, job: str, old: Row, new: Row) -> bool:
        """Back to what ran before, at once."""
        entry = self._memory.jobs.get(job)
        layer = None if entry is None else entry.layers.get("rollback")
        is_rolled_back = layer is not None and layer.get("package", {}).get("version") == new.package["version"]
        return is_rolled_back or new.package in (old.settled, self._former.get(job))

    def _first_wave(self, job: str, old: Row, new: Row) -> Iterator[str]:
        where = f"{job} goes from {old.package['version']} to {new.package['version']}"
        if new.upgraded > 1:
            yield f"{where}: {new.upgraded} of {new.task_count} tasks at once"
        if new.task_count > 1 and new.settled != old.settled:
            yield f"{where}: other tasks run {new.settled['version']}, before they ran {old.settled['version']}"
