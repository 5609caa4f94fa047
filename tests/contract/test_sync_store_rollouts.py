"""The contract of `SyncStore` for rollouts: what tasks run stays mixed, and only an owner's report counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from penstock.store.plans import PlanWrite
from penstock.store.running import CommitRow
from penstock.store.sync import SyncWrite
from penstock.tasks.rollout import LeafChange, RanBefore, Rejected, RunningRollout, SeenTask
from penstock.wire.cluster import TaskProgress, TaskReport, TaskState
from services.state_syncer.plan import JobView, SyncRecord, SyncState
from services.state_syncer.waves import Rollout, steps_of
from tests.contract.sync_store_forms import FORMS, make_form, row, write
from tests.support.jobs import make_config, make_layer

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
REJECTED = Rejected(revision=2, leaves=(VERSION,), wave=1, waves=2, task="j/0", error="no module")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    """Job j is in the first wave; container a owns all shards and has reported."""
    form = make_form(request)
    form.layer("j", "base", make_layer())
    form.layer("j", "base", make_layer(package={"version": "2"}))
    commit(form, RunningRollout(revision=2, upgraded=1, before=BEFORE))
    write(form, plans=[PlanWrite("j", PLAN.model_dump(mode="json"), PLAN.step_number)])
    form.container("a")
    form.report("a", 1)
    form.own("a")
    return form


def commit(form: Any, rollout: RunningRollout | None, revision: int = 2) -> None:
    stored = None if rollout is None else rollout.model_dump(mode="json")
    row_to_be = CommitRow("j", orjson.dumps(NEW), revision, 1, 0, False, True, stored)
    state = SyncWrite("j", row(SyncRecord(SyncState.ROLLING, revision)), None)
    write(form, commits=[row_to_be], states=[state])


def view(form: Any) -> JobView:
    with form.store.read() as found:
        return next(each for each in found.views if each.job == "j")


def tasks(form: Any) -> dict[int, SeenTask]:
    rolling = view(form).rolling
    assert rolling is not None
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
    assert (seen.running.settled, seen.rolling is not None and seen.rolling.plan) == (make_config(), PLAN)
    assert seen.progress is None


def test_a_commit_without_a_rollout_ends_it(form: Any) -> None:
    commit(form, None)
    running = view(form).running
    assert running is not None
    assert (running.rollout, running.settled) == (None, NEW)


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
        record = PlanWrite("j", PLAN.model_dump(mode="json"), rejected=REJECTED.model_dump(mode="json"))
        write(form, plans=[record])
        assert Rejected.model_validate(form.rejected("j")) == REJECTED.model_copy(update={"layer_version": version})
        form.layer("j", "rollback", {"package": {"version": "0"}})
    assert form.rolled_back() == {"j"}


def test_the_alert_goes_with_the_job(form: Any) -> None:
    write(form, plans=[PlanWrite("j", None, rejected=REJECTED.model_dump(mode="json"))])
    form.delete("j")
    write(form, forget=["j"])
    assert form.rolled_back() == set()


@pytest.mark.parametrize("change", [None, "write", "restart", "delete"])
def test_who_waits_for_room_is_not_looked_at_while_there_is_none(form: Any, change: str | None) -> None:
    """Unless something happens to it; others are, new ones too."""
    form.layer("new", "base", make_layer())
    with form.store.read() as found:
        write(form, ranks=found.new_ranks)
    form.layer("k", "base", make_layer())
    row_to_be = CommitRow("k", orjson.dumps(make_config()), 1, 1, 0, False, True)
    waits = SyncRecord(SyncState.QUEUED, 99, "waiting: no more than 1 job may be disrupted at once")
    write(form, commits=[row_to_be], states=[SyncWrite("k", row(waits), None)])
    match change:
        case "write":
            for _ in range(100):
                form.layer("k", "oncall", {"priority": 3})
        case "restart":
            form.restart("k")
        case "delete":
            form.delete("k")
    for limit, looks in ((2, True), (1, change is not None)):
        with form.store.read(lambda _, limit=limit: limit) as found:
            seen = {each.job for each in found.views}
        assert seen == {"j", "new"} | ({"k"} if looks else set())
