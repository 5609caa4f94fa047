"""The contract of `SyncStore`: what is known of the tasks of a job that is rescaled, before the stop."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.jobs import JobState
from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.tasks.spec import Coming
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import Plan, Step
from services.state_syncer.decide.quiet import Behind, Quiet, Unread
from services.state_syncer.decide.whereabouts import ALL_RUN, Changing, Missing, Whereabouts
from tests.contract.sync_store_forms import FORMS, commit, make_form, state, view, write
from tests.support.store.jobs import make_config, make_layer


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return make_form(request)


PLAN = Plan(
    revision=1, restarts=0, config=make_config(), fields=("task_count",), begun_at="2026-01-01T00:00:00Z",
    step_at="2026-01-01T00:00:00Z",
)  # fmt: skip


def coming(form: Any) -> list[int | None]:
    """The generations that Task Managers are told of."""
    rows = form.templates().read().stored
    return [None if row.coming is None else Coming.model_validate_json(row.coming).generation for row in rows]


def test_task_managers_are_told_what_a_rescale_ends_in_while_the_job_is_held_or_stopped(form: Any) -> None:
    """1. State is copied into generation 2: nothing is told. 2. The job is held. 3. Stopped. 4. Another number is not
    known yet. 5. The plan is over."""
    form.layer("j", "base", make_layer())
    found = []
    for step, order, generation in (
        (Step.COPY, {}, 2),
        (Step.QUIESCE, {"quiescing": True}, 2),
        (Step.AWAIT_STOPPED, {"stopping": True}, 2),
        (Step.AWAIT_STOPPED, {"stopping": True}, None),
    ):
        plan = PLAN.model_copy(update={"step": step, "generation": generation, "container": "a"})
        commits, states = [commit()._replace(**order)], [state(JobState.RESCALING)]
        write(form, commits=commits, states=states, plans=[PlanWrite("j", plan)])
        found += coming(form)
    write(
        form, commits=[commit()._replace(stopping=True)], states=[state(JobState.SYNCED)], plans=[PlanWrite("j", None)]
    )
    assert [*found, *coming(form)] == [None, 2, 2, None, None]


def told(index: int, task: TaskState, *, is_quiet: bool = False) -> TaskReport:
    progress = TaskProgress(batch_id=3, quiesced=is_quiet)
    return TaskReport(
        job="j", index=index, state=task, revision=1, generation=1, restarts=0, epoch=1, progress=progress
    )


def test_tasks_are_quiet_only_when_every_container_has_said_so(form: Any) -> None:
    """1. The job is to take no more rows; nobody has reported. 2. a has, from before. 3. And after: one of its tasks is
    quiet, one is held, one is in its batch. 4. That one is quiet, too; b has not reported. 5. b has."""
    form.layer("j", "base", make_layer())
    order = write(
        form,
        commits=[commit()._replace(quiescing=True)],
        states=[state(JobState.RESCALING)],
        plans=[PlanWrite("j", PLAN.model_copy(update={"step": Step.QUIESCE}))],
    )
    form.container("a")
    form.container("b")
    form.own("b")
    assert view(form).running.quiescing
    found = [view(form).quiet]
    form.report("a", order - 1)
    found.append(view(form).quiet)
    for is_quiet in (False, True):
        form.report("a", order)
        form.report_task("a", told(0, TaskState.RUNNING, is_quiet=True))
        form.report_task("a", told(1, TaskState.HELD))
        form.report_task("a", told(2, TaskState.RUNNING, is_quiet=is_quiet))
        found.append(view(form).quiet)
    form.report("b", order)
    found.append(view(form).quiet)
    nowhere = Quiet(where=Whereabouts(missing=(Missing(0, "b"), Missing(1, "b"))))
    assert found == [nowhere, nowhere, Quiet(1), Quiet(0), Quiet(0, unheard=False)]
    assert [each.is_certain for each in found] == [False] * 4 + [True]
    form.layer("new", "base", make_layer())
    assert view(form, "new").quiet == Quiet(), "a job that never ran is read beside it"
    form.container("c", "lost")
    form.report_task("c", told(3, TaskState.RUNNING))
    assert view(form).quiet.is_certain, "a lost container has stopped its tasks"
    write(form, commits=[commit()])
    assert not view(form).running.quiescing, "any later commit ends it"


def test_the_order_to_read_on_is_read_with_what_tasks_answer(form: Any) -> None:
    """1. One of two tasks is behind. 2. It is to read on, which the recorded plan does not say: what it said before is
    no answer. 3. It answers, and has crashed once. 4. Any later commit ends the order."""
    form.layer("j", "base", make_layer())
    form.container("a")
    level = PLAN.model_copy(update={"step": Step.LEVEL})
    quiescing = commit()._replace(quiescing=True, level_ms=0)
    number = write(form, commits=[quiescing], states=[state(JobState.RESCALING)], plans=[PlanWrite("j", level)])
    answer: dict[str, Any] = {"quiesced": True, "level_ms": 0, "processed_rows_per_second": 1.5}
    said = [TaskProgress(**answer, watermark_ms=watermark_ms) for watermark_ms in (5_000, 0)]
    tell(form, number, said)
    behind = (Behind(1, 0, None, 1.5),)
    assert view(form).quiet == Quiet(0, unheard=False, goal_ms=5_000, level_ms=0, behind=behind)
    assert view(form).progress.plan.step is Step.QUIESCE
    number = write(form, commits=[quiescing._replace(level_ms=5_000)])
    assert view(form).running.level_ms == 5_000
    assert view(form).progress.plan == level
    tell(
        form,
        number,
        [said[0].model_copy(update={"level_ms": 5_000}), said[1].model_copy(update={"backlog_records": 7})],
    )
    assert view(form).quiet == Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(1, 7))
    tell(form, number, [said[0].model_copy(update={"level_ms": 5_000}), TaskProgress(level_records=6)])
    assert view(form).quiet == Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(1, None, 6))
    answer = {"level_ms": 5_000, "caught_up": True}
    tell(form, number, [each.model_copy(update=answer) for each in said])
    assert view(form).quiet == Quiet(0, unheard=False, level_ms=5_000)
    tell(form, number, [said[0].model_copy(update=answer), None])
    assert view(form).quiet == Quiet(0, unheard=False, level_ms=5_000, where=Whereabouts(crashed=(1,)))
    write(form, commits=[quiescing._replace(level_ms=None)])
    assert (view(form).running.quiescing, view(form).running.level_ms) == (True, None)


def test_where_the_tasks_of_a_job_are_before_and_after_the_order_to_take_no_more_rows(form: Any) -> None:
    """1. State is copied, and all tasks run. 2. No reports are taken: nobody is silent, and it is unknown what
    runs. 3. One starts anew; its container falls silent, and is lost. 4. It runs elsewhere. 5. The same is known of
    tasks that take no more rows. A host that is silent is in a batch."""
    form.layer("j", "base", make_layer())
    for name in "ab":
        form.container(name)
        form.report(name, 1)
    form.own("a")
    copying = PLAN.model_copy(update={"step": Step.COPY})
    write(form, commits=[commit()], states=[state(JobState.RESCALING)], plans=[PlanWrite("j", copying)])
    form.report_task("a", told(0, TaskState.RUNNING))
    form.report_task("b", told(1, TaskState.RUNNING))
    assert view(form).where == ALL_RUN
    for name in "ab":
        form.silence(name, 20.0)
    away = view(form).where
    assert [(each.container, round(each.seconds)) for each in away.unheard] == [("a", 20), ("b", 20)]
    assert (away.all_run, away.are_lost, away.are_only_unheard) == (False, False, True)
    for name in "ab":
        form.report(name, 1)
        form.heartbeat(name, 0.0)
    form.report_task("a", told(0, TaskState.RUNNING))
    form.report_task("b", told(1, TaskState.STARTING))
    assert view(form).where == Whereabouts(changing=(Changing(1, "b", TaskState.STARTING),))
    form.silence("b", 13.0)
    (silent,) = view(form).where.silent
    assert (silent.container, round(silent.seconds)) == ("b", 13)
    form.container("b", "lost")
    assert view(form).where == Whereabouts(missing=(Missing(1, "a"),))
    form.report_task("a", told(1, TaskState.RUNNING))
    assert view(form).where == ALL_RUN
    number = write(form, commits=[commit()._replace(quiescing=True)])
    write(form, plans=[PlanWrite("j", PLAN.model_copy(update={"step": Step.QUIESCE}))])
    form.report("a", number)
    form.report_task("a", told(0, TaskState.RUNNING, is_quiet=True))
    assert view(form).quiet == Quiet(0, unheard=False, where=Whereabouts(missing=(Missing(1, "a"),)))
    quiet = told(1, TaskState.RUNNING, is_quiet=True)
    form.report_task("a", quiet.model_copy(update={"progress": TaskProgress(quiesced=True, silent_seconds=11.0)}))
    assert view(form).quiet == Quiet(1, unheard=False)
    assert view(form).where == ALL_RUN, "is asked for copies only"


def tell(form: Any, number: int, progress: list[TaskProgress | None]) -> None:
    """What the tasks of job j say in `a`; None: it has crashed once."""
    form.report("a", number)
    for index, each in enumerate(progress):
        task = told(index, TaskState.CRASHED if each is None else TaskState.RUNNING)
        form.report_task("a", task.model_copy(update={"progress": each, "crashes": int(each is None)}))
