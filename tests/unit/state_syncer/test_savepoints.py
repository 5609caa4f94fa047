"""The next step of a savepoint, and of a job that is to be restored: tables of what follows from what."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.config.model import ChangeKind
from penstock.store.savepoints import Running as SavedRunning
from penstock.store.savepoints import SavepointRow
from penstock.tasks.redistribution import RedistributionRequest, SavepointName, SealRequest
from penstock.tasks.savepoint import SavedTask, SavepointRemoval, SavepointReport, SavepointRequest
from services.state_syncer.asks import request_of as ask_of_plan
from services.state_syncer.plan import Begin, Commit, Fail, JobView, Running, Wait
from services.state_syncer.plan import decide as decide_job
from services.state_syncer.progress import Done, Failed, Helper, Lost, Outcome, Plan, Restore, Step, Unanswered
from services.state_syncer.savepoints import (
    ATTEMPTS,
    Again,
    Bind,
    Broken,
    Decision,
    Gone,
    Look,
    Nobody,
    Ready,
    decide,
    request_of,
)
from tests.support.jobs import make_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = make_config()
ASKED = SavepointRow(
    number=5,
    job="j",
    name="nightly",
    state="asked",
    detail="",
    generation=None,
    revision=None,
    config=None,
    container=None,
    attempts=0,
    tasks=None,
    bytes=None,
    author="me",
    reason="",
    created_at=NOW,
    finished_at=None,
)
BOUND = replace(ASKED, generation=3, revision=7, config=CONFIG, container="a", attempts=1)
DELETING = replace(ASKED, state="deleting", generation=3, revision=7, config=CONFIG)
RUNS = SavedRunning(CONFIG, 7, 3, started=True)
HELPERS = [Helper("a", frozenset(), 2), Helper("b", frozenset(), 1)]
REPORT = SavepointReport(tasks=(SavedTask(index=0, batch=1),), bytes=1)


@pytest.mark.parametrize(
    ("row", "running", "helpers", "outcome", "decision"),
    [
        (ASKED, RUNS, HELPERS, Unanswered(), Bind("b", first=True)),
        (replace(ASKED, attempts=1), RUNS, HELPERS, Unanswered(), Bind("a", first=True)),
        (ASKED, RUNS, [], Unanswered(), Nobody()),
        (ASKED, None, HELPERS, Unanswered(), Broken("the job does not run and has no checkpoint")),
        (
            ASKED,
            RUNS._replace(started=False),
            HELPERS,
            Unanswered(),
            Broken("the job does not run and has no checkpoint"),
        ),
        (BOUND, RUNS, HELPERS, Unanswered(), Look("a")),
        (BOUND, None, HELPERS, Unanswered(), Look("a")),
        (BOUND, RUNS, [HELPERS[1]], Unanswered(), Again("a is lost")),
        (BOUND, RUNS, HELPERS, Lost("silent"), Again("silent")),
        (replace(BOUND, container=None), None, HELPERS, Unanswered(), Bind("a", first=False)),
        (BOUND, RUNS, HELPERS, Done(savepoint=REPORT), Ready(REPORT)),
        (BOUND, RUNS, HELPERS, Done(), Again("the container told no report")),
        (BOUND, RUNS, HELPERS, Failed("disk full"), Again("disk full")),
        (replace(BOUND, attempts=ATTEMPTS), RUNS, HELPERS, Failed("disk full"), Broken("disk full")),
        (DELETING, None, HELPERS, Unanswered(), Bind("b", first=False)),
        (replace(DELETING, container="a"), None, HELPERS, Done(), Gone()),
        (replace(DELETING, container="a", attempts=99), None, HELPERS, Failed("busy"), Again("busy")),
    ],
)
def test_the_next_step_of_a_savepoint(
    row: SavepointRow, running: SavedRunning | None, helpers: list[Helper], outcome: Outcome, decision: Decision
) -> None:
    assert decide(row, running, helpers, outcome) == decision


def test_what_a_container_is_asked() -> None:
    taken = request_of(BOUND, ["old"])
    assert isinstance(taken, SavepointRequest)
    assert (taken.number, taken.layout.generation, len(taken.layout.ranges), taken.earlier) == (5, 3, 2, ("old",))
    assert request_of(DELETING, ["old"]) == SavepointRemoval(job="j", name="nightly", number=5)
    for unreadable in (ASKED, replace(BOUND, config={"task_count": 1})):
        with pytest.raises(ValueError, match=r"bound|validation"):
            request_of(unreadable, [])


RESTORE = Restore(number=4, savepoint=SavepointName(job="other", name="nightly"), generation=9, config=CONFIG)
RUNNING = Running(CONFIG, revision=5, generation=3, restarts=0, stopping=False, started=True, commit_number=9)


def view(running: Running | None = RUNNING, **expected: Any) -> JobView:
    wanted = make_config(**expected)
    return JobView("j", 6, 0, deleting=False, expected=wanted, running=running, restore=RESTORE)


@pytest.mark.parametrize(("expected", "fields"), [({}, []), ({"priority": 3}, []), ({"task_count": 4}, ["task_count"])])
def test_a_restore_is_a_plan_whatever_the_difference(expected: dict[str, Any], fields: list[str]) -> None:
    for running in (RUNNING, replace(RUNNING, started=False)):
        decision = decide_job(view(running, **expected), NOW)
        assert isinstance(decision, Begin)
        assert (decision.restore, [change.field for change in decision.difference.fields]) == (RESTORE, fields)


def test_a_job_that_never_ran_is_committed_stopped_first() -> None:
    decision = decide_job(view(None), NOW)
    assert isinstance(decision, Commit)
    assert (decision.asks_for_tasks, decision.generation, decision.stopping) == (False, 1, False)
    assert isinstance(decision.then, Wait)


def test_a_restore_that_does_not_fit_is_refused() -> None:
    decision = decide_job(view(replace(RUNNING, started=False), output_mode="update"), NOW)
    assert isinstance(decision, Fail)
    assert (decision.kind, decision.fields) == (ChangeKind.FORBIDDEN, ("output_mode",))


def test_the_savepoint_is_the_source_and_the_running_generation_is_sealed() -> None:
    wanted = make_config(task_count=4, priority=2)
    plan = Plan(
        revision=6, restarts=0, config=wanted, fields=("task_count",), restore=RESTORE, begun_at=NOW, step_at=NOW
    )
    asked = ask_of_plan("j", plan.at(Step.REDISTRIBUTE, NOW, "a", 7), RUNNING)
    assert isinstance(asked, RedistributionRequest)
    assert (asked.source.savepoint, asked.source.generation, asked.target.generation) == (RESTORE.savepoint, 9, 7)
    assert (asked.target.config.priority, len(asked.target.ranges)) == (2, 4)
    sealed = ask_of_plan("j", plan.at(Step.SEAL, NOW, "a", 7), RUNNING)
    assert isinstance(sealed, SealRequest)
    assert (sealed.layout.generation, sealed.layout.savepoint) == (3, None)
