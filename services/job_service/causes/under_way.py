"""Causes that a change is while it is carried out: tasks that take no new rows, or are stopped. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.causes import CauseKind, Certainty
from penstock.model.jobs import Action
from penstock.model.states import Health
from services.job_service.causes.facts import Cause, Facts, UnderWay
from services.job_service.causes.writes import changed_by, write_in_words

_HOLDS = {
    "quiesce": "the tasks take no new rows until then",
    "level": "tasks that are behind read on to the others, which take no new rows until then",
}
"""By the recorded step in which tasks run and are held."""


def causes_of_present_changes(facts: Facts) -> Iterator[Cause]:
    """A change for which tasks are stopped now, or take no new rows."""
    plan = facts.under_way
    if facts.job.stopping and facts.has(Health.STARTING):
        told = (facts.job.detail or f"the job is {facts.job.state}",)
        summary = "its tasks are stopped while a change is carried out"
        yield Cause(CauseKind.RECENT_CHANGE, Certainty.LIKELY, summary, told, "wait: `penstock watch JOB`")
    elif plan is not None and plan.step in _HOLDS:
        yield _held(facts, plan)


def _held(facts: Facts, plan: UnderWay) -> Cause:
    step, waits = _step_and_wait(plan)
    seconds = max(0.0, (facts.moment.now - plan.step_at).total_seconds())
    what = "restore" if plan.is_restore else "rescale"
    summary = f"a {what} holds its tasks: step {step} for {seconds:,.0f} s"
    told = (f"it waits: {waits}; {_HOLDS[step]}" if waits else _HOLDS[step], *_asked_by(facts, plan))
    advice = "wait: `penstock sync JOB` says what it waits for, `penstock watch JOB` shows each stage"
    # A task that crashes is nearer, and may be what the step waits for.
    certainty = Certainty.LIKELY if facts.has(Health.CRASHING) else Certainty.CERTAIN
    return Cause(CauseKind.RECENT_CHANGE, certainty, summary, told, advice)


def _step_and_wait(plan: UnderWay) -> tuple[str, str]:
    """The step and what it waits for. `level` is recorded as `quiesce`; the detail names it."""
    named, _, waits = plan.detail.partition(": ")
    return (named, waits) if named in _HOLDS else (plan.step, "")


def _asked_by(facts: Facts, plan: UnderWay) -> Iterator[str]:
    """The newest write that the plan carries out and that changed what needs the plan."""
    for entry in facts.changes:
        if entry.revision > plan.revision:
            continue
        changed = [each for each in changed_by(facts, entry) if each.field in plan.fields]
        if changed or (plan.is_restore and entry.action == Action.RESTORE):
            yield f"asked for by: {write_in_words(entry, changed)}"
            return
