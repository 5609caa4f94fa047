"""One simulated cell from a seed: it is started, troubled, left in peace, and must come to what was expected."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tests.simulation.checkers import Checkers
from tests.simulation.clock import VirtualClock
from tests.simulation.faults import Faults, Mix
from tests.simulation.files import Files
from tests.simulation.ground import Ground, Habits, Watcher
from tests.simulation.network import Network
from tests.simulation.processes import Machine, Process
from tests.simulation.programs import (
    Program,
    Surroundings,
    Times,
    job_service,
    shard_manager,
    state_syncer,
    task_manager,
    task_service,
)
from tests.simulation.scheduler import Scheduler, Thread
from tests.simulation.seams import on_virtual_time
from tests.simulation.store import Database
from tests.simulation.story import Story
from tests.simulation.terrain import Terrain
from tests.simulation.workload import Workload

WARM_UP_SECONDS = 25.0
CONVERGENCE_SECONDS = 420.0
LOOK_EVERY_SECONDS = 5.0
LARGE_CELL = 200
"""From so many containers on the State Syncer does more at a time, and more is gathered before its rounds and between
deltas: in truth a round over so many jobs, and what a container does with a delta, take time themselves."""
CLOCK_DRIFT = 0.03
YOUNG_OBJECTS = 50_000


@dataclass(frozen=True)
class Size:
    """How large a cell is, and how long it is troubled, in virtual seconds. `changes`: what users do; if empty
    all, and they ask for other numbers of shards, too. `released`: the share of the jobs that get a new package in the
    end: all, where another may be broken."""

    containers: int = 4
    jobs: int = 3
    shards: int = 8
    faults_seconds: float = 120.0
    tasks_per_job: int | None = None
    mix: Mix = field(default_factory=Mix)
    changes: tuple[str, ...] = ()
    released: float = 1.0


@dataclass(frozen=True)
class Result:
    """What became of a seed. `converged_seconds`: after the faults' end, None if never."""

    seed: int
    complaints: tuple[str, ...]
    story: str
    converged_seconds: float | None
    virtual_seconds: float
    events: int
    trace: int
    commits: int
    fenced_commits: int
    double_run_seconds: float

    @property
    def is_good(self) -> bool:
        """Whether everything held."""
        return not self.complaints


class Noticed(Exception):
    """Nobody wants to know what comes after it: something did not hold, or the time is over."""


class World:
    """All of one simulation. `is_brief`: it ends as soon as something does not hold; `ends_at`: a brief one ends at
    this virtual time if all held until then."""

    def __init__(self, seed: int, size: Size, *, is_brief: bool = False, ends_at: float = math.inf) -> None:
        self.seed, self.size = seed, size
        self._is_brief, self._ends_at = is_brief, ends_at
        self.story = Story()
        self.scheduler = Scheduler(f"penstock {seed}", self._on_crash)
        self.story.now = lambda: self.scheduler.now
        self.story.who = self._who
        self.network = Network(self.scheduler, self.story)
        self.database = Database(self.scheduler, self.network, size.shards)
        files = Files(lambda: self.scheduler.now, lambda what: self.checkers.complain(what))
        self.terrain = Terrain(seed, lambda: self.scheduler.now)
        self.ground = Ground(self.scheduler, self.story, files, Habits(), Watcher(), self.terrain)
        times = Times()
        if size.containers >= LARGE_CELL:
            self.terrain.become_large()
            times = replace(
                times,
                gather=0.5,
                gather_shards=0.5,
                workers=128,
                at_once=10_000,
                task_managers=times.task_managers.model_copy(update={"delta_gap_seconds": 0.5}),
            )
        self.around = Surroundings(self.network, self.database, self.ground, times)
        self.workload = Workload(
            self.scheduler, self.database, self.story, size.jobs, size.changes, self.terrain.asks, size.released
        )
        self.machines: dict[str, Machine] = {}
        self.checkers = self.ground.watcher = Checkers(self.around, self.machines)
        self._programs: dict[str, Program] = {}
        self._place()
        self.faults = Faults(self, size.mix)

    def run(self) -> Result:
        """The whole story."""
        converged_seconds = None
        with (
            on_virtual_time(self.scheduler, self.network, self.story),
            self.checkers.placements.watched(),
        ):
            with suppress(Noticed):
                converged_seconds = self._live()
            self._end()
        return self._result(converged_seconds)

    def _live(self) -> float | None:
        """From the start of the cell to its convergence, which took so many seconds."""
        for name in self.machines:
            self.boot(name)
        self.workload.begin(self.size.tasks_per_job)
        self._pass(WARM_UP_SECONDS)
        if self.size.faults_seconds > 0:
            self.faults.begin()
            self._change()
            self._pass(self.size.faults_seconds)
            self.faults.end()
            self.workload.open_all()
        self.terrain.is_calm = True
        self.workload.ask_again()
        return self._converge()

    def boot(self, name: str) -> None:
        """A machine's program begins another life; it begins anew whenever it ends."""
        machine = self.machines[name]
        if not machine.is_up:
            return
        process = Process(self.scheduler, machine, name)
        process.on_death.append(lambda: self._ended(name))
        process.begin("main", partial(self._programs[name], self.around, process))

    # ---- parts

    def _place(self) -> None:
        programs: dict[str, Program] = {"syncer": state_syncer, "shards": shard_manager, "tasks": task_service}
        for kind, program in programs.items():
            for number in (1, 2):
                self._add(f"{kind}{number}", program)
        self._add("jobs1", job_service)
        for number in range(self.size.containers):
            self._add(f"c{number}", task_manager)
        self.around.shard_managers = "http://shards1,http://shards2"
        self.around.job_service = "http://jobs1"
        self.around.task_services = "http://tasks1,http://tasks2"

    def _add(self, name: str, program: Program) -> None:
        random = self.scheduler.random
        clock = VirtualClock(
            lambda: self.scheduler.now,
            rate=1.0 + random.uniform(-CLOCK_DRIFT, CLOCK_DRIFT),
            boot=random.uniform(0.0, 1e6),
            wall_offset=random.uniform(-30.0, 30.0),
        )
        self.machines[name] = Machine(name, clock)
        self._programs[name] = program

    def _ended(self, name: str) -> None:
        self.story.tell(name, "ended")
        seconds = self.scheduler.random.choice((0.5, 2.0, 10.0, 70.0))
        if not self._is_ending:
            self.scheduler.after(seconds, lambda: self._boot_again(name))

    def _boot_again(self, name: str) -> None:
        if all(process.name != name for process in self.machines[name].living()):
            self.boot(name)

    # ---- time

    def _pass(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now + seconds, self._look if self._is_brief else self.checkers.look)

    def _look(self) -> None:
        self.checkers.look()
        if self.checkers.complaints or self.story.bugs or self.scheduler.now > self._ends_at:
            raise Noticed

    def _change(self) -> None:
        end = self.scheduler.now + self.size.faults_seconds

        def change() -> None:
            if self.scheduler.now < end:
                self.workload.change_something()
                self.scheduler.after(self.scheduler.random.expovariate(1 / 12.0), change)

        def operate() -> None:
            if self.scheduler.now < end:
                self.workload.operate()
                self.scheduler.after(self.scheduler.random.expovariate(1 / 32.0), operate)

        self.scheduler.after(5.0, change)
        self.scheduler.after(self.scheduler.random.uniform(5.0, 32.0), operate)
        for _ in range(0 if self.size.changes else 2):
            at = self.scheduler.random.random() * self.size.faults_seconds
            self.scheduler.after(at, self.workload.change_the_number_of_shards)

    def _converge(self) -> float | None:
        """Lets time pass until all is as expected; jobs whose deletion was late are made again on the way."""
        begin = self.scheduler.now
        while self.scheduler.now < begin + CONVERGENCE_SECONDS:
            self._pass(LOOK_EVERY_SECONDS)
            if self.workload.missing():
                self.workload.ask_again()
            if next(self.checkers.not_converged(), None) is None:
                return self.scheduler.now - begin
        for what in self.checkers.not_converged():
            self.checkers.complain(f"not converged after {CONVERGENCE_SECONDS:.0f} s: {what}")
        return None

    def _end(self) -> None:
        """Ends every thread, so that nothing is left of this world."""
        self._is_ending = True
        for machine in self.machines.values():
            for process in machine.living():
                process.kill()

    _is_ending = False

    # ---- what is told

    def _who(self) -> str:
        thread = self.scheduler.current
        return "-" if thread is None else thread.process.name

    def _on_crash(self, thread: Thread, error: Exception) -> None:
        self.story.bug(thread.process.name, f"thread {thread.name} broke", error)

    def _result(self, converged_seconds: float | None) -> Result:
        files = self.ground.files
        return Result(
            seed=self.seed,
            complaints=(*self.checkers.complaints, *self.story.bugs),
            story=self.story.text(),
            converged_seconds=converged_seconds,
            virtual_seconds=self.scheduler.now,
            events=self.scheduler.events,
            trace=self.scheduler.trace,
            commits=files.commits,
            fenced_commits=files.fenced_commits,
            double_run_seconds=self.checkers.double_run_seconds,
        )


def simulate(seed: int, size: Size | None = None, *, is_brief: bool = False, ends_at: float = math.inf) -> Result:
    """Runs a seed; a brief one only until something does not hold, or until a virtual time."""
    with _seldom_searching_for_cycles():
        return World(seed, size or Size(), is_brief=is_brief, ends_at=ends_at).run()


@contextmanager
def _seldom_searching_for_cycles() -> Iterator[None]:
    """A seed makes few cycles and very many objects: the collector's usual thresholds cost some of its time."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
