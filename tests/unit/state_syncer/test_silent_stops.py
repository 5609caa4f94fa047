"""After the stop of a rescale a container is silent that may still have tasks of the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.state_syncer.decide.decisions import End, Poll, Record
from services.state_syncer.decide.observe import Presence, Silent
from services.state_syncer.decide.progress import Restore, Step
from tests.unit.state_syncer.test_rescale import LATER, NEW, OLD, RUNNING, SAVEPOINT, after, plan, view

SILENT = (Silent("a", 13.0), Silent("b", 14.0))
RESTORE = Restore(number=1, savepoint=SAVEPOINT, generation=1, config=OLD)
STOPPED = {"desired_state": "stopped"}


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
