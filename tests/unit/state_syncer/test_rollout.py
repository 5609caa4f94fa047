"""A rollout's planner: a table of what follows from what is seen of a wave, and what writes do that come meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.model.jobs import JobState
from penstock.tasks.rollout import (
    RanBefore,
    RunningRollout,
    good_values,
    wave_ends,
)
from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import (
    Commit,
    End,
    Finish,
    Nothing,
    Record,
    StartRescale,
    StartRollout,
)
from services.state_syncer.decide.effects import effects
from services.state_syncer.decide.rollout import begin_rollout
from services.state_syncer.decide.view import Running, Unusable
from services.state_syncer.decide.waves import Rollout, Stage
from tests.support.state_syncer.waves import (
    ENDS,
    NEW,
    NOW,
    OLD,
    POLICY,
    RUNNING,
    TASKS,
    after,
    begun,
    committed,
    config,
    kind_of,
    rolling,
    step,
    task,
    view,
)


@pytest.mark.parametrize(
    ("task_count", "share", "ends"),
    [
        (1, 0.25, (1,)),
        (2, 0.25, (1, 2)),
        (3, 0.25, (1, 2, 3)),
        (6, 0.25, ENDS),
        (8, 0.25, (1, 3, 5, 7, 8)),
        (8, 1.0, (1, 8)),
        (1000, 0.25, (1, 251, 501, 751, 1000)),
    ],
)
def test_one_task_first_then_a_share_of_all(task_count: int, share: float, ends: tuple[int, ...]) -> None:
    assert wave_ends(task_count, share) == ends


@pytest.mark.parametrize(
    ("expected", "running", "rolls"),
    [
        (NEW, RUNNING, True),
        (config("1", query={"sql": "SELECT key FROM events"}), RUNNING, False),
        (config("1", priority=3), RUNNING, False),
        (config("2", desired_state="stopped"), RUNNING, False),
        (NEW, replace(RUNNING, config=config("1", desired_state="stopped")), False),
        (NEW, replace(RUNNING, started=False), False),
        (NEW, replace(RUNNING, stopping=True), False),
    ],
)
def test_only_another_package_for_tasks_that_run_and_go_on_is_rolled_out(
    expected: Any, running: Running, *, rolls: bool
) -> None:
    decision = decide(view(expected, running), NOW)
    assert isinstance(decision, StartRollout if rolls else Commit)


def test_another_size_takes_the_package_along() -> None:
    assert isinstance(decide(view({**NEW, "task_count": 4}), NOW), StartRescale)


def test_the_first_wave_is_one_task_and_the_others_run_what_they_ran() -> None:
    roll = begun()
    assert (roll.plan.ends, roll.plan.upgraded, roll.commit.config, roll.commit.revision) == (ENDS, 1, NEW, 6)
    before = RanBefore(config=OLD, revision=5, restarts=0)
    assert roll.commit.rollout == RunningRollout(revision=6, upgraded=1, before=before)
    assert good_values(roll.plan.leaves) == {"package": {"version": "1"}}


def test_a_wave_of_all_tasks_keeps_nothing_in_the_row() -> None:
    one = {"task_count": 1}
    roll = begun(view({**NEW, **one}, replace(RUNNING, config={**OLD, **one})))
    assert (roll.plan.ends, roll.commit.rollout) == ((1,), None)


UNKNOWN = None
SEEN = [
    ((UNKNOWN,), 1, "poll"),
    ((UNKNOWN,), 119, "poll"),
    ((UNKNOWN,), 120, "late"),
    ((task("running", revision=5),), 1, "poll"),
    ((task("running", revision=5),), 120, "late"),
    ((task("held"),), 120, "late"),
    ((task("stopping"),), 120, "late"),
    ((task("starting"),), 1, "record"),
    ((task("starting"),), 120, "late"),
    ((task("starting", silent_since=NOW),), 119, "poll"),
    ((task("starting", silent_since=NOW),), 120, "late"),
    ((task("running", worked=True, silent_since=NOW),), 1, "poll"),
    ((task("running", worked=True, silent_since=NOW),), 120, "late"),
    ((task("running"),), 1, "record"),
    ((task("running", worked=True),), 1, "next"),
    ((task("running", worked=True),), 500, "next"),
    ((task("running", worked=True, generation=2),), 1, "poll"),
    ((task("running", worked=True, crashes=1),), 1, "record"),
    ((task("crashed", crashes=2),), 1, "record"),
    ((task("crashed", crashes=3),), 1, "halt"),
    ((task("crashed", crashes=3, silent_since=NOW),), 1, "halt"),
    ((task("running"),), 120, "record"),
    ((task("crashed", revision=5, crashes=9),), 1, "record"),
    ((task("running", worked=True), task("crashed", revision=5, crashes=9)), 1, "next"),
]


@pytest.mark.parametrize(("tasks", "seconds", "kind"), SEEN)
def test_what_follows_from_what_is_seen(tasks: Any, seconds: float, kind: str) -> None:
    assert kind_of(step(rolling(begun(), *tasks), seconds)) == kind


def test_a_task_that_runs_for_long_enough_is_healthy_without_a_batch() -> None:
    noted = step(rolling(begun(), task()), 10)
    job = rolling(Record(noted.plan, begun().commit), task())
    assert kind_of(step(job, 24)) == "poll"
    assert kind_of(step(job, 25)) == "next"


def test_a_crash_begins_the_time_anew() -> None:
    noted = step(rolling(begun(), task()), 10)
    assert step(rolling(Record(noted.plan, begun().commit), task("crashed", crashes=1)), 24).plan.well_since is None


def test_crashes_of_the_package_before_do_not_count() -> None:
    """1. A task that crashes again and again is upgraded. 2. Its crashes go on counting, under the new package."""
    noted = step(rolling(begun(), task("crashed", revision=5, crashes=9)))
    assert noted.plan.crashes == {0: 9}
    roll = Record(noted.plan, begun().commit)
    assert kind_of(step(rolling(roll, task("crashed", crashes=11)))) == "record"
    assert kind_of(step(rolling(roll, task("crashed", crashes=12)))) == "halt"
    assert kind_of(step(rolling(roll, task(crashes=9, worked=True)))) == "next"


def test_a_container_that_begins_to_count_anew_is_believed() -> None:
    """1. A task that crashes again and again is upgraded, and counts from nothing. 2. Its third crash halts."""
    noted = step(rolling(begun(), task("crashed", revision=5, crashes=9)))
    anew = step(rolling(Record(noted.plan, begun().commit), task("starting", crashes=0)))
    assert anew.plan.crashes == {}
    roll = Record(anew.plan, begun().commit)
    assert kind_of(step(rolling(roll, task("crashed", crashes=2)))) == "poll"
    assert kind_of(step(rolling(roll, task("crashed", crashes=3)))) == "halt"


def test_wave_after_wave_and_then_it_is_synced() -> None:
    roll, upgraded = begun(), [1]
    while True:
        decision = step(rolling(roll, *[task(worked=True)] * TASKS))
        if isinstance(decision, Finish):
            break
        roll = decision
        rollout = roll.commit.rollout
        upgraded.append(TASKS if rollout is None else rollout.upgraded)
        assert (roll.commit.config, roll.commit.revision, roll.commit.generation) == (NEW, 6, 3)
    assert tuple(upgraded) == ENDS
    record = effects(view(), decision, NOW).record
    assert record is not None
    assert (record.state, record.revision, record.fields) == (JobState.SYNCED, 6, ("package.version",))


def test_a_task_of_an_earlier_wave_that_fails_halts_the_later_one_too() -> None:
    second = step(rolling(begun(), task(worked=True)))
    crashed = task("crashed", crashes=3)
    halt = step(rolling(second, crashed, task(worked=True), task(worked=True)))
    assert kind_of(halt) == "halt"
    assert (halt.rejected.wave, halt.rejected.task) == (2, "j/0")


def halted() -> Any:
    halt = step(rolling(begun(), task("crashed", crashes=3)))
    assert kind_of(halt) == "halt"
    return halt


def test_what_was_rejected_and_why_is_recorded() -> None:
    halt = halted()
    assert (halt.rejected.revision, halt.rejected.wave, halt.rejected.waves, halt.rejected.task) == (6, 1, 4, "j/0")
    assert halt.rejected.error == "crashed after 3 crashes: no module"
    record = effects(view(), halt, NOW).record
    assert record is not None
    assert (record.state, record.detail.startswith("rolling back from wave 1 of 4")) == (JobState.ROLLING, True)


def test_a_package_that_never_worked_is_not_what_the_job_goes_back_to() -> None:
    """Nor is it for the package that comes after the halted one."""
    roll = begun(view(running=replace(RUNNING, is_proven=False)))
    halt = step(rolling(roll, task("crashed", crashes=3)))
    assert (halted().rejected.goes_back, halt.rejected.goes_back) == (True, False)
    assert halt.plan.describe().startswith("halted, with no package that has worked in this job to go back to, in wave")
    again = step(rolling(Record(halt.plan, roll.commit), expected=config("3"), revision=7))
    assert (again.plan.step, again.plan.goes_back) == (Stage.WAVE, False)


@pytest.mark.parametrize("tasks", [(), (task(worked=True),), (task("crashed", crashes=9),)])
def test_a_halted_rollout_stays_whatever_is_seen(tasks: Any) -> None:
    job = rolling(Record(halted().plan, begun().commit), *tasks)
    assert kind_of(step(job, 1000)) == "poll"


@pytest.mark.parametrize("stage", ["wave", "halted"])
def test_the_good_package_is_committed_at_once(stage: str) -> None:
    roll = begun() if stage == "wave" else Record(halted().plan, begun().commit)
    decision = step(rolling(roll, expected={**OLD, "priority": 7}, revision=7))
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.revision) == ({**OLD, "priority": 7}, 7)
    assert decision.commit.rollout is None


def test_the_good_package_is_committed_at_once_after_the_last_wave_too() -> None:
    roll = begun()
    for _ in ENDS[1:]:
        roll = step(rolling(roll, *[task(worked=True)] * TASKS))
    assert roll.commit.rollout is None
    assert isinstance(step(rolling(roll, expected=OLD, revision=7)), End)


def test_another_package_begins_anew_from_the_good_one() -> None:
    roll = step(rolling(Record(halted().plan, begun().commit), expected=config("3"), revision=7))
    assert kind_of(roll) == "next"
    assert (roll.plan.step, roll.plan.revision, roll.plan.upgraded) == (Stage.WAVE, 7, 1)
    assert good_values(roll.plan.leaves) == {"package": {"version": "1"}}
    assert roll.commit.rollout is not None
    assert (roll.commit.rollout.before.config, roll.commit.rollout.before.revision) == (OLD, 5)


def test_another_package_in_the_last_wave_goes_back_to_the_one_that_was_healthy_everywhere() -> None:
    one = {"task_count": 1}
    first = begun(view({**NEW, **one}, replace(RUNNING, config={**OLD, **one})))
    second = step(rolling(first, expected={**config("3"), **one}, revision=7))
    assert good_values(second.plan.leaves) == {"package": {"version": "1"}}


def test_a_release_taken_back_for_one_that_was_not_yet_healthy_everywhere_goes_on_in_waves() -> None:
    """1. Version 2 is in its last wave. 2. Version 3 begins. 3. Version 2 is asked for again, and version 1 is good."""
    last = begun()
    for _ in ENDS[1:]:
        last = step(rolling(last, *[task(worked=True)] * TASKS))
    third = step(rolling(last, expected=config("3"), revision=7))
    again = step(rolling(third, expected=NEW, revision=8))
    assert (kind_of(again), again.plan.upgraded, again.commit.config) == ("next", 1, NEW)
    assert good_values(again.plan.leaves) == {"package": {"version": "1"}}


@pytest.mark.parametrize(("change", "is_again"), [({"priority": 7}, False), ({"isolation": "process"}, True)])
def test_another_write_goes_along_and_begins_the_wave_anew_if_it_restarts_tasks(change: Any, *, is_again: bool) -> None:
    noted = step(rolling(begun(), task()), 10)
    job = rolling(Record(noted.plan, begun().commit), task(), expected={**NEW, **change}, revision=7)
    roll = step(job, 11)
    assert kind_of(roll) == "next"
    assert (roll.commit.config, roll.plan.revision, roll.plan.upgraded) == ({**NEW, **change}, 7, 1)
    assert (roll.plan.step_at, roll.plan.well_since) == ((after(11), None) if is_again else (NOW, after(10)))
    rollout = roll.commit.rollout
    assert rollout is not None
    assert (rollout.revision, rollout.upgraded, rollout.before.config) == (7, 1, OLD)


def test_a_restart_that_is_asked_for_is_one_of_all_tasks() -> None:
    roll = step(rolling(begun(), task(), restarts=1, revision=7))
    assert (roll.plan.restarts, roll.commit.restarts, roll.commit.rollout.before.restarts) == (1, 1, 1)


@pytest.mark.parametrize(
    ("expected", "kind"),
    [
        ({**NEW, "task_count": 4}, StartRescale),
        ({**NEW, "desired_state": "stopped"}, End),
        ({**OLD, "desired_state": "stopped"}, End),
    ],
)
def test_another_size_and_a_stop_end_it(expected: Any, kind: type) -> None:
    assert isinstance(step(rolling(begun(), expected=expected, revision=7)), kind)


def test_another_size_waits_for_the_good_package_once_the_new_one_is_rejected() -> None:
    roll = Record(halted().plan, begun().commit)
    assert kind_of(step(rolling(roll, expected={**NEW, "task_count": 4}, revision=7))) == "poll"
    assert isinstance(step(rolling(roll, expected={**OLD, "task_count": 4}, revision=8)), StartRescale)


def test_a_change_that_cannot_be_made_is_left_until_the_end() -> None:
    job = rolling(begun(), task(worked=True), expected=Unusable("no", None), revision=7)
    assert kind_of(step(job)) == "next"


def test_a_rescale_that_failed_resumes_the_rollout_that_it_came_upon() -> None:
    """1. A rescale ended the rollout, and was taken back. 2. The row is as the rollout left it: it begins again."""
    running = committed(begun())
    decision = decide(view(NEW, running, 7), NOW)
    assert isinstance(decision, StartRollout)
    again = begin_rollout(view(NEW, running, 7), decision, NOW, POLICY)
    assert again.commit.rollout is not None
    assert (again.commit.rollout.before.config, again.commit.rollout.upgraded) == (OLD, 1)
    assert isinstance(decide(view(OLD, running, 7), NOW), Commit)
    assert isinstance(decide(view(NEW, replace(running, rollout=None), 6), NOW), Nothing)


def test_a_plan_survives_its_record() -> None:
    noted = step(rolling(begun(), task("crashed", revision=5, crashes=9)))
    assert Rollout.model_validate(noted.plan.model_dump(mode="json")) == noted.plan
