"""The step of a rescale in which tasks that are behind read on to the watermark of the others, before the stop."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.model.reports import TaskState
from services.state_syncer.decide.decisions import End, Poll, Record
from services.state_syncer.decide.effects import effects
from services.state_syncer.decide.observe import Silent, Unheard
from services.state_syncer.decide.progress import STEPS, Plan, Step
from services.state_syncer.decide.quiet import Behind, Quiet, Unread
from services.state_syncer.decide.whereabouts import ALL_RUN, Changing, Missing, Whereabouts
from tests.support.store.jobs import make_config
from tests.unit.state_syncer.test_rescale import (
    LATER,
    LEVELLING,
    NEW,
    NOW,
    OLD,
    QUIESCING,
    QUIET,
    UNEVEN,
    after,
    plan,
    view,
)

READING = Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(1, 70))


def test_uneven_tasks_read_on_while_nothing_is_stopped() -> None:
    decision = after(view(Step.QUIESCE, quiet=UNEVEN), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is not None
    assert (decision.commit.quiescing, decision.commit.level_ms, decision.commit.stopping) == (True, 5_000, False)
    assert (decision.commit.config, decision.commit.generation) == (OLD, QUIESCING.generation)
    assert (decision.plan.step, decision.plan.step_at, decision.plan.seconds) == (Step.LEVEL, LATER, {"quiesce": 10.0})


def test_the_copy_of_the_state_is_kept_while_tasks_read_on() -> None:
    copied = plan(Step.QUIESCE, container="a", generation=7)
    decision = after(view(Step.QUIESCE, quiet=UNEVEN, plan=copied), LATER)
    assert isinstance(decision, Record)
    assert (decision.plan.container, decision.plan.generation) == ("a", 7)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"has_state": False}, id="tasks without state drop no rows"),
        pytest.param({"running": replace(QUIESCING, config=OLD | {"completeness": "drop_late"})}, id="drop_late"),
        pytest.param({"quiet": QUIET}, id="level"),
    ],
)
def test_where_nobody_has_to_read_on_the_stop_follows(case: dict[str, Any]) -> None:
    decision = after(view(Step.QUIESCE, **{"quiet": UNEVEN} | case), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is not None
    assert (decision.plan.step, decision.commit.stopping, decision.commit.level_ms) == (Step.AWAIT_STOPPED, True, None)


@pytest.mark.parametrize(("before", "step"), [("drop_late", Step.AWAIT_STOPPED), ("wait", Step.LEVEL)])
def test_completeness_is_that_which_the_tasks_run_with(before: str, step: Step) -> None:
    """A write that changes it together with the size counts from the next rescale on."""
    wanted = NEW | {"completeness": "wait" if before == "drop_late" else "drop_late"}
    running = replace(QUIESCING, config=OLD | {"completeness": before})
    job = view(Step.QUIESCE, quiet=UNEVEN, running=running, expected=wanted, plan=plan(Step.QUIESCE, config=wanted))
    decision = after(job, LATER)
    assert isinstance(decision, Record)
    assert decision.plan.step is step


@pytest.mark.parametrize("quiet", [READING, Quiet(level_ms=5_000)])
def test_the_stop_waits_until_all_are_level(quiet: Quiet) -> None:
    assert after(view(Step.LEVEL, quiet=quiet), LATER) == Poll(plan(Step.LEVEL), str(quiet))
    decision = after(view(Step.LEVEL, quiet=QUIET), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is not None
    assert (decision.plan.step, decision.commit.stopping, decision.commit.level_ms) == (Step.AWAIT_STOPPED, True, None)


@pytest.mark.parametrize(("within", "late"), [(None, 600), (45.0, 45)])
def test_both_orders_share_the_time_that_users_give(within: float | None, late: int) -> None:
    """What is not level in time is taken back: nothing was stopped, and the reason says how far it was."""
    wanted = make_config(task_count=4, rescale_within_seconds=within)
    recorded = plan(Step.LEVEL, config=wanted, seconds={"copy_state": 1_000.0, "quiesce": 30.0})
    job = view(Step.LEVEL, quiet=READING, expected=wanted, plan=recorded)
    assert isinstance(after(job, NOW + timedelta(seconds=late - 31)), Poll)
    decision = after(job, NOW + timedelta(seconds=late - 30))
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
    assert decision.commit.level_ms is None
    assert decision.failure is not None
    assert decision.failure.detail == (
        "step level: it takes too long: 1 task reads on to the greatest watermark of all, 1970-01-01T00:00:05.000Z;"
        " task 1 has 70 records in its inputs, of which it reads those before that; the job was never stopped"
    )


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize("step", [Step.QUIESCE, Step.LEVEL])
@pytest.mark.parametrize(
    "where",
    [
        pytest.param(Whereabouts(missing=(Missing(1, "b"),)), id="its container was lost"),
        pytest.param(Whereabouts(silent=(Silent("a", 13.0),)), id="its container may be lost"),
        pytest.param(Whereabouts(crashed=(1,)), id="its host crashed"),
        pytest.param(Whereabouts(changing=(Changing(1, "b", TaskState.STARTING),)), id="it starts"),
    ],
)
def test_the_others_wait_15_s_for_a_task_that_was_lost_while_they_quiesced(
    where: Whereabouts, step: Step, has_state: bool
) -> None:
    """1. It is noted since when the task is lost, by the last report of a silent container. 2. The task is waited for:
    after the stop, what it has to do would be done by a job that is down. 3. It is back: the job stops. 4. It is not:
    the tasks take rows again, the copy is dropped, and the plan begins anew."""
    lost_at = LATER - timedelta(seconds=13.0 if where.silent else 0.0)
    quiet = Quiet(0, unheard=False, level_ms=5_000 if step is Step.LEVEL else 0, where=where)
    told = {"seconds": {"copy_state": 5.0}, "container": "a", "generation": 7}
    noted = after(view(step, quiet=quiet, has_state=has_state, plan=plan(step, **told)), LATER)
    assert noted == Record(plan(step, lost_at=lost_at, **told), why=str(where))
    job = view(step, quiet=quiet, has_state=has_state, plan=noted.plan)
    assert after(job, lost_at + timedelta(seconds=14.9)) == Poll(noted.plan, str(where))

    back = after(replace(job, quiet=quiet._replace(where=ALL_RUN)), LATER)
    assert (back.plan.step, back.plan.lost_at, back.commit.stopping) == (Step.AWAIT_STOPPED, None, True)

    again = after(job, lost_at + timedelta(seconds=15))
    seconds = {"taken_back": 5.0 + 10.0 + (2.0 if where.silent else 15.0)}
    begun = plan(Step.COPY, container=None, generation=None, step_at=lost_at + timedelta(seconds=15), seconds=seconds)
    assert again.plan == begun.model_copy(update={"taken_back": (str(where),)})
    assert (again.commit.config, again.commit.stopping, again.commit.quiescing) == (OLD, False, False)
    assert (again.commit.level_ms, again.disrupts) == (None, False)


def lost_again(**fields: Any) -> Plan:
    return plan(Step.QUIESCE, lost_at=NOW, taken_back=("task 0 was lost", "task 1 was lost"), **fields)


LOST = Quiet(0, unheard=False, where=Whereabouts(missing=(Missing(1, "b"),)))


def test_a_rescale_that_was_taken_back_waits_for_all_tasks_and_says_so() -> None:
    """1. It begins with another copy once all tasks run. 2. Neither then, nor when it quiesces, is it forgotten."""
    why = "no container reports task 1, which b is to run"
    was = f"The rescale was taken back once since tasks were lost ({why})"
    recorded = after(view(Step.QUIESCE, quiet=LOST, plan=plan(Step.QUIESCE, lost_at=NOW)), NOW + timedelta(seconds=15))
    waiting = view(Step.COPY, plan=recorded.plan, where=LOST.where)
    for job, decision in ((view(Step.QUIESCE), recorded), (waiting, after(waiting, NOW + timedelta(seconds=20)))):
        record = effects(job, decision, NOW).record
        assert record is not None
        assert record.detail == f"copy_state: {why}. {was}; it begins anew once all tasks run"
    (told,) = effects(view(Step.QUIESCE), recorded, NOW).events
    assert (told.event, told.details["step"], told.details["why"]) == ("job rescales anew", "copy_state", why)
    copying = after(replace(waiting, where=ALL_RUN), NOW + timedelta(seconds=20))
    assert (copying.plan.step, copying.plan.generation) == (Step.COPY, 8)
    assert copying.plan.describe() == f"copy_state: b copies the state into generation 8; all tasks run. {was}"
    assert was in copying.plan.at(Step.QUIESCE, LATER, "b", 8).describe()


def test_a_task_that_is_lost_again_and_again_fails_the_rescale() -> None:
    decision = after(view(Step.QUIESCE, quiet=LOST, plan=lost_again()), NOW + timedelta(seconds=15))
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
    assert decision.failure is not None
    assert decision.failure.detail == (
        "step quiesce: tasks are lost again and again: no container reports task 1, which b is to run; if no container"
        " can run them, `penstock jobs stop j --wait`, change the job, `penstock jobs start j`; the job was never"
        " stopped"
    )


@pytest.mark.parametrize(
    "quiet", [Quiet(1, unheard=False), Quiet(), LOST._replace(where=Whereabouts(unheard=(Unheard("a", 13.0),)))]
)
def test_what_is_unknown_does_not_count_as_time_in_which_a_task_was_lost(quiet: Quiet) -> None:
    """A task that is back has yet to answer, or reports do not arrive. Should it be lost again, it gets the whole
    time."""
    decision = after(view(Step.QUIESCE, quiet=quiet, plan=plan(Step.QUIESCE, lost_at=NOW)), NOW + timedelta(seconds=40))
    assert decision == Record(plan(Step.QUIESCE), why=str(quiet))


def test_all_attempts_share_the_hour_of_copies_and_each_awaits_tasks_anew() -> None:
    recorded = plan(Step.COPY, step_at=LATER, seconds={"taken_back": 3_000.0})
    assert isinstance(after(view(Step.COPY, plan=recorded), LATER + timedelta(seconds=599)), Poll)
    held = after(view(Step.COPY, plan=recorded), LATER + timedelta(seconds=600))
    assert (held.plan.step, held.plan.generation) == (Step.QUIESCE, None)
    waiting = view(
        Step.COPY, plan=recorded.model_copy(update={"container": None, "generation": None}), where=LOST.where
    )
    assert isinstance(after(waiting, LATER + timedelta(seconds=599)), Poll)


def test_a_plan_that_was_taken_back_remembers_it_through_other_writes() -> None:
    """So that tasks which are lost again and again do not hold the others without end."""
    size = make_config(task_count=8)
    quiescing = after(view(Step.QUIESCE, revision=7, expected=size, plan=lost_again()), LATER)
    assert (quiescing.plan.config, quiescing.plan.lost_at) == (size, NOW)
    copying = after(
        view(
            Step.COPY,
            revision=7,
            expected=size,
            plan=lost_again().again("", NOW).model_copy(update={"seconds": {"taken_back": 60.0}}),
        ),
        LATER,
    )
    assert copying.plan.config == size
    for decision in (quiescing, copying):
        assert decision.plan.taken_back[:2] == ("task 0 was lost", "task 1 was lost")
    assert copying.plan.seconds == {"taken_back": 60.0}


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize("step", [Step.QUIESCE, Step.LEVEL])
def test_the_job_is_not_stopped_without_a_task_of_which_nothing_is_heard(step: Step, has_state: bool) -> None:
    """Nothing says that it is lost, so it is awaited for as long as the step may take. Then the rescale fails, and says
    why."""
    where = Whereabouts(unheard=(Unheard("a", 13.0),))
    quiet = Quiet(0, unheard=False, level_ms=5_000 if step is Step.LEVEL else 0, where=where)
    job = view(step, quiet=quiet, has_state=has_state)
    assert after(job, NOW + timedelta(seconds=599)) == Poll(plan(step), str(where))
    given_up = after(job, NOW + timedelta(seconds=600))
    assert isinstance(given_up, End)
    assert (given_up.commit.config, given_up.commit.stopping, given_up.commit.quiescing) == (OLD, False, False)
    assert given_up.failure is not None
    assert given_up.failure.detail == f"step {step}: it takes too long: {where}; the job was never stopped"
    back = after(replace(job, quiet=quiet._replace(where=ALL_RUN)), NOW + timedelta(seconds=599))
    assert isinstance(back, Record)
    assert back.plan.step is Step.AWAIT_STOPPED


def test_tasks_that_cannot_come_so_far_in_time_are_released_at_once_with_the_estimate() -> None:
    """As if rows came evenly until now: of 10,000 rows of 100 s, those of 80 s lie before the goal."""
    now_ms = round(LATER.timestamp() * 1000)
    behind = Behind(1, now_ms - 100_000, 10_000, 10.0)
    quiet = Quiet(0, unheard=False, goal_ms=now_ms - 20_000, behind=(behind,))
    decision = after(view(Step.QUIESCE, quiet=quiet), LATER)
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
    assert decision.failure is not None
    assert decision.failure.detail == (
        "step quiesce: tasks are too far behind the watermark of others: tasks that are behind need about 800 s to"
        " read on, and 590 s are left; rescale_within_seconds allows more; the job was never stopped"
    )
    faster = quiet._replace(behind=(behind._replace(rows_per_second=20.0),))
    assert isinstance(after(view(Step.QUIESCE, quiet=faster), LATER), Record)


def test_a_step_whose_time_is_over_ends_though_a_task_was_lost_meanwhile() -> None:
    """It would get another 600 s otherwise, in which tasks take no rows."""
    recorded = plan(Step.QUIESCE, lost_at=NOW + timedelta(seconds=580))
    decision = after(view(Step.QUIESCE, quiet=LOST, plan=recorded), NOW + timedelta(seconds=600))
    assert isinstance(decision, End)
    assert decision.failure is not None
    assert "it takes too long: no container reports task 1" in decision.failure.detail


def test_a_plan_says_nothing_of_losses_before_the_first() -> None:
    """So a State Syncer of the release before writes it as it was."""
    assert not {"lost_at", "taken_back"} & plan(Step.QUIESCE).model_dump(mode="json").keys()
    recorded = lost_again()
    assert Plan.model_validate(recorded.model_dump(mode="json")) == recorded


def test_a_state_syncer_of_the_release_before_can_read_the_plan() -> None:
    """It is recorded as `quiesce`; the level of the running row tells that tasks read on."""
    recorded = plan(Step.LEVEL).model_dump(mode="json")
    assert recorded["step"] == "quiesce"
    found = Plan.model_validate(recorded)
    assert [found.under(level_ms).step for level_ms in (None, 0, 5_000)] == [Step.QUIESCE, Step.QUIESCE, Step.LEVEL]
    assert found.under(5_000) == plan(Step.LEVEL)
    assert plan(Step.SEAL).under(5_000).step is Step.SEAL


def test_the_number_of_a_step_is_that_in_the_plan_s_own_list() -> None:
    before = tuple(step for step in STEPS if step != "level")
    numbers = [plan(step, steps=before).step_number for step in (Step.QUIESCE, Step.LEVEL, Step.SEAL)]
    assert numbers == [1, 1, 5]
    assert [plan(step).step_number for step in (Step.QUIESCE, Step.LEVEL, Step.SEAL)] == [1, 2, 6]


def test_a_task_that_came_back_further_is_the_new_goal_without_more_time() -> None:
    decision = after(view(Step.LEVEL, quiet=Quiet(0, unheard=False, goal_ms=6_000, level_ms=5_000)), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is not None
    assert (decision.plan, decision.commit.level_ms) == (plan(Step.LEVEL), 6_000)


def test_an_order_is_not_given_twice() -> None:
    """Should tasks say that they are done without having come to it: they are levelled after the stop."""
    decision = after(view(Step.LEVEL, quiet=Quiet(0, unheard=False, goal_ms=5_000, level_ms=5_000)), LATER)
    assert isinstance(decision, Record)
    assert decision.plan.step is Step.AWAIT_STOPPED


@pytest.mark.parametrize("expected", [OLD, make_config(priority=3)])
def test_tasks_go_on_when_no_rescale_is_wanted_any_more(expected: Any) -> None:
    decision = after(view(Step.LEVEL, revision=7, expected=expected, quiet=QUIET), LATER)
    assert isinstance(decision, End)
    assert (decision.failure, decision.commit.config, decision.commit.quiescing) == (None, OLD, False)


def test_another_size_asked_for_meanwhile_keeps_the_order_and_its_time() -> None:
    recorded = plan(Step.LEVEL, seconds={"quiesce": 30.0})
    decision = after(view(Step.LEVEL, revision=7, expected=make_config(task_count=8), plan=recorded), LATER)
    assert isinstance(decision, Record)
    found = decision.plan
    assert (found.step, found.config["task_count"], found.step_at, found.seconds) == (
        Step.LEVEL,
        8,
        NOW,
        {"quiesce": 30.0},
    )
    assert decision.commit is None


def test_a_job_that_reads_on_without_a_plan_is_released() -> None:
    job = replace(view(Step.LEVEL), progress=None, expected=OLD, revision=5)
    decision = after(job, NOW)
    assert (decision.quiescing, decision.level_ms) == (False, None)
    assert job.running == LEVELLING
