"""The contract of `SyncStore` for rollouts: what tasks run stays mixed, and only an owner's report counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from penstock.model.jobs import JobState
from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.store.running import CommitRow
from penstock.tasks.rollout import (
    LeafChange,
    OrderedRollout,
    RanBefore,
    Rejected,
    RolloutOrder,
    RunningRollout,
    SeenTask,
)
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.rollout import watch_rollout
from services.state_syncer.decide.view import JobView, RollingJob, SyncRecord, Unusable
from services.state_syncer.decide.waves import Rollout, RolloutPolicy, steps_of
from services.state_syncer.store.states import SyncWrite
from tests.contract.sync_store_forms import FORMS, make_form, settle_ranks, views, write
from tests.support.store.jobs import make_config, make_layer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VERSION = LeafChange(path=("package", "version"), old="0", new="2")
PLAN = Rollout(
    steps=steps_of((1, 2)),
    revision=2,
    restarts=0,
    fields=("package.version",),
    leaves=(VERSION,),
    ends=(1, 2),
    begun_at=NOW,
    step_at=NOW,
)
NEW = make_config(package={"version": "2"})
BEFORE = RanBefore(config=make_config(), revision=1, restarts=0)
PAUSE = OrderedRollout(action=RolloutOrder.PAUSE, begun_at=NOW, author="ann", reason="a look", at=NOW)
REJECTED = Rejected(revision=2, leaves=(VERSION,), wave=1, waves=2, task="j/0", error="no module")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    """Job j is in the first wave; container a owns all shards and has reported."""
    form = make_form(request)
    form.layer("j", "base", make_layer())
    form.layer("j", "base", make_layer(package={"version": "2"}))
    commit(form, RunningRollout(revision=2, upgraded=1, before=BEFORE))
    write(form, plans=[PlanWrite("j", PLAN)])
    form.container("a")
    form.report("a", 1)
    form.own("a")
    return form


def commit(form: Any, rollout: RunningRollout | None, revision: int = 2) -> None:
    stored = None if rollout is None else rollout.model_dump(mode="json")
    row_to_be = CommitRow("j", orjson.dumps(NEW), revision, 1, 0, False, True, stored)
    state = SyncWrite("j", SyncRecord(JobState.ROLLING, revision), None)
    write(form, commits=[row_to_be], states=[state])


def view(form: Any) -> JobView:
    return views(form)["j"]


def rolling_job(form: Any) -> RollingJob:
    with form.store.read() as found:
        (job,) = found.rolling().jobs
    return job


def tasks(form: Any) -> dict[int, SeenTask]:
    rolling = view(form).rolling
    assert rolling is not None
    assert rolling_job(form).rolling.tasks == rolling.tasks
    return dict(rolling.tasks)


def report(index: int = 0, progress: TaskProgress | None = None, crashes: int = 0) -> TaskReport:
    return TaskReport(
        job="j",
        index=index,
        state=TaskState.RUNNING,
        revision=2,
        generation=1,
        restarts=0,
        epoch=1,
        crashes=crashes,
        error="no module" if crashes else None,
        progress=progress,
    )


def test_the_rollout_and_its_plan_are_seen_as_they_were_written(form: Any) -> None:
    seen = view(form)
    assert seen.running is not None
    assert seen.running.rollout == RunningRollout(revision=2, upgraded=1, before=BEFORE)
    assert (seen.running.last_whole, seen.rolling is not None and seen.rolling.plan) == (make_config(), PLAN)
    assert seen.progress is None


def test_a_commit_without_a_rollout_ends_it(form: Any) -> None:
    commit(form, None)
    running = view(form).running
    assert running is not None
    assert (running.rollout, running.last_whole) == (None, NEW)


def test_a_rollout_of_another_revision_is_over(form: Any) -> None:
    commit(form, RunningRollout(revision=2, upgraded=1, before=BEFORE), revision=3)
    running = view(form).running
    assert running is not None
    assert running.rollout is None


@pytest.mark.parametrize(
    ("progress", "has_worked"),
    [(None, False), (TaskProgress(batch_id=3, input_rows=0), False), (TaskProgress(batch_id=3, input_rows=5), True)],
)
def test_tasks_are_seen_as_their_owner_reports_them(
    form: Any, progress: TaskProgress | None, *, has_worked: bool
) -> None:
    form.report_task("a", report(progress=progress))
    form.report_task("a", report(1, crashes=2))
    assert tasks(form) == {
        0: SeenTask("running", 2, 1, 0, 0, None, has_worked),
        1: SeenTask("running", 2, 1, 0, 2, "no module", False),
    }


def test_who_does_not_own_a_task_tells_nothing_of_it(form: Any) -> None:
    form.container("b")
    form.report("b", 1)
    form.report_task("b", report())
    assert tasks(form) == {}
    form.own("b")
    assert set(tasks(form)) == {0}


@pytest.mark.parametrize("fault", ["new_life", "lost"])
def test_an_owner_that_is_lost_or_has_another_life_tells_nothing(form: Any, fault: str) -> None:
    form.report_task("a", report())
    if fault == "lost":
        form.container("a", "lost")
    else:
        form.new_life("a")
    assert tasks(form) == {}


def test_a_rejected_package_is_recorded_with_the_version_of_the_layer_and_an_alert(form: Any) -> None:
    for version in range(2):
        assert version == 0 or form.rejected("j")["layer_version"] == 0
        record = PlanWrite("j", PLAN, rejected=REJECTED)
        write(form, plans=[record])
        assert Rejected.model_validate(form.rejected("j")) == REJECTED.model_copy(update={"layer_version": version})
        form.layer("j", "rollback", {"package": {"version": "0"}})
    assert form.rolled_back() == set(), "nobody has written the layer"


@pytest.mark.parametrize("ended", ["by a report", "with the rollout", "with the job"])
def test_a_late_rollout_has_an_alert_as_long_as_it_is_late(form: Any, ended: str) -> None:
    late = PLAN.model_copy(update={"late": "no report of 1 of 1 upgraded task"})
    write(form, plans=[PlanWrite("j", late)])
    assert form.rollouts_late() == {"j"}
    match ended:
        case "by a report":
            write(form, plans=[PlanWrite("j", PLAN)])
        case "with the rollout":
            write(form, plans=[PlanWrite("j", None)])
        case "with the job":
            form.delete("j")
            write(form, forget=["j"])
    assert form.rollouts_late() == set()


def test_an_order_is_seen_with_its_rollout_and_ends_with_it(form: Any) -> None:
    form.order_rollout("j", PAUSE)
    assert rolling_job(form).rolling.paused == PAUSE
    seen = view(form).rolling
    assert seen is not None
    assert seen.paused == PAUSE
    write(form, plans=[PlanWrite("j", PLAN.model_copy(update={"wave": 1}))])
    assert rolling_job(form).rolling.paused == PAUSE
    write(form, plans=[PlanWrite("j", PLAN.model_copy(update={"begun_at": NOW + timedelta(seconds=1)}))])
    assert rolling_job(form).rolling.order is None


def test_what_was_reported_long_ago_is_told_as_old(form: Any) -> None:
    form.report_task("a", report())
    assert tasks(form)[0].silent_since is None
    form.silence("a", 60.0)
    assert tasks(form)[0].silent_since is not None


@pytest.mark.parametrize("change", ["nothing", "ranks", "stop", "restore", "restart", "write", "delete"])
def test_a_rollout_is_read_without_configurations_and_with_whether_anything_changed(form: Any, change: str) -> None:
    settle_ranks(form)
    plan = PLAN
    match change:
        case "ranks":
            plan = PLAN.model_copy(update={"revision": 99})
            write(form, plans=[PlanWrite("j", plan)])
            form.layer("j", "oncall", {"priority": 3})
        case "stop":
            row = CommitRow("j", orjson.dumps(NEW), 2, 1, 0, True, True)
            write(form, commits=[row])
        case "restore":
            form.restore("j", make_config())
        case "restart":
            form.restart("j")
        case "write":
            form.layer("j", "oncall", {"priority": 3})
        case "delete":
            form.delete("j")
    job = rolling_job(form)
    assert (job.job, job.generation, job.rolling.plan, job.deleting) == ("j", 1, plan, change == "delete")
    assert job.sync == SyncRecord(JobState.ROLLING, 2)
    assert job.changed or change in ("nothing", "restart", "delete")
    assert (watch_rollout(job, NOW, RolloutPolicy()) is None) == (change != "nothing")
    with form.store.read() as found:
        assert list(found.views) == [], "it is only read in full when somebody asks for it"


def test_a_plan_that_cannot_be_read_is_named(form: Any) -> None:
    settle_ranks(form)
    form.spoil_plan("j")
    with form.store.read() as found:
        assert (found.rolling().jobs, found.rolling().unreadable) == ([], ["j"])
        (seen,) = found.named(["j"])
    assert isinstance(seen.expected, Unusable)
