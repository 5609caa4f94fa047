"""A round: one job's bug, one part's error or one statement that takes too long does not stop the rest."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.control.errors import Fenced, StatementTimedOut, Unavailable
from penstock.model.jobs import JobState
from penstock.store.running import STATE_SYNCER
from penstock.tasks.redistribution import CopyReport
from services.state_syncer.decide.budget import Room, Waits
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import Plan, Progress, Step
from services.state_syncer.decide.view import JobView, Running
from services.state_syncer.decide.waves import Rollout, RolloutPolicy
from services.state_syncer.host_tasks.next_attempt import LiveContainer
from services.state_syncer.host_tasks.outcomes import UNANSWERED, Done
from services.state_syncer.host_tasks.output_tasks import OutputTasks
from services.state_syncer.host_tasks.plan_tasks import PlanTasks
from services.state_syncer.round.fold import Round
from services.state_syncer.round.loop import StateSyncer, run_parts
from services.state_syncer.store.recorded import with_recorded
from services.state_syncer.store.simple import SimpleCommits
from tests.support.memory.store import LeaseEntry, MemoryStore
from tests.support.memory.sync import MemorySyncStore
from tests.support.state_syncer.containers import NobodyToAsk
from tests.support.store.jobs import make_config, make_layer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = Running(make_config(), 1, 1, 0, stopping=False, started=True, commit_number=1)


class Part:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.rounds = 0

    def round(self, leader_epoch: int) -> bool:
        self.rounds += 1
        if self.error is not None:
            raise self.error
        return True


def test_a_part_that_fails_does_not_keep_the_others_from_their_round() -> None:
    parts = [Part(), Part(Unavailable("first")), Part(ValueError("second")), Part()]
    woken: list[None] = []
    with pytest.raises(Unavailable, match="first"):
        run_parts(parts, 1, lambda: woken.append(None))
    assert [part.rounds for part in parts] == [1, 1, 1, 1]
    assert len(woken) == 2, "those that ask for it have their next round soon"


def test_a_part_that_is_fenced_ends_the_round() -> None:
    parts = [Part(Unavailable("first")), Part(Fenced("a newer leader")), Part()]
    with pytest.raises(Fenced):
        run_parts(parts, 1, lambda: None)
    assert parts[2].rounds == 0


def view(job: str, expected: Any, **fields: Any) -> JobView:
    return JobView(job, 2, 0, False, expected=expected, **fields)


def make_round(plans: type[PlanTasks] = PlanTasks) -> Round:
    """In a cell without containers or plans, with room for one job."""
    outputs = OutputTasks({}, lambda key: UNANSWERED, 1)
    this = Round(NOW, RolloutPolicy(), plans({}, {}, lambda key: UNANSWERED, {}), outputs)
    this.open(Room(1, 1, 1, 1))
    return this


@pytest.mark.parametrize("where", ["look", "decision", "admission"])
def test_a_bug_that_one_job_meets_fails_this_job_alone(where: str) -> None:
    class Blind(PlanTasks):
        def observe(self, view: JobView) -> JobView:
            if where == "look" and view.job == "broken":
                raise KeyError("a bug")
            return view

    this = make_round(Blind)
    broken: Any = "no configuration" if where == "decision" else make_config()
    if where == "admission":
        broken |= {"task_count": 3, "priority": "high"}
    this.add(view("broken", broken, running=RUNNING))
    this.add(view("good", make_config(priority=3), running=RUNNING))
    assert [row.job for row in this.batch.commits] == ["good"]
    states = {write.job: write.new for write in this.batch.states}
    assert (states["broken"].state, states["good"].state) == (JobState.FAILED, JobState.SYNCED)
    assert states["broken"].detail.startswith("this is a bug in Penstock: ")


def test_what_is_copied_waits_in_its_step_until_there_is_room() -> None:
    """Two jobs have a copy, and there is room for one: the older write goes first."""
    config = make_config(task_count=4)
    fields = {"revision": 2, "restarts": 0, "config": config, "fields": ("task_count",)}
    plan = Plan(step=Step.COPY, generation=2, container="a", begun_at=NOW, step_at=NOW, **fields)
    seen = view("young", config, running=RUNNING, progress=Progress(plan, 2))
    old = replace(seen, job="old", revision=1, progress=Progress(plan.model_copy(update={"revision": 1}), 2))
    outputs = OutputTasks({}, lambda key: UNANSWERED, 1)
    plans = PlanTasks({}, {"a": LiveContainer("url", frozenset())}, lambda key: Done(CopyReport()), {})
    this = Round(NOW, RolloutPolicy(), plans, outputs)
    this.open(Room(1, 1, 1, 1))
    for each in (seen, old):
        this.add(each)
    this.begin(this.pick(lambda jobs: {}))
    assert [(row.job, row.quiescing) for row in this.batch.commits] == [("old", True)]
    steps = {write.job: write.plan.step for write in this.batch.plans if isinstance(write.plan, Plan)}
    assert steps == {"old": Step.QUIESCE}
    states = {write.job: write.new.detail for write in this.batch.states}
    assert states["young"] == "copy_state: waiting: no more than 1 job may be disrupted at once"
    assert [attempt.key.job for attempt in this.attempts()] == ["young"], "its copy is not forgotten"


def test_a_rollout_that_cannot_be_read_leaves_the_job_as_it_is() -> None:
    """A restart would have all tasks run the new package, so it waits too."""
    seen = with_recorded(
        JobView("j", 2, 5, False, expected=make_config(), running=RUNNING), {"revision": 1, "upgraded": "?"}, None, {}
    )
    this = make_round()
    this.add(seen)
    assert this.batch.commits == []
    assert "its recorded rollout cannot be read" in this.batch.states[0].new.detail


class SlowInBulk(MemorySyncStore):
    """Its simple commits take too long over all jobs, or over any; it has more jobs than can be named."""

    always = False

    def read(self) -> Any:
        return self._many()

    @contextmanager
    def _many(self) -> Any:
        with super().read() as found:
            yield replace(found, fresh=found.others, others=())

    def commit_simple(
        self, leader_epoch: int, waits: Waits, *, names: Sequence[str] | None, sample: int
    ) -> SimpleCommits:
        self.asked.append(names)
        if names is None or self.always:
            raise StatementTimedOut("too slow")
        return SimpleCommits()


@pytest.mark.parametrize("always", [False, True])
def test_simple_commits_that_take_too_long_are_made_of_some_jobs_and_the_round_goes_on(
    monkeypatch: pytest.MonkeyPatch, *, always: bool
) -> None:
    """1. Five jobs are made. 2. The statement over all ends at its time limit. 3. Two are tried by name, and only these
    are decided about, in the same round."""
    monkeypatch.setattr("services.state_syncer.round.loop.MOST_NAMED", 2)
    memory = MemoryStore(lambda: 0.0, 4)
    memory.leases[STATE_SYNCER] = LeaseEntry("first", 1, float("inf"))
    memory.synced_ranks = dict(memory.ranks)
    for number in range(5):
        memory.write_layer(f"j{number}", "base", make_layer())
    store = SlowInBulk(memory)
    store.asked, store.always = [], always
    StateSyncer(store, lambda: NOW, NobodyToAsk()).round(1)
    assert store.asked == [None, ["j0", "j1"]]
    assert set(memory.running) == {"j0", "j1"}


class Stuck(MemorySyncStore):
    """Simple commits of its fresh jobs always take too long. It also has five jobs that every round must look at."""

    @contextmanager
    def read(self) -> Any:
        def named(names: Sequence[str]) -> Any:
            self.looked_at += [name for name in names if name.startswith("other")]
            return iter(())

        with super().read() as found:
            others = [f"other{number}" for number in (3, 0, 4, 1, 2)]
            yield replace(found, fresh=("new0", "new1", "new2"), others=others, named=named)

    def commit_simple(
        self, leader_epoch: int, waits: Waits, *, names: Sequence[str] | None, sample: int
    ) -> SimpleCommits:
        raise StatementTimedOut("too slow")


def test_each_job_has_its_turn_while_the_store_is_too_slow_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five jobs, and two in each round: after three rounds all had their turn."""
    monkeypatch.setattr("services.state_syncer.round.loop.MOST_NAMED", 2)
    memory = MemoryStore(lambda: 0.0, 4)
    memory.leases[STATE_SYNCER] = LeaseEntry("first", 1, float("inf"))
    memory.synced_ranks = dict(memory.ranks)
    store = Stuck(memory)
    store.looked_at = []
    syncer = StateSyncer(store, lambda: NOW, NobodyToAsk())
    for _ in range(3):
        syncer.round(1)
    assert store.looked_at == ["other0", "other1", "other2", "other3", "other4", "other0"]


class Counted(MemorySyncStore):
    """Notes whether a round asks for the jobs that drifted; `fails` then."""

    fails = True

    @contextmanager
    def read(self) -> Any:
        self.asked.append(False)
        with super().read() as found:
            yield replace(found, drifted=self._drifted)

    def _drifted(self) -> list[str]:
        self.asked[-1] = True
        if self.fails:
            raise Unavailable("away")
        return []


def test_running_rows_are_compared_by_a_leaders_first_round_and_then_every_five_minutes() -> None:
    """Also when the clock was set back. One that fails is not made again at once: it may have taken too long."""
    memory = MemoryStore(lambda: 0.0, 4)
    memory.leases[STATE_SYNCER] = LeaseEntry("first", 1, float("inf"))
    memory.synced_ranks = dict(memory.ranks)
    store = Counted(memory)
    store.asked = []
    now = NOW
    syncer = StateSyncer(store, lambda: now, NobodyToAsk())
    with pytest.raises(Unavailable):
        syncer.round(1)
    store.fails = False
    for minutes in (0, 0, 4, 5, 9, 10, 2):
        now = NOW + timedelta(minutes=minutes)
        syncer.round(1)
    memory.leases[STATE_SYNCER].epoch = 2
    syncer.round(2)
    syncer.round(2)
    assert store.asked == [True, False, False, False, True, False, True, True, True, False]


class Shown(MemorySyncStore):
    """Notes when the jobs are counted by state."""

    counts = 0

    def count_states(self) -> dict[str, int]:
        self.counts += 1
        return super().count_states()


def test_rounds_that_follow_each_other_closely_count_the_jobs_every_five_seconds() -> None:
    """Also when the clock was set back."""
    memory = MemoryStore(lambda: 0.0, 4)
    memory.leases[STATE_SYNCER] = LeaseEntry("first", 1, float("inf"))
    memory.synced_ranks = dict(memory.ranks)
    store, now, seen = Shown(memory), NOW, []
    syncer = StateSyncer(store, lambda: now, NobodyToAsk())
    for seconds in (0, 0.2, 4.9, 5, 9, 10.1, 1):
        now = NOW + timedelta(seconds=seconds)
        syncer.round(1)
        seen.append(store.counts)
    assert seen == [1, 1, 1, 2, 2, 3, 4]


class Watched(MemorySyncStore):
    """Notes whether Python searches for garbage while a round reads; then it is away."""

    searches = True

    @contextmanager
    def read(self) -> Any:
        self.searches = gc.isenabled()
        raise Unavailable("away")
        yield


def test_python_searches_for_no_garbage_in_a_round_and_does_so_again_after_it() -> None:
    store = Watched(MemoryStore(lambda: 0.0, 4))
    with pytest.raises(Unavailable):
        StateSyncer(store, lambda: NOW, NobodyToAsk()).round(1)
    assert (store.searches, gc.isenabled()) == (False, True)


ROLLOUT = Rollout(steps=(), revision=1, restarts=0, fields=(), leaves=(), ends=(1,), begun_at=NOW, step_at=NOW)
RESCALE = Plan(revision=1, restarts=0, config={}, fields=(), begun_at=NOW, step_at=NOW)


def test_only_plans_of_rescales_have_generations_to_note() -> None:
    rollouts = [PlanWrite("j", ROLLOUT), PlanWrite("j", None, ends_rollout=True)]
    rescales = [PlanWrite("j", RESCALE), PlanWrite("j", None)]
    assert not any(write.has_generations for write in rollouts)
    assert all(write.has_generations for write in rescales)
