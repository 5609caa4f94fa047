"""A release of a new package to every task of a large cell, on virtual time, with the State Syncer's real rounds.

Real: `StateSyncer` with its set-based way, plans, waves, budget and rollout policy at the product's defaults, on the
in-memory job store; templates and their expansion; what a change of a task's spec asks for (`step_between`); the
independent checker of releases. No threads: a round is an event, as is all that a container does.

A model, from measured figures (`Figures`): how long a round takes, the way of a commit to a container, what a container
needs to take a delta in, stops, starts, a new Spark host for the package, and the reports. Commits come to containers
as the Task Service tells them: one delta at a time, with all that was committed meanwhile. A container starts tasks one
after another, and none on the new package before its host is up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

from penstock.config.validate import check_merged
from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.store.running import STATE_SYNCER
from penstock.tasks.ownership import Member
from penstock.tasks.shards import shard_of
from penstock.tasks.spec import TaskSpec, expand
from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.view import SyncRecord
from services.state_syncer.round.loop import StateSyncer
from services.task_manager.decide.changes import Step, step_between
from services.task_manager.settings import TaskManagerSettings
from services.task_service.templates import template_of
from tests.simulation.clock import BEGIN
from tests.simulation.releases import Releases
from tests.support.memory.specs import stored_template
from tests.support.memory.store import LeaseEntry, MemoryStore, ReportEntry, RunningEntry
from tests.support.memory.sync import MemorySyncStore
from tests.support.state_syncer.containers import NobodyToAsk
from tests.support.store.jobs import make_layer

AWAIT_SECONDS = 1.0
PERIOD_SECONDS = 30.0
GATHER_SECONDS = 0.02
LONGEST_SECONDS = 3600.0


@dataclass(frozen=True)
class Figures:
    """Seconds. `round_of_job`: of a round, by each job of the cell: the slowest of `tests.bench.sync` in the default
    budget, 3.9 s for 100,000. `notice`: from a commit to its arrival, at least and at most. `take_in`: a container's
    work on a delta, and `pause` before it asks for the next. `stop`: to the end of a batch, at least and at most.
    `start`: of a task on a warm host to its first committed batch, and `host`: the same with a host of its own
    (`tests.bench.hosts`). `look`: between two looks at progress; `report`: between reports; `gap` before one that has
    news. `idle`: the share of jobs without input."""

    round_at_least: float = 0.1
    round_of_job: float = 3.9e-5
    notice: tuple[float, float] = (0.02, 0.3)
    take_in: float = 0.5
    pause: float = TaskManagerSettings().delta_gap_seconds
    stop: tuple[float, float] = (0.05, 1.0)
    start: float = 0.45
    host: float = 18.5
    look: float = 1.0
    report: float = 2.0
    gap: float = 0.2
    idle: float = 0.0


@dataclass(eq=False)
class Placed:
    """A task as its container has it."""

    spec: TaskSpec
    report: TaskReport
    is_idle: bool


@dataclass(eq=False)
class Box:
    """A container. `delta`: specs of jobs that it fetches at `fetch_at` and has taken in at `ready_at`.

    `host_ready_at`: of the package that goes out; `free_at`: when it may start the next task; `reports_at`: when it
    reports next.
    """

    name: str
    tasks: dict[str, Placed] = field(default_factory=dict)
    delta: dict[str, tuple[TaskSpec, ...]] = field(default_factory=dict)
    fetch_at: float = 0.0
    ready_at: float = 0.0
    known: int = 0
    host_ready_at: float | None = None
    free_at: float = 0.0
    reports_at: float = float("inf")


class Upgrade:
    """One cell. `seconds`: from the last write of the release to the end of the last rollout, None when it never came;
    `most_at_once`: jobs that were disrupted at the same time."""

    def __init__(self, tasks: int, containers: int, tasks_per_job: int, figures: Figures | None = None) -> None:
        self.figures = figures or Figures()
        self.now = 0.0
        self.seconds: float | None = None
        self.complaints: list[str] = []
        self.rounds = 0
        self.most_at_once = 0
        self.jobs = [f"job-{number:05d}" for number in range(tasks // tasks_per_job)]
        self.limit = Budget().room(len(self.jobs)).limit
        self._random = Random("upgrade")
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._memory = MemoryStore(lambda: self.now, tasks)
        self._memory.leases[STATE_SYNCER] = LeaseEntry("syncer", 1, float("inf"))
        self._memory.news.notify_all = lambda: None  # type: ignore[method-assign]
        self._syncer = StateSyncer(MemorySyncStore(self._memory), self._time, NobodyToAsk())
        self._round_at: float | None = None
        self._releases = Releases(self._memory)
        self._boxes = {f"c{number}": Box(f"c{number}") for number in range(containers)}
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        self._seen: dict[str, RunningEntry] = {}
        self._open: set[str] = set()
        self._tasks_per_job = tasks_per_job

    def run(self) -> None:
        """The cell as it is before the release, and then the release."""
        self._settle_down()
        self._write("2")
        begin = self.now
        self._open = set(self.jobs)
        self._wake_in(GATHER_SECONDS)
        while self._open and self._events and self.now < begin + LONGEST_SECONDS:
            self.now, _, call = heappop(self._events)
            call()
        if self._open:
            self.complaints.append(f"{len(self._open)} jobs did not converge")
        else:
            self.seconds = self.now - begin
        self._look_at_the_end()

    # ---- before

    def _settle_down(self) -> None:
        """Every container owns as many shards as any other; every job runs its first package, and has for a while."""
        memory, names = self._memory, list(self._boxes)
        for number, name in enumerate(names):
            memory.members[name] = Member(name, "life", f"http://{name}", "local", 32.0, 2**37, 2**40)
            memory.give(range(number, len(memory.owners), len(names)), name)
        self._write("1")
        if self._syncer.round(1):
            self._wake_in(AWAIT_SECONDS)
        for job in self.jobs:
            is_idle = self._random.random() < self.figures.idle
            for spec in self._note(job):
                owner = memory.owners[shard_of(spec.task_id, len(memory.owners))].container
                report = _report(spec, TaskState.RUNNING, None if is_idle else 1)
                self._boxes[str(owner)].tasks[spec.task_id] = Placed(spec, report, is_idle)
                self._holders[job].add(str(owner))
        for box in self._boxes.values():
            self._tell(box)

    def _write(self, version: str) -> None:
        """The Job Service has stored what the layers merge to."""
        package = {"name": "flights", "version": version}
        layer = make_layer(task_count=self._tasks_per_job, package=package, inputs={"events": {"key_groups": 64}})
        merged = check_merged(layer).model_dump(mode="json")
        for job in self.jobs:
            revision = self._memory.write_layer(job, "base", layer)
            self._memory.merged[job] = (revision, merged)

    # ---- the State Syncer

    def _time(self) -> datetime:
        return BEGIN + timedelta(seconds=self.now)

    def _wake_in(self, seconds: float) -> None:
        """A round ends so much later as it takes; what it writes is there then."""
        cost = self.figures.round_at_least + self.figures.round_of_job * len(self.jobs)
        at = self.now + seconds + cost
        if self._round_at is None or at < self._round_at:
            self._round_at = at
            self._at(at, lambda: self._round(at))

    def _round(self, at: float) -> None:
        if self._round_at != at:
            return
        self._round_at = None
        self.rounds += 1
        if self._syncer.round(1):
            self._wake_in(AWAIT_SECONDS)
        self.most_at_once = max(self.most_at_once, len(self._memory.plans))
        changed = [job for job in self._open if self._memory.running[job] is not self._seen[job]]
        fresh = {job: self._note(job) for job in sorted(changed)}
        if fresh:
            self._spread(fresh)
        states, plans = self._memory.sync_states, self._memory.plans
        self._open = {job for job in self._open if job in plans or not self._is_settled(job, states[job])}
        if self._open and self._round_at is None:
            self._wake_in(PERIOD_SECONDS)

    def _is_settled(self, job: str, state: SyncRecord) -> bool:
        return state.state == "synced" and state.revision == self._memory.jobs[job].revision

    def _note(self, job: str) -> tuple[TaskSpec, ...]:
        """The specs of a job that was committed; checks the commit."""
        before, entry = self._seen.get(job), self._memory.running[job]
        self._seen[job] = entry
        if before is not None:
            self.complaints += self._releases.committed(job, before, entry)
        return expand(template_of(stored_template(entry)))

    # ---- containers

    def _spread(self, fresh: dict[str, tuple[TaskSpec, ...]]) -> None:
        """One delta for all containers; one that is still at work on another gets it afterwards, with what follows."""
        for box in self._boxes.values():
            if box.fetch_at <= self.now:
                box.fetch_at = max(
                    box.ready_at + self.figures.pause, self.now + self._random.uniform(*self.figures.notice)
                )
                box.ready_at = box.fetch_at + self.figures.take_in
                self._at(box.ready_at, partial(self._take_in, box))
        for job, specs in fresh.items():
            for name in self._holders[job]:
                self._boxes[name].delta[job] = specs

    def _take_in(self, box: Box) -> None:
        delta, box.delta = box.delta, {}
        for specs in delta.values():
            for target in specs:
                placed = box.tasks.get(target.task_id)
                if placed is not None:
                    self._change(box, placed, target)

    def _change(self, box: Box, placed: Placed, target: TaskSpec) -> None:
        if step_between(placed.spec, target) is Step.RESTART:
            placed.report = _report(placed.spec, TaskState.STOPPING, None)
            self._after(self._random.uniform(*self.figures.stop), partial(self._start, box, placed, target))
            self._news(box)
        elif placed.spec is not target:
            placed.spec = target
            placed.report = placed.report.model_copy(update={"revision": target.revision})
            self._news(box)

    def _start(self, box: Box, placed: Placed, target: TaskSpec) -> None:
        placed.spec, placed.report = target, _report(target, TaskState.STARTING, None)
        if box.host_ready_at is None:
            box.host_ready_at = self.now + self.figures.host - self.figures.start
        box.free_at = max(self.now, box.host_ready_at, box.free_at) + self.figures.start
        self._at(box.free_at, partial(self._runs, box, placed))
        self._news(box)

    def _runs(self, box: Box, placed: Placed) -> None:
        self._releases.began(placed.spec)
        placed.report = _report(placed.spec, TaskState.RUNNING, None)
        self._news(box)
        if not placed.is_idle:
            self._after(self._random.uniform(0.0, self.figures.look), partial(self._works, box, placed))

    def _works(self, box: Box, placed: Placed) -> None:
        """Measurements are no news: they go with the next report."""
        placed.report = _report(placed.spec, TaskState.RUNNING, 1)
        self._tell_at(box, self.now + self._random.uniform(0.0, self.figures.report))

    def _news(self, box: Box) -> None:
        self._tell_at(box, self.now + self.figures.gap)

    def _tell_at(self, box: Box, at: float) -> None:
        if at < box.reports_at:
            box.reports_at = at
            self._at(at, lambda: self._tell_now(box, at))

    def _tell_now(self, box: Box, at: float) -> None:
        if box.reports_at == at:
            box.reports_at = float("inf")
            self._tell(box)

    def _tell(self, box: Box) -> None:
        self._memory.reports[box.name] = ReportEntry("life", self._memory.counters["running_commit"])
        self._memory.tasks[box.name] = tuple(placed.report for placed in box.tasks.values())

    # ---- time, and the end

    def _at(self, when: float, call: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._numbers), call))

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._at(self.now + seconds, call)

    def _look_at_the_end(self) -> None:
        left = sum(
            placed.spec.config.package.version != "2" or placed.report.state != TaskState.RUNNING
            for box in self._boxes.values()
            for placed in box.tasks.values()
        )
        if left:
            self.complaints.append(f"{left} tasks do not run the new package")
        if self.most_at_once > self.limit:
            self.complaints.append(f"{self.most_at_once} jobs were disrupted at once, {self.limit} may be")


def _report(spec: TaskSpec, state: TaskState, rows: int | None) -> TaskReport:
    return TaskReport(
        job=spec.job,
        index=spec.index,
        state=state,
        revision=spec.revision,
        generation=spec.generation,
        restarts=spec.restarts,
        epoch=1,
        progress=None if rows is None else TaskProgress(batch_id=1, input_rows=rows),
    )
