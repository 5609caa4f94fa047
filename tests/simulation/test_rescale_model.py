"""A model test of rescales and restores: any order of writes, savepoints, crashes, leaders, lost and silent
containers, stale reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import orjson
import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.control.errors import Fenced
from services.state_syncer.decide.progress import Step
from services.state_syncer.host_tasks.outcomes import Failed
from tests.support.memory.savepoints import ask_for_restore, ask_for_savepoint, ask_to_delete, newest
from tests.support.memory.store import RunningEntry
from tests.support.state_syncer.cell import Killed
from tests.support.state_syncer.rescale_world import DONE, NAMES, World, soon

JOBS = ("j", "k")
jobs, names = st.sampled_from(JOBS), st.sampled_from(NAMES)
CONFIGS = st.fixed_dictionaries(
    {"task_count": st.sampled_from([1, 2, 4])},
    optional={"priority": st.integers(0, 2), "desired_state": st.just("stopped"), "threads_per_task": st.just(2)},
)
LAGS = ("", "settle", "report", "apply", "apply settle", "apply settle report")
ROUNDS_TO_CONVERGE = 40


@pytest.fixture(scope="module", autouse=True)
def only_errors_are_logged() -> Iterator[None]:
    """Nobody reads the lines of thousands of rounds; to render them takes longer than the rounds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.reset_defaults()


class Rescales(RuleBasedStateMachine):
    """Invariants hold after every step; `teardown` lets all faults end and waits for the expected."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.newest: dict[str, int] = {}
        self.started: dict[str, bool] = {}
        self.restored: list[int] = []

    # ---- what users do

    @rule(job=jobs, config=CONFIGS)
    def write(self, job: str, config: dict[str, object]) -> None:
        entry = self.world.memory.jobs.get(job)
        if entry is None or not entry.deleting:
            self.world.expect(job, config)

    @rule(job=jobs)
    def break_the_configuration(self, job: str) -> None:
        if job in self.world.memory.jobs and not self.world.memory.jobs[job].deleting:
            self.world.memory.write_layer(job, "base", {"no_such_field": 1})

    @rule(job=jobs)
    def delete(self, job: str) -> None:
        if job in self.world.memory.jobs:
            self.world.memory.jobs[job].deleting = True
            self.world.memory.jobs[job].revision = self.world.memory.next_number("revision")

    @rule(job=jobs)
    def restart(self, job: str) -> None:
        if job in self.world.memory.jobs:
            self.world.memory.jobs[job].restarts += 1
            self.world.memory.jobs[job].revision = self.world.memory.next_number("revision")

    @rule(job=jobs, count=st.sampled_from([1, 2, 4]), lag=st.sampled_from([*LAGS, LAGS[-1]]))
    def ask_for_another_size(self, job: str, count: int, lag: str) -> None:
        """What mostly happens here: it goes well, up to the stop and what containers say of it."""
        if job not in self.world.memory.plans:
            self.all_containers(lag=LAGS[-2])
            self.write(job=job, config={"task_count": count})
            self.copy_state()
            for _ in range(3):
                self.round(rounds=1)
                self.all_containers(lag=lag)
            self.round(rounds=1)

    def copy_state(self) -> None:
        """The plans that just began get their copies, where containers answer."""
        self.round(rounds=2)
        for name in NAMES:
            self.world.finish(name, DONE)

    @rule(job=jobs, count=st.sampled_from([2, 4]), lag=st.sampled_from(LAGS), config=CONFIGS, is_copied=st.booleans())
    def ask_for_another_size_and_change_it(
        self, job: str, count: int, lag: str, config: dict[str, object], is_copied: bool
    ) -> None:
        """While tasks finish their batches, or state is copied, something else is asked for, which may need no
        rescale."""
        if job not in self.world.memory.plans:
            self.all_containers(lag=LAGS[-1])
            self.write(job=job, config={"task_count": count})
            if is_copied:
                self.copy_state()
            self.round(rounds=1)
            self.all_containers(lag=lag)
            self.write(job=job, config=config)
            self.round(rounds=1)

    @rule(job=jobs)
    def ask_for_a_savepoint(self, job: str) -> None:
        entry = self.world.memory.jobs.get(job)
        if entry is not None and not entry.deleting:
            ask_for_savepoint(self.world.memory, job)

    @rule(job=jobs, of=jobs, config=CONFIGS)
    def restore(self, job: str, of: str, config: dict[str, object]) -> None:
        """From the newest savepoint of a job, which may be another one, at any size; the job may be new."""
        savepoint, entry = newest(self.world.memory, of), self.world.memory.jobs.get(job)
        if savepoint is not None and (entry is None or not entry.deleting):
            self.world.expect(job, config)
            ask_for_restore(self.world.memory, job, savepoint)

    @rule(job=jobs)
    def delete_a_savepoint(self, job: str) -> None:
        savepoint = newest(self.world.memory, job)
        if savepoint is not None:
            ask_to_delete(self.world.memory, savepoint)

    @rule(job=jobs, config=CONFIGS, lag=st.sampled_from([*LAGS, LAGS[-1]]))
    def go_back(self, job: str, config: dict[str, object], lag: str) -> None:
        """What mostly happens here: a savepoint is taken, and the restore goes well up to the stop."""
        self.ask_for_a_savepoint(job=job)
        self.round(rounds=2)
        for name in NAMES:
            self.world.finish(name, DONE)
        self.round(rounds=2)
        self.restore(job=job, of=job, config=config)
        for _ in range(2):
            self.round(rounds=1)
            self.all_containers(lag=lag)

    # ---- syncers

    @rule(rounds=st.integers(1, 3))
    def round(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.now = soon(self.world.now)
            self.world.leader.round()
            self.no_number_is_used_twice()

    @rule()
    def an_old_leader_goes_on(self) -> None:
        for old in self.world.syncers[:-1]:
            try:
                old.round()
            except Fenced:
                continue

    @rule(when=st.sampled_from(["before", "after"]), writes=st.sampled_from(["store", "savepoints"]))
    def crash(self, when: str, writes: str) -> None:
        store = getattr(self.world.leader, writes)
        store.dies = when
        try:
            self.world.leader.round()
        except Killed:
            self.world.syncers.pop()
        else:
            store.dies = None
        self.world.elect()

    @rule()
    def another_leads(self) -> None:
        self.world.elect()

    # ---- containers

    @rule(name=names, deeds=st.sampled_from(LAGS))
    def a_container_lags(self, name: str, deeds: str) -> None:
        for deed in deeds.split():
            getattr(self.world, deed)(name)

    @rule(lag=st.sampled_from(LAGS))
    def all_containers(self, lag: str) -> None:
        for name in NAMES:
            self.a_container_lags(name=name, deeds=lag)

    @rule(job=jobs, deed=st.sampled_from(["finish", "fail", "cannot", "silence", "lose"]))
    def the_one_who_works(self, job: str, deed: str) -> None:
        plan = self.world.memory.plans.get(job)
        name = None if plan is None else plan["container"]
        if name is None:
            return
        match deed:
            case "finish":
                self.world.finish(name, DONE)
            case "fail" | "cannot":
                self.world.finish(name, Failed("disk full", is_final=deed == "cannot"))
            case "silence":
                self.world.containers[name].answers = False
            case "lose":
                self.world.lose(name)
        self.round(rounds=1)

    @rule(name=names)
    def lose(self, name: str) -> None:
        self.world.lose(name)

    @rule(name=names)
    def come_back(self, name: str) -> None:
        self.world.come_back(name)

    @rule(name=names, answers=st.booleans())
    def silence(self, name: str, answers: bool) -> None:
        self.world.containers[name].answers = answers

    @rule(job=jobs, lags=st.booleans())
    def a_task_lags(self, job: str, lags: bool) -> None:
        (self.world.lagging.add if lags else self.world.lagging.discard)(job)

    @rule(job=jobs, name=names)
    def move(self, job: str, name: str) -> None:
        self.world.move(job, name)

    @rule(seconds=st.sampled_from([30, 600, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.world.now += timedelta(seconds=seconds)
        self.world.forget_failures()

    # ---- what always holds

    @invariant()
    def what_runs_was_expected(self) -> None:
        for job, entry in self.world.memory.running.items():
            config = orjson.loads(entry.row.config)
            expected = self.world.expected[job]
            # A job that is to begin with a savepoint is stopped until then. A stop and a start wait for no rescale.
            was_to_stop = any(each["desired_state"] == "stopped" for each in expected)
            may_differ = entry.row.stopping or not entry.row.started or was_to_stop
            same = [each for each in expected if each == {**config, "desired_state": each["desired_state"]}]
            assert config in expected or (may_differ and same)

    @invariant()
    def no_two_generations_of_a_job_run(self) -> None:
        running = {task for container in self.world.containers.values() for task in container.tasks}
        assert len({task.job for task in running}) == len(running)
        assert not running & {tuple(sealed) for sealed in self.world.sealed}

    @invariant()
    def work_begins_only_when_no_task_runs(self) -> None:
        assert self.world.complaints == []

    @invariant()
    def no_number_is_used_twice(self) -> None:
        """Looked at after every round: a job may go and come again within one step."""
        assert all(len(containers) == 1 for containers in self.world.attempts.values())
        running = self.world.memory.running
        self.started = {job: started for job, started in self.started.items() if job in running}
        for job, entry in running.items():
            generation, before = entry.row.generation, self.newest.get(job, 0)
            assert generation >= before, "a generation never goes back"
            if generation > before:
                redistributed = (job, generation) in self.world.attempts
                is_restore = (job, generation) in self.world.restoring
                assert redistributed is (self.started.get(job, False) or is_restore)
                assert not redistributed or (job, generation) in self.world.written
                self.restored += [self.world.restoring[job, generation]] if is_restore else []
            self.newest[job] = generation
            self.started[job] = entry.row.started

    @invariant()
    def a_restore_is_done_once(self) -> None:
        assert len(set(self.restored)) == len(self.restored)
        assert not {row.number for row in self.world.memory.restores.values()}.intersection(self.restored)

    @invariant()
    def what_a_restore_waits_for_is_there(self) -> None:
        savepoints = {(row.job, row.name): row.state for row in self.world.memory.savepoints.values()}
        for row in self.world.memory.restores.values():
            name = (row.savepoint.job, row.savepoint.name)
            assert (savepoints.get(name), name in self.world.saved) == ("ready", True)

    # ---- and in the end

    def teardown(self) -> None:
        world = self.world
        world.elect()
        for name in NAMES:
            world.containers[name].answers = True
            world.come_back(name)
        for job in world.memory.jobs:
            world.lagging.add(job)
            world.expect(job, {"task_count": 4, "priority": 1})
        for _ in range(ROUNDS_TO_CONVERGE):
            world.now = max([soon(world.now), *self._attempts_due()])
            world.forget_failures()
            world.leader.round()
            self.all_containers(lag=LAGS[-1])
            for name in NAMES:
                world.finish(name, DONE)
            self.check_all()
        assert world.memory.restores == {}
        assert {row.state for row in world.memory.savepoints.values()} <= {"ready", "failed"}
        for job, job_entry in world.memory.jobs.items():
            assert not job_entry.deleting
            self._assert_synced(job, world.memory.running[job])

    def check_all(self) -> None:
        self.only_a_plan_holds_tasks()
        self.what_runs_was_expected()
        self.no_two_generations_of_a_job_run()
        self.work_begins_only_when_no_task_runs()
        self.no_number_is_used_twice()
        self.a_restore_is_done_once()
        self.what_a_restore_waits_for_is_there()

    @invariant()
    def only_a_plan_holds_tasks(self) -> None:
        """A job takes no more rows exactly as long as its plan says so, and its stop is not yet committed."""
        memory = self.world.memory
        for job, entry in memory.running.items():
            step = memory.plans.get(job, {}).get("step")
            if job in memory.jobs and not memory.jobs[job].deleting:
                assert entry.row.quiescing == (step == Step.QUIESCE), job
                assert (entry.row.level_ms is not None) == (step == Step.QUIESCE), job
            assert not (entry.row.quiescing and entry.row.stopping)

    @invariant()
    def one_job_is_disrupted_at_a_time(self) -> None:
        """The budget of so small a cell. Jobs whose state is only copied do not count, nor those that were stopped."""
        memory = self.world.memory
        kept = {job for job, entry in memory.jobs.items() if not entry.deleting}
        ran = {job for job in kept & memory.plans.keys() if self.world.is_to_run(job)}
        disrupted = [job for job in ran if memory.plans[job]["step"] != Step.COPY]
        assert len(disrupted) <= 1

    def _attempts_due(self) -> list[object]:
        states = self.world.memory.sync_states.values()
        return [state.next_attempt_at for state in states if state.next_attempt_at is not None]

    def _assert_synced(self, job: str, entry: RunningEntry) -> None:
        world = self.world
        assert (world.memory.sync_states[job].state, job in world.memory.plans) == ("synced", False)
        assert orjson.loads(entry.row.config) == world.expected[job][-1]
        assert not entry.row.stopping
        assert not entry.row.quiescing
        tasks = [task for container in world.containers.values() for task in container.tasks if task.job == job]
        assert [task.generation for task in tasks] == [entry.row.generation]
        assert not any(task.is_quiet for task in tasks), "nothing releases them"


TestRescales = Rescales.TestCase
TestRescales.settings = settings(
    max_examples=min(100, 2 * settings.default.max_examples),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
