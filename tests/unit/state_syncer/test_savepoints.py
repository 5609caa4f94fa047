"""The next step of a savepoint, and of a job that is to be restored: tables of what follows from what."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.config.model import ChangeKind
from penstock.store.savepoints import SavepointRow
from penstock.tasks.host_task import IMPORT_CHECKPOINT, POLICIES, REMOVE_SAVEPOINT, TAKE_SAVEPOINT
from penstock.tasks.redistribution import RedistributionRequest, SavepointName, SealRequest
from penstock.tasks.savepoint import ImportRequest, SavedTask, SavepointRemoval, SavepointReport, SavepointRequest
from services.state_syncer.decide.change import decide as decide_job
from services.state_syncer.decide.decisions import Commit, Fail, StartRescale, Wait
from services.state_syncer.decide.progress import Plan, Restore, Step
from services.state_syncer.decide.view import JobView, Running
from services.state_syncer.host_tasks.next_attempt import (
    Ask,
    Assign,
    AttemptDecision,
    Candidates,
    GiveUp,
    LiveContainer,
    NoContainer,
    Retry,
)
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome, Unanswered
from services.state_syncer.host_tasks.plan_tasks import request_of as ask_of_plan
from services.state_syncer.savepoints.decide import decide, in_turn, key_of, request_of
from services.state_syncer.savepoints.store import Running as SavedRunning
from tests.support.store.jobs import make_config

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
IMPORTED = replace(BOUND, generation=1, checkpoint="file:/old")
RUNS = SavedRunning(CONFIG, 7, 3, started=True)
PLACES = {name: LiveContainer(f"http://{name}", frozenset()) for name in ("a", "b")}
OTHERS = [AttemptKey("other", TAKE_SAVEPOINT, number, "a") for number in (1, 2)]
FIVE = "given up after 5 attempts: the last container did not finish"
REPORT = SavepointReport(tasks=(SavedTask(index=0, batch=1),), bytes=1)


@pytest.mark.parametrize(
    ("row", "running", "places", "outcome", "decision"),
    [
        (ASKED, RUNS, PLACES, Unanswered(), Assign("b")),
        (replace(ASKED, attempts=1), RUNS, PLACES, Unanswered(), Assign("a")),
        (ASKED, RUNS, {}, Unanswered(), NoContainer()),
        (ASKED, None, PLACES, Unanswered(), GiveUp("the job does not run and has no checkpoint")),
        (
            ASKED,
            RUNS._replace(started=False),
            PLACES,
            Unanswered(),
            GiveUp("the job does not run and has no checkpoint"),
        ),
        (BOUND, RUNS, PLACES, Unanswered(), Ask("a")),
        (BOUND, None, PLACES, Unanswered(), Ask("a")),
        (BOUND, RUNS, {"b": PLACES["b"]}, Unanswered(), Retry("a is lost", lost=True)),
        (BOUND, RUNS, PLACES, Lost("silent"), Retry("silent", lost=True)),
        (replace(BOUND, container=None), None, PLACES, Unanswered(), Assign("a")),
        (BOUND, RUNS, PLACES, Done(REPORT), Done(REPORT)),
        (BOUND, RUNS, PLACES, Done(), Retry("the container sent no report")),
        (BOUND, RUNS, PLACES, Failed("disk full"), Retry("disk full")),
        (replace(BOUND, attempts=5), RUNS, PLACES, Failed("disk full"), GiveUp("disk full")),
        (replace(BOUND, attempts=5), RUNS, PLACES, Done(), GiveUp("the container sent no report")),
        (replace(BOUND, attempts=4), RUNS, PLACES, Lost("silent"), Retry("silent", lost=True)),
        (replace(BOUND, attempts=5), RUNS, PLACES, Lost("silent"), GiveUp(f"{FIVE}: silent", lost=True)),
        (replace(BOUND, attempts=5), RUNS, {}, Unanswered(), GiveUp(f"{FIVE}: a is lost", lost=True)),
        (replace(IMPORTED, container=None, attempts=0), None, PLACES, Unanswered(), Assign("b")),
        (IMPORTED, None, PLACES, Done(REPORT), Done(REPORT)),
        (IMPORTED, None, PLACES, Failed("another query"), GiveUp("another query")),
        (IMPORTED, None, PLACES, Lost("silent"), Retry("silent", lost=True)),
        (DELETING, None, PLACES, Unanswered(), Assign("b")),
        (replace(DELETING, container="a"), None, PLACES, Done(), Done()),
        (
            replace(DELETING, container="a", attempts=99),
            None,
            PLACES,
            Failed("busy"),
            Retry("busy", after_seconds=3600.0),
        ),
        (
            replace(DELETING, container="a", attempts=99),
            None,
            PLACES,
            Lost("gone"),
            Retry("gone", lost=True, after_seconds=3600.0),
        ),
    ],
)
def test_the_next_step_of_a_savepoint(
    row: SavepointRow,
    running: SavedRunning | None,
    places: dict[str, LiveContainer],
    outcome: Outcome,
    decision: AttemptDecision,
) -> None:
    has_checkpoint = running is not None and running.started
    assert decide(row, Candidates(places, OTHERS), outcome, has_checkpoint=has_checkpoint) == decision


def test_an_import_asks_for_the_checkpoint_of_the_application_as_one_of_another_kind() -> None:
    request = request_of(IMPORTED, ("never",), 17)
    assert isinstance(request, ImportRequest)
    assert (request.checkpoint, request.layout.generation, request.key_number) == ("file:/old", 1, IMPORTED.number)
    assert (key_of(BOUND).kind, key_of(IMPORTED).kind) == (TAKE_SAVEPOINT, IMPORT_CHECKPOINT)
    assert key_of(replace(IMPORTED, state="deleting")).kind == REMOVE_SAVEPOINT


def test_removals_that_fail_for_ever_leave_room_for_the_others() -> None:
    """As many fail as may be under way at once. All others are assigned before those are tried once more."""
    most = POLICIES[REMOVE_SAVEPOINT].at_once or 0
    rows = {number: replace(DELETING, number=number) for number in range(1, 2 * most + 1)}
    tried = set()
    for _ in range(2):
        candidates = Candidates(PLACES, map(key_of, rows.values()))
        for row in in_turn(rows.values()):
            if isinstance(decide(row, candidates, Unanswered(), has_checkpoint=False), Assign):
                tried.add(row.number)
                rows[row.number] = replace(row, attempts=row.attempts + 1)
    assert tried == set(rows)


def test_what_a_container_is_asked() -> None:
    taken = request_of(BOUND, ["old"])
    assert isinstance(taken, SavepointRequest)
    assert (taken.number, taken.layout.generation, len(taken.layout.ranges), taken.earlier) == (5, 3, 2, ("old",))
    assert request_of(DELETING, ["old"]) == SavepointRemoval(job="j", name="nightly", number=5)
    no_config: Any = [1]
    for unreadable in (ASKED, replace(BOUND, config={"task_count": 1}), replace(BOUND, config=no_config)):
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
        assert isinstance(decision, StartRescale)
        assert (decision.restore, [change.field for change in decision.commit.difference.fields]) == (RESTORE, fields)


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
