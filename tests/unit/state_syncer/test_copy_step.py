"""The first step of a rescale: state is copied while the tasks run, and nothing depends on its success."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.model.reports import TaskState
from penstock.tasks.redistribution import CopyReport, RedistributionReport
from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import End, Poll, Record, StartRescale
from services.state_syncer.decide.effects import effects
from services.state_syncer.decide.observe import Presence, Silent, Unheard
from services.state_syncer.decide.progress import Restore, Step
from services.state_syncer.decide.rescale import NOBODY, begin_rescale
from services.state_syncer.decide.whereabouts import ALL_RUN, Changing, Missing, Whereabouts
from services.state_syncer.host_tasks.next_attempt import LiveContainer
from services.state_syncer.host_tasks.outcomes import Done, Failed, Lost, Unanswered
from services.state_syncer.host_tasks.plan_tasks import PlanTasks
from tests.support.store.jobs import make_config
from tests.unit.state_syncer.test_rescale import LATER, NEW, NOW, OLD, SAVEPOINT, STARTED, after, plan, view

RESTORE = Restore(number=1, savepoint=SAVEPOINT, generation=1, config=OLD)
STOPPED = OLD | {"desired_state": "stopped"}


def test_it_begins_with_a_record_of_the_whole_write_and_the_tasks_run_on() -> None:
    job = replace(view(Step.SEAL), progress=None, running=STARTED)
    decision = decide(job, NOW)
    assert isinstance(decision, StartRescale)
    begun = begin_rescale(job, decision, NOW, {"a"})
    assert (begun.plan.step, begun.plan.config, begun.plan.generation, begun.commit) == (Step.COPY, NEW, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"restore": RESTORE}, id="what tasks do last is not kept"),
        pytest.param({"running": replace(STARTED, config=STOPPED)}, id="no task is to run"),
    ],
)
def test_what_gains_nothing_by_a_copy_begins_with_the_stop(fields: dict[str, Any]) -> None:
    job = replace(view(Step.SEAL), progress=None, running=STARTED)
    decision = decide(replace(job, **fields), NOW)
    assert isinstance(decision, StartRescale)
    assert begin_rescale(job, decision, NOW, {"a"}).plan.step is Step.AWAIT_STOPPED


def test_a_container_is_asked_to_copy_the_state_into_a_generation_of_its_own() -> None:
    unasked = plan(Step.COPY, container=None, generation=None)
    decision = after(view(Step.COPY, plan=unasked), LATER)
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.container, decision.plan.generation) == (Step.COPY, "b", 8)
    assert decision.commit is None
    assert after(view(Step.COPY, plan=unasked, candidate=None), LATER) == Poll(unasked, NOBODY)


@pytest.mark.parametrize(
    ("fields", "copied", "why"),
    [
        ({"outcome": Done(CopyReport())}, ("a", 7), ""),
        ({"outcome": Failed("disk full")}, ("a", None), "step copy_state on a: the container failed: disk full"),
        ({"outcome": Lost("host h ended: killed")}, ("a", None), "lost, as others were before: host h ended: killed"),
        ({"container_lives": False}, ("a", None), "was lost, as others were before: the container is lost"),
        ({"has_state": False}, ("a", None), ""),
        ({"has_state": False, "plan": plan(Step.COPY, container=None, generation=None)}, (None, None), ""),
    ],
)
def test_copied_or_not_the_tasks_take_no_more_rows_then(fields: dict[str, Any], copied: Any, why: str) -> None:
    """Only what was copied whole is kept: the number of any other copy is never used again. The plan says why there is
    no copy, and who may still be busy with one."""
    decision = after(view(Step.COPY, **fields), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is not None
    assert (decision.plan.step, decision.plan.container, decision.plan.generation) == (Step.QUIESCE, *copied)
    assert (decision.commit.config, decision.commit.quiescing, decision.commit.stopping) == (OLD, True, False)
    assert why in decision.plan.uncopied
    assert bool(why) == bool(decision.plan.uncopied) == ("moves while the job is stopped" in decision.plan.describe())


@pytest.mark.parametrize("where", [ALL_RUN, Whereabouts(missing=(Missing(1, "b"),))])
@pytest.mark.parametrize("has_state", [True, False])
def test_what_cannot_be_sealed_is_not_stopped(has_state: bool, where: Whereabouts) -> None:
    """It would be refused after the stop, too."""
    unsealable = Done(CopyReport(unsealable="the Kafka eu does not answer"))
    job = view(Step.COPY, unsealable, has_state=has_state, has_transactions=True, where=where)
    decision = after(job, LATER)
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
    assert decision.failure is not None
    assert decision.failure.detail == (
        "step copy_state on a: the old generation cannot be sealed now: the Kafka eu does not answer;"
        " the job was never stopped"
    )


def test_whether_it_can_be_sealed_is_asked_although_there_is_no_state() -> None:
    """1. A container is asked. 2. A generation that it has named is the one that is written. 3. Why it could not be
    asked says nothing of state, of which there is none."""
    unasked = plan(Step.COPY, container=None, generation=None)
    stateless = {"has_state": False, "has_transactions": True}
    asked = after(view(Step.COPY, plan=unasked, **stateless), LATER)
    assert (asked.plan.step, asked.plan.container, asked.plan.generation) == (Step.COPY, "b", 8)
    held = after(view(Step.COPY, Done(CopyReport()), **stateless), LATER)
    assert (held.plan.step, held.plan.container, held.plan.generation) == (Step.QUIESCE, "a", 7)
    unanswered = after(view(Step.COPY, Failed("disk full"), **stateless), LATER)
    assert (unanswered.plan.step, unanswered.plan.generation, unanswered.plan.uncopied) == (Step.QUIESCE, None, "")


def test_the_outputs_that_tasks_write_to_tell_whether_the_seal_needs_kafka() -> None:
    tasks = PlanTasks({}, {}, lambda key: Unanswered(), {})
    for delivery, needed in (("exactly_once", True), ("at_least_once", False)):
        config = OLD | {"output": OLD["output"] | {"delivery": delivery}}
        seen = tasks.observe(view(Step.COPY, running=replace(STARTED, config=config)))
        assert seen.progress is not None
        assert seen.progress.has_transactions is needed


def test_a_copy_that_was_of_no_use_is_told_with_the_end() -> None:
    """1. The redistribution could not use it. 2. The plan says so until its end, and the log with its commit."""
    outcome = Done(RedistributionReport(uncopied="it is of another configuration"))
    sealing = after(view(Step.REDISTRIBUTE, outcome), LATER).plan
    assert "another configuration" in sealing.describe()
    end = view(Step.SEAL, Done(), plan=sealing)
    (told,) = effects(end, after(end, LATER), LATER).events
    assert told.details["uncopied"] == "it is of another configuration"


def test_state_that_cannot_be_moved_ends_the_plan_before_anything_is_stopped() -> None:
    decision = after(view(Step.COPY, Failed("the task keeps the key (5)", is_final=True)), LATER)
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
    assert decision.failure is not None
    assert decision.failure.detail == (
        "step copy_state on a: the state cannot be moved: the task keeps the key (5); the job was never stopped"
    )


LOST = Whereabouts(missing=(Missing(1, "b"),))
STARTING = Whereabouts(changing=(Changing(1, "b", TaskState.STARTING),))
UNHEARD = Whereabouts(unheard=(Unheard("a", 20.0),))
UNASKED = plan(Step.COPY, container=None, generation=None)


@pytest.mark.parametrize("where", [LOST, STARTING, Whereabouts(silent=(Silent("a", 13.0),)), Whereabouts(crashed=(1,))])
@pytest.mark.parametrize(
    "fields", [{"plan": UNASKED}, {"outcome": Failed("disk full")}, {"has_state": False}, {"container_lives": False}]
)
def test_tasks_take_rows_until_all_of_them_run(where: Whereabouts, fields: dict[str, Any]) -> None:
    """A rescale that is asked for when a task was lost waits for it and says so. After ten minutes it is given up."""
    job = view(Step.COPY, where=where, **fields)
    recorded = fields.get("plan", plan(Step.COPY))
    assert after(job, NOW + timedelta(seconds=599)) == Poll(recorded, str(where))
    given_up = after(job, NOW + timedelta(seconds=600))
    assert isinstance(given_up, End)
    assert (given_up.commit.config, given_up.commit.stopping, given_up.commit.quiescing) == (OLD, False, False)
    assert given_up.failure is not None
    detour = (
        "; if no container can run them, `penstock jobs stop j --wait`, change the job, `penstock jobs start j`"
        if where.missing
        else ""
    )
    assert given_up.failure.detail == (
        f"step copy_state: tasks have not run for too long: {where}{detour}; the job was never stopped"
    )


@pytest.mark.parametrize(
    "fields", [{"plan": UNASKED}, {"outcome": Failed("disk full")}, {"outcome": Done(CopyReport())}]
)
def test_reports_that_do_not_arrive_are_awaited_for_as_long_as_the_step_may_take(fields: dict[str, Any]) -> None:
    """They do not show that a task is lost, so a copy is kept. Once they arrive the rescale goes on."""
    job = view(Step.COPY, where=UNHEARD, **fields)
    recorded = fields.get("plan", plan(Step.COPY))
    for seconds in (1, 599, 601, 3599):
        assert after(job, NOW + timedelta(seconds=seconds)) == Poll(recorded, "reports of a have not arrived for 20 s")
    assert isinstance(after(job, NOW + timedelta(hours=1)), End)
    assert isinstance(after(replace(job, where=ALL_RUN), NOW + timedelta(seconds=601)), Record)
    lost = replace(job, where=UNHEARD._replace(missing=LOST.missing))
    assert isinstance(after(lost, NOW + timedelta(seconds=601)), End), "that a task is missing is known"


def test_a_copy_goes_on_while_a_task_is_lost_and_is_made_again_once_it_runs() -> None:
    """Until then the copy would get too old. One that only starts is there in a moment."""
    copying, copied = view(Step.COPY, where=LOST), view(Step.COPY, Done(CopyReport()), where=LOST)
    assert after(copying, LATER) == Poll(plan(Step.COPY), "")
    dropped = after(copied, LATER)
    assert dropped == Record(UNASKED)
    assert after(replace(copied, where=STARTING), LATER) == Poll(plan(Step.COPY), str(STARTING))
    assert after(view(Step.COPY, plan=UNASKED, where=LOST), LATER) == Poll(UNASKED, str(LOST))
    again = after(view(Step.COPY, plan=UNASKED), LATER)
    assert (again.plan.container, again.plan.generation) == ("b", 8)


def test_state_that_cannot_be_moved_ends_the_plan_also_while_a_task_is_lost() -> None:
    job = view(Step.COPY, Failed("the task keeps the key (5)", is_final=True), where=LOST)
    assert isinstance(after(job, LATER), End)


def test_what_a_host_says_of_its_progress_is_told() -> None:
    decision = after(view(Step.COPY, Unanswered("copies state, 5 rows so far")), LATER)
    assert decision == Poll(plan(Step.COPY), "a: copies state, 5 rows so far")


def test_a_copy_that_takes_too_long_does_not_fail_the_rescale() -> None:
    decision = after(view(Step.COPY), NOW + timedelta(hours=2))
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.generation) == (Step.QUIESCE, None)


@pytest.mark.parametrize("step", [Step.COPY, Step.AWAIT_STOPPED])
def test_who_may_still_be_busy_with_a_dropped_copy_is_asked_only_if_there_is_no_other(step: Step) -> None:
    """A host for a large state does one thing at a time, and the job is stopped meanwhile."""
    dropped = plan(step, container="a", generation=None)
    seen = view(step, plan=dropped, presence=Presence.ABSENT)
    for names, asked in (("ab", "b"), ("a", "a")):
        places = {name: LiveContainer(name, frozenset()) for name in names}
        tasks = PlanTasks({}, places, lambda key: Unanswered(), {})
        assert list(tasks.attempts([(seen, dropped)])) == [], "nothing is asked of it for the dropped copy"
        decision = after(tasks.observe(seen), LATER)
        assert (decision.plan.container, decision.plan.generation) == (asked, 8)


@pytest.mark.parametrize(("lives", "asked"), [(True, "a"), (False, "b")])
def test_the_redistribution_goes_on_with_the_copy_where_it_is_warm(lives: bool, asked: str) -> None:
    copied = plan(Step.AWAIT_STOPPED, container="a", generation=7)
    decision = after(
        view(Step.AWAIT_STOPPED, plan=copied, presence=Presence.ABSENT, container_lives=lives, candidate="b"), LATER
    )
    assert isinstance(decision, Record)
    assert (decision.plan.step, decision.plan.container, decision.plan.generation) == (Step.REDISTRIBUTE, asked, 7)


@pytest.mark.parametrize(
    ("expected", "kept"), [(NEW | {"priority": 3}, (7, "a")), (make_config(task_count=8), (None, "a"))]
)
def test_a_new_write_while_state_is_copied_begins_another_copy_only_for_another_size(expected: Any, kept: Any) -> None:
    decision = after(view(Step.COPY, revision=7, expected=expected), LATER)
    assert isinstance(decision, Record)
    assert decision.commit is None
    assert (decision.plan.step, decision.plan.config) == (Step.COPY, expected)
    assert (decision.plan.generation, decision.plan.container) == kept


def test_all_copies_of_a_plan_together_have_one_limit() -> None:
    """A target that changes more often than a copy takes is rescaled in the end, without a copy."""
    decision = after(view(Step.COPY, revision=7, expected=make_config(task_count=8)), NOW + timedelta(minutes=59))
    assert (decision.plan.begun_at, decision.plan.step_at) == (NOW, NOW)
    later = view(Step.COPY, revision=7, expected=decision.plan.config, plan=decision.plan)
    held = after(later, NOW + timedelta(hours=1))
    assert (held.plan.step, held.disrupts) == (Step.QUIESCE, True)
    assert held.plan.seconds == {"copy_state": 3600.0}, "the job ran all that time"


@pytest.mark.parametrize(("expected", "generation"), [(NEW, 7), (make_config(task_count=8), None)])
def test_a_restart_that_a_user_asked_for_does_not_wait_for_the_copy(expected: Any, generation: int | None) -> None:
    decision = after(view(Step.COPY, restarts=1, expected=expected), LATER)
    assert (decision.plan.step, decision.plan.restarts, decision.plan.generation) == (Step.COPY, 1, generation)
    assert (decision.commit.config, decision.commit.restarts) == (OLD, 1)
    assert (decision.commit.stopping, decision.commit.quiescing, decision.disrupts) == (False, False, False)


def test_another_package_or_query_does_not_wait_for_the_copy() -> None:
    fixed = NEW | {"package": {"name": "p", "version": "2", "digest": None}}
    decision = after(view(Step.COPY, revision=7, expected=fixed), LATER)
    assert (decision.plan.step, decision.plan.config, decision.plan.generation) == (Step.QUIESCE, fixed, None)
    assert "another package" in decision.plan.uncopied
    assert decision.disrupts


def test_it_waits_for_tasks_that_are_lost_all_the_same() -> None:
    """1. The copy is given up at once. 2. The others take rows until all run, whoever leads. 3. Then they take none,
    and the plan still says why there is no copy."""
    fixed = NEW | {"package": {"name": "p", "version": "2", "digest": None}}
    dropped = after(view(Step.COPY, revision=7, expected=fixed, where=LOST), LATER)
    assert (dropped.plan.step, dropped.plan.config, dropped.plan.generation) == (Step.COPY, fixed, None)
    assert (dropped.commit, dropped.why) == (None, str(LOST))
    waiting = view(Step.COPY, revision=7, expected=fixed, plan=dropped.plan, where=LOST)
    assert after(waiting, LATER) == Poll(dropped.plan, str(LOST))
    held = after(replace(waiting, where=ALL_RUN), LATER)
    assert (held.plan.step, held.plan.generation, held.commit.quiescing) == (Step.QUIESCE, None, True)
    assert held.plan.uncopied == "another package or query was asked for meanwhile"


def test_a_stop_ends_the_plan_that_copies() -> None:
    decision = after(view(Step.COPY, revision=7, expected=NEW | {"desired_state": "stopped"}), LATER)
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.failure) == (OLD | {"desired_state": "stopped"}, None)


@pytest.mark.parametrize("expected", [OLD, make_config(priority=3), make_config(package={"name": "p", "version": "2"})])
def test_the_tasks_run_on_when_no_rescale_is_wanted_any_more(expected: Any) -> None:
    decision = after(view(Step.COPY, revision=7, expected=expected), LATER)
    assert isinstance(decision, End)
    assert decision.failure is None
    assert (decision.commit.config, decision.commit.stopping, decision.commit.quiescing) == (OLD, False, False)
