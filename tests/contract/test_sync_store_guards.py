"""The contract of `SyncStore.write`: of what somebody else changed since a round was decided nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.jobs import JobState
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.progress import Plan, Step
from services.state_syncer.store.port import Batch
from tests.contract.sync_store_forms import FORMS, commit, make_form, state, view
from tests.support.store.jobs import make_config, make_layer


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return make_form(request)


@pytest.mark.parametrize("is_newer", [False, True])
def test_a_job_that_was_written_to_is_not_started(form: Any, *, is_newer: bool) -> None:
    """Others of the same round are."""
    revisions = {job: form.layer(job, "base", make_layer()) for job in ("j", "k")}
    if is_newer:
        form.layer("j", "oncall", {"priority": 3})
    batch = Batch(
        commits=[commit(job, revision=revision) for job, revision in revisions.items()],
        states=[state(JobState.SYNCED, job=job, revision=revision) for job, revision in revisions.items()],
        starts=dict(revisions),
    )
    assert form.store.write(batch, form.epoch) is not None
    assert batch.left_out == (frozenset("j") if is_newer else frozenset())
    with form.store.read() as found:
        seen = {each.job: each for each in found.named(["j", "k"])}
    assert (seen["j"].running is None, seen["j"].sync is None) == (is_newer, is_newer)
    assert seen["k"].running is not None


@pytest.mark.parametrize("number", [1, 2, None])
def test_the_old_generation_is_not_given_up_for_a_restore_that_was_cancelled(form: Any, number: int | None) -> None:
    revision = form.layer("j", "base", make_layer())
    form.store.write(Batch(commits=[commit()], states=[state(JobState.RESCALING)]), form.epoch)
    form.restore("j", make_config())
    if number is None:
        form.cancel_restore("j")
    times = {"begun_at": "2026-01-01T00:00:00Z", "step_at": "2026-01-01T00:00:00Z"}
    plan = Plan(step=Step.SEAL, revision=revision, restarts=0, config=make_config(), fields=(), **times)
    batch = Batch(plans=[PlanWrite("j", plan)], seals={"j": number or 1})
    form.store.write(batch, form.epoch)
    assert (batch.left_out, view(form).progress is None) == (
        (frozenset(), False) if number == 1 else (frozenset("j"), True)
    )
