"""After the stop of a rescale a container is silent that may still have tasks of the job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.model.health import Moment
from penstock.tasks.shards import Sharding
from services.state_syncer.decide.decisions import End, Poll, Record
from services.state_syncer.decide.observe import (
    Assignment,
    JobsTasks,
    ListedTask,
    Presence,
    Sighting,
    Silent,
    observe_stopped,
    silent_ones,
    survey,
)
from services.state_syncer.decide.progress import Restore, Step
from tests.unit.state_syncer.test_rescale import LATER, NEW, NOW, OLD, RUNNING, SAVEPOINT, after, plan, view

SILENT = (Silent("a", 13.0), Silent("b", 14.0))
RESTORE = Restore(number=1, savepoint=SAVEPOINT, generation=1, config=OLD)
STOPPED = {"desired_state": "stopped"}
AWAY_SINCE = LATER - timedelta(seconds=20)


@pytest.mark.parametrize("presence", [Presence.UNKNOWN, Presence.PRESENT])
def test_the_old_tasks_go_on_rather_than_wait_for_a_fail_over(presence: Presence) -> None:
    """The rescale is tried again later."""
    decision = after(view(Step.AWAIT_STOPPED, presence=presence, silent=SILENT), LATER)
    assert isinstance(decision, End)
    assert (decision.commit.config, decision.commit.generation) == (OLD, RUNNING.generation)
    assert (decision.commit.stopping, decision.commit.quiescing) == (False, False)
    assert decision.failure is not None
    assert decision.failure.detail == (
        "step await_stopped: it is unknown whether tasks are there:"
        " a has not reported for 13 s; b has not reported for 14 s"
    )


def test_tasks_that_are_gone_are_gone_whoever_is_silent() -> None:
    decision = after(view(Step.AWAIT_STOPPED, presence=Presence.ABSENT, silent=SILENT), LATER)
    assert isinstance(decision, Record)
    assert decision.plan.step is Step.REDISTRIBUTE


def test_nobody_is_known_to_be_dead_while_no_reports_are_taken() -> None:
    """The store was away for 20 s. The containers are waited for as long as the step may take."""
    seen = [Sighting(name, "life", True, "life", 5, AWAY_SINCE, AWAY_SINCE) for name in "ab"]
    owners = Assignment(dict.fromkeys(range(4), "a"), Sharding(4))
    cluster = survey(seen, owners, Moment(LATER, AWAY_SINCE))
    tasks, held = JobsTasks("j", 2, None), [ListedTask("a", 0), ListedTask("b", 1)]
    found = {"presence": observe_stopped(cluster, held, 9, tasks), "silent": silent_ones(cluster, held, 9, tasks)}
    job = view(Step.AWAIT_STOPPED, **found)
    for seconds in (10, 299):
        assert after(job, NOW + timedelta(seconds=seconds)) == Poll(plan(Step.AWAIT_STOPPED))
    late = after(job, NOW + timedelta(seconds=300))
    assert isinstance(late, End)
    assert late.failure is not None
    assert "it takes too long" in late.failure.detail


@pytest.mark.parametrize(
    ("recorded", "fields"),
    [
        pytest.param({"restore": RESTORE}, {"restore": RESTORE}, id="the job is to go back to a savepoint"),
        pytest.param({}, {"running": replace(RUNNING, config=OLD | STOPPED)}, id="no task ran"),
        pytest.param({"config": NEW | STOPPED}, {"expected": NEW | STOPPED}, id="none is to run"),
    ],
)
def test_a_job_that_is_to_be_stopped_anyway_waits(recorded: dict[str, Any], fields: dict[str, Any]) -> None:
    waiting = plan(Step.AWAIT_STOPPED, **recorded)
    job = view(Step.AWAIT_STOPPED, plan=waiting, silent=SILENT, **fields)
    assert after(job, LATER) == Poll(waiting)
