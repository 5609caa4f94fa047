"""Rescales of the State Syncer on a real Postgres: stories of crashes, leaders, lost containers and failures.

Containers are the test's own; what they do is in `test_rescale` of the end-to-end tests.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from sqlalchemy import Engine

from penstock.control.errors import Fenced
from penstock.store.engine import transaction
from penstock.tasks.redistribution import RedistributionRequest, SealRequest
from services.job_service.store import jobs
from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.progress import Step
from services.state_syncer.generations import store as generations
from services.state_syncer.generations.rules import Retention, may_go
from services.state_syncer.host_tasks.outcomes import Lost
from services.state_syncer.store.port import SyncStore
from tests.support.state_syncer.cell import Cell, Interfering, Killed, depose, die, elect
from tests.support.state_syncer.containers import everything_works, fails_at, silent, waits_at
from tests.support.store.jobs import delete_job, make_config, make_layer, release_job, write_layer


@pytest.fixture
def cell(engine: Engine) -> Cell:
    return Cell(engine, ("a", "b"))


def test_a_rescale_goes_through_its_steps_and_commits_the_whole_write(cell: Cell) -> None:
    """1. The stop is committed with the plan. 2. Until all containers have said that no task runs, nothing follows.
    3. A container redistributes, and seals. 4. The write is committed whole, under the new generation."""
    cell.rescaling()
    revision = write_layer(cell.engine, "j", {"priority": 2}, layer="oncall")
    cell.round()
    assert (cell.running()["stopping"], cell.running()["config"], cell.step()) == (True, make_config(), "await_stopped")
    assert (cell.sync()["state"], cell.sync()["step"], cell.sync()["changed_fields"]) == (
        "rescaling",
        4,
        ["task_count"],
    )
    assert cell.looks_soon
    cell.applied("b")
    cell.round()
    assert cell.step() == "await_stopped", "a has not reported since the stop"
    cell.applied()
    cell.round()
    assert (cell.step(), cell.running()["newest_generation"], cell.running()["generation"]) == ("redistribute", 2, 1)
    (ask,) = cell.containers.asked
    assert isinstance(ask.request, RedistributionRequest)
    assert (ask.request.source.generation, ask.request.target.generation, ask.url) == (1, 2, "http://x")
    cell.now += timedelta(seconds=3)
    cell.round()
    assert cell.step() == "seal"
    cell.round()
    running = cell.running()
    assert (running["stopping"], running["generation"], running["revision"]) == (False, 2, revision)
    assert running["config"] == make_config(task_count=4, priority=2)
    steps = {"copy_state": 0, "quiesce": 0, "await_stopped": 0, "redistribute": 3, "seal": 0}
    assert running["rescale_seconds"] == {**steps, "total": 3}
    assert (cell.sync()["state"], cell.sync()["plan"], cell.sync()["step"]) == ("synced", None, None)
    before = cell.rows("SELECT xmin::text, * FROM running")
    cell.rounds(2)
    assert cell.rows("SELECT xmin::text, * FROM running") == before, "it is over"


def test_tasks_finish_their_batches_before_the_stop_and_a_leader_carries_on(cell: Cell) -> None:
    """1. Tasks are to take no more rows. 2. Another leader: nothing is stopped, and the tasks need not restart. 3. Not
    every container has said that its tasks are quiet: `/sync` says so. 4. All have: the stop is committed."""
    cell.is_quiet_at_once = False
    cell.rescaling()
    cell.rounds(1)
    before = cell.running()
    assert (before["stopping"], before["generation"], cell.step()) == (False, 1, "quiesce")
    assert before["quiescing_commit"] == before["commit_number"]
    cell.restart()
    cell.rounds(1)
    assert cell.running() == before
    assert cell.sync()["detail"] == "quiesce: 2 tasks have not finished their batches"
    cell.quiet("a")
    cell.report("b", before["commit_number"] - 1)
    cell.round()
    assert cell.sync()["detail"] == "quiesce: not every container has reported since the order"
    cell.quiet()
    cell.round()
    assert (cell.running()["stopping"], cell.running()["quiescing_commit"], cell.step()) == (
        True,
        None,
        "await_stopped",
    )
    cell.rounds(4)
    assert (cell.running()["generation"], cell.sync()["state"]) == (2, "synced")


def test_what_is_not_quiet_in_time_is_taken_back_and_never_stopped(cell: Cell) -> None:
    cell.is_quiet_at_once = False
    cell.rescaling()
    write_layer(cell.engine, "j", {"rescale_within_seconds": 60}, layer="oncall")
    cell.rounds(1)
    cell.now += timedelta(seconds=61)
    cell.round()
    assert (cell.running()["stopping"], cell.running()["quiescing_commit"], cell.sync()["plan"]) == (False, None, None)
    assert cell.sync()["state"] == "failed"
    assert cell.sync()["detail"].endswith("2 tasks have not finished their batches; the job was never stopped")


def test_uneven_ranges_are_a_rescale_and_bounds_that_do_not_count_are_nothing(cell: Cell) -> None:
    """1. Bounds for as many tasks as run: a plan from even ranges to these. 2. The scaler adds tasks: a plan from these
    to even ones. 3. The bounds are dropped, and nothing moves. 4. What is sealed is always what ran."""
    write_layer(cell.engine, "j", make_layer())
    cell.rounds(1)
    write_layer(cell.engine, "j", {"key_group_bounds": [1]}, layer="oncall")
    cell.rounds(5)
    assert (cell.running()["generation"], cell.running()["config"]["key_group_bounds"]) == (2, [1])
    write_layer(cell.engine, "j", {"task_count": 4}, layer="scaler")
    cell.rounds(5)
    assert (cell.running()["generation"], cell.running()["config"]["key_group_bounds"]) == (3, None)
    revision = write_layer(cell.engine, "j", None, layer="oncall")
    cell.rounds(2)
    assert (cell.running()["generation"], cell.running()["revision"]) == (3, revision)
    assert (cell.sync()["state"], cell.sync()["change_kind"]) == ("synced", "none")
    even, uneven, four = ((0, 4), (4, 8)), ((0, 1), (1, 8)), ((0, 2), (2, 4), (4, 6), (6, 8))
    requests = [ask.request for ask in cell.containers.asked]
    moved = [(ask.source.ranges, ask.target.ranges) for ask in requests if isinstance(ask, RedistributionRequest)]
    assert moved == [(even, uneven), (uneven, four)]
    assert [ask.layout.ranges for ask in requests if isinstance(ask, SealRequest)] == [even, uneven]


def test_the_state_that_users_see(cell: Cell) -> None:
    cell.rescaling()
    cell.round()
    with transaction(cell.engine) as connection:
        status = jobs.status(connection, "j")
    assert status is not None
    assert (status.state, status.converged) == ("rescaling", False)


@pytest.mark.parametrize("desired_state", ["stopped", "running"])
def test_a_stopped_job_that_was_started_is_rescaled_too(cell: Cell, desired_state: str) -> None:
    write_layer(cell.engine, "j", make_layer())
    cell.rounds(1)
    write_layer(cell.engine, "j", make_layer(desired_state="stopped"))
    cell.rounds(1)
    write_layer(cell.engine, "j", make_layer(desired_state=desired_state, task_count=4))
    cell.rounds(5)
    assert (cell.running()["generation"], cell.running()["config"]["desired_state"]) == (2, desired_state)
    assert cell.sync()["state"] == "synced"


ROUNDS_OF_A_RESCALE = 4


@pytest.mark.parametrize(
    ("round_", "after_write"),
    [
        pytest.param(round_, after_write, marks=[] if after_write and round_ % 2 else [pytest.mark.long])
        for round_, after_write in product(range(ROUNDS_OF_A_RESCALE), (False, True))
    ],
)
def test_a_syncer_that_dies_in_any_round_is_carried_on_by_the_next(
    cell: Cell, round_: int, *, after_write: bool
) -> None:
    """1. A rescale is some rounds old. 2. The syncer dies before or after its write. 3. Another leads: it converges,
    with one generation more, and no number is used for two attempts."""
    cell.rescaling()
    cell.rounds(round_)
    cell.restart(Interfering(cell.engine, die, after_write=after_write))
    with pytest.raises(Killed):
        cell.rounds(3)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.applied()
    cell.rounds(6)
    assert (cell.running()["config"], cell.running()["generation"]) == (make_config(task_count=4), 2)
    assert (cell.running()["stopping"], cell.sync()["state"], cell.sync()["plan"]) == (False, "synced", None)
    assert cell.containers.generations() == [2]


@pytest.mark.parametrize(
    "round_", [0, pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_a_paused_leader_is_fenced_at_every_step(cell: Cell, round_: int) -> None:
    """1. A leader decides on a plan and is paused. 2. Another leads and goes on. 3. The first writes: refused whole."""
    cell.rescaling()
    cell.rounds(round_)
    successor = cell.make_syncer(SyncStore(cell.engine))

    elected = [cell.epoch]

    def take_over() -> None:
        depose(cell.engine)
        elected.append(elect(cell.engine, "second"))
        successor.round(elected[-1])

    cell.restart(Interfering(cell.engine, take_over))
    with pytest.raises(Fenced):
        cell.rounds(3)
    assert cell.running()["leader_epoch"] in elected
    cell.epoch = elected[-1]
    cell.restart()
    cell.applied()
    cell.rounds(6)
    assert (cell.running()["generation"], cell.sync()["state"]) == (2, "synced")


def test_a_change_before_the_seal_aborts_and_the_old_generation_resumes(cell: Cell) -> None:
    cell.rescaling()
    cell.rounds(2)
    assert cell.step() == "redistribute"
    write_layer(cell.engine, "j", make_layer(priority=3))
    cell.rounds(1)
    running = cell.running()
    assert (running["config"], running["generation"], running["stopping"]) == (make_config(priority=3), 1, False)
    assert (cell.sync()["state"], cell.sync()["plan"]) == ("synced", None)
    write_layer(cell.engine, "j", make_layer(priority=3, task_count=8))
    cell.rounds(6)
    assert cell.running()["generation"] == 3, "the number of the attempt that was given up is not used again"
    assert cell.containers.generations() == [2, 3]


def test_a_change_after_the_seal_waits_for_the_commit(cell: Cell) -> None:
    """1. The plan is at its seal. 2. Another size is asked for. 3. The recorded one is committed, then the next."""
    revision = cell.rescaling()
    cell.rounds(3)
    assert cell.step() == "seal"
    write_layer(cell.engine, "j", make_layer(task_count=8))
    cell.rounds(1)
    running = cell.running()
    assert (running["config"], running["generation"], running["revision"]) == (make_config(task_count=4), 2, revision)
    cell.rounds(5)
    assert (cell.running()["config"], cell.running()["generation"]) == (make_config(task_count=8), 3)


def test_a_container_that_is_lost_is_replaced_under_a_new_number(cell: Cell) -> None:
    """1. a copies; asked to redistribute, it falls silent. 2. b is asked, under another number. It ends so."""
    dead = silent("a")
    cell.containers.works = lambda key: everything_works(key) if key.kind == Step.COPY else dead(key)
    cell.rescaling()
    cell.rounds(6)
    asked = [(ask.key.container, ask.key.kind, ask.key.number) for ask in cell.containers.asked]
    assert asked == [("a", Step.REDISTRIBUTE, 2), ("b", Step.REDISTRIBUTE, 3), ("b", Step.SEAL, 3)]
    assert (cell.running()["generation"], cell.sync()["state"]) == (3, "synced")


def test_a_container_that_fell_silent_at_the_copy_is_not_asked_to_redistribute(cell: Cell) -> None:
    cell.containers.works = silent("a")
    cell.rescaling()
    cell.rounds(5)
    assert [ask.key.container for ask in cell.containers.copies] == ["a"]
    asked = [(ask.key.container, ask.key.kind, ask.key.number) for ask in cell.containers.asked]
    assert asked == [("b", Step.REDISTRIBUTE, 3), ("b", Step.SEAL, 3)]


def test_a_container_that_the_store_calls_lost_is_replaced(cell: Cell) -> None:
    cell.containers.works = waits_at(Step.REDISTRIBUTE)
    cell.rescaling()
    cell.rounds(4)
    cell.containers.works = everything_works
    assert cell.containers.generations() == [2], "it works: nobody else is asked"
    cell.container("a", "lost")
    cell.rounds(4)
    assert (cell.running()["generation"], cell.containers.generations()) == (3, [2, 3])


def test_containers_that_are_all_lost_end_the_attempt(cell: Cell) -> None:
    cell.containers.works = lambda _: Lost("no answer")
    cell.rescaling()
    cell.rounds(8)
    assert (cell.running()["stopping"], cell.running()["generation"], cell.sync()["state"]) == (False, 1, "failed")
    assert cell.containers.generations() == [3, 4, 5]


def test_five_failures_in_a_row_are_quarantined_until_a_release(cell: Cell) -> None:
    """1. Every attempt fails and resumes the old generation, each later than the last. 2. The fifth is quarantined,
    with an alert that has step, error and what runs. 3. Released, with the cause gone, it succeeds and the alert is
    closed."""
    cell.containers.works = fails_at(Step.REDISTRIBUTE)
    revision = cell.rescaling()
    waits = []
    for _ in range(5):
        cell.rounds(4)
        assert (cell.running()["stopping"], cell.running()["generation"]) == (False, 1)
        state = cell.sync()
        if state["next_attempt_at"] is not None:
            waits.append((state["next_attempt_at"] - cell.now).total_seconds())
            cell.now = state["next_attempt_at"]
    assert waits == [30, 60, 120, 240]
    assert (state["state"], state["failures"]) == ("quarantined", 5)
    alert = cell.rows("SELECT * FROM alerts")[0]
    assert "step redistribute on b" in alert["message"] or "step redistribute on a" in alert["message"]
    assert "disk full" in alert["message"]
    assert (alert["details"]["last_good_generation"], alert["details"]["last_good_revision"]) == (1, revision - 1)
    cell.now += timedelta(days=1)
    cell.rounds(3)
    assert cell.containers.generations() == [2, 3, 4, 5, 6]
    cell.containers.works = everything_works
    release_job(cell.engine, "j")
    cell.rounds(6)
    assert (cell.running()["generation"], cell.sync()["state"]) == (7, "synced")
    assert cell.rows("SELECT * FROM alerts WHERE cleared_at IS NULL") == []


def test_a_seal_that_fails_is_tried_again_and_never_taken_back(cell: Cell) -> None:
    cell.containers.works = fails_at(Step.SEAL)
    cell.rescaling()
    cell.rounds(5)
    assert (cell.sync()["state"], cell.step(), cell.running()["stopping"]) == ("failed", "seal", True)
    cell.restart()
    cell.containers.works = everything_works
    cell.now += timedelta(seconds=31)
    cell.rounds(2)
    assert (cell.running()["generation"], cell.sync()["state"], cell.sync()["failures"]) == (2, "synced", 0)


def test_no_more_jobs_are_rescaled_at_once_than_the_budget_allows(cell: Cell) -> None:
    """1. The state of three jobs is copied, and there is room to disrupt two: the one of the highest priority and the
    oldest write go first. 2. The third says what it waits for. 3. It goes on when there is room."""
    names = ("j1", "j2", "j3")
    for name in names:
        write_layer(cell.engine, name, make_layer())
    cell.rounds(1)
    for name in names:
        write_layer(cell.engine, name, make_layer(task_count=4, priority=5 if name == "j3" else 0))
    cell.budget = Budget(share=0.7)
    cell.restart()
    cell.rounds(1)
    assert [cell.step(name) for name in names] == ["await_stopped", "copy_state", "await_stopped"]
    assert (cell.sync("j2")["state"], cell.running("j2")["stopping"]) == ("rescaling", False)
    assert cell.sync("j2")["detail"] == "copy_state: waiting: no more than 2 jobs may be disrupted at once"
    cell.rounds(10)
    assert {cell.running(name)["generation"] for name in names} == {2}
    assert {cell.sync(name)["state"] for name in names} == {"synced"}


@pytest.mark.parametrize(
    "round_", [1, *(pytest.param(later, marks=pytest.mark.long) for later in range(2, ROUNDS_OF_A_RESCALE))]
)
def test_a_deletion_goes_first_and_the_numbers_that_were_taken_stay_taken(cell: Cell, round_: int) -> None:
    cell.rescaling()
    cell.rounds(round_)
    delete_job(cell.engine, "j")
    cell.rounds(2)
    assert cell.running() is None
    taken = cell.rows("SELECT generation FROM forgotten")[0]["generation"]
    assert taken == 2
    write_layer(cell.engine, "j", make_layer())
    cell.rounds(1)
    assert (cell.running()["generation"], cell.sync()["plan"]) == (taken + 1, None)


@pytest.mark.parametrize(
    "plan",
    ["""plan || '{"step": "from_the_future"}'""", """plan || '{"container": [1], "generation": "x"}'""", "'[]'", "'1'"],
)
def test_a_plan_that_cannot_be_read_leaves_the_job_as_it_is(cell: Cell, plan: str) -> None:
    """Such as one of a newer version: neither resumed nor gone on with. Another job is brought to what it should be,
    and no generation goes."""
    cell.rescaling()
    cell.rounds(3)
    before = cell.running()
    cell.do(f"UPDATE sync_state SET plan = {plan}")
    write_layer(cell.engine, "other", make_layer())
    cell.rounds(2)
    assert cell.running() == before
    assert (cell.sync()["state"], cell.sync()["detail"].startswith("its recorded plan cannot be read")) == (
        "failed",
        True,
    )
    assert cell.sync("other")["state"] == "synced"
    with transaction(cell.engine) as connection:
        generations.note(connection)
        unused = generations.read_unused(connection, kept=0, seconds=0.0)
    assert [each for each in unused if may_go(each, Retention(0, 0.0))] == []


def test_a_running_configuration_that_cannot_be_read_fails_its_job_alone(cell: Cell) -> None:
    """Such as one of a newer version, of a job that is rescaled."""
    cell.rescaling()
    cell.rounds(2)
    cell.do("""UPDATE running SET config = config || '{"task_count": "many"}'""")
    write_layer(cell.engine, "other", make_layer())
    cell.rounds(3)
    assert (cell.sync()["state"], cell.sync("other")["state"]) == ("failed", "synced")
