"""Another policy over what is recorded of a job. Pure.

What was measured is counted as it is. What another policy would have led to was never measured: it is told by a model
(`model.py`). So the model also runs what really ran, and the policy in force: how far the first is from what was
measured is the error of the model, and two policies are compared on the model alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import NamedTuple

from penstock.tasks.spec import key_group_count
from services.auto_scaler.decide.model import TASK_COUNT, Action, Fleet
from services.auto_scaler.decide.policy import Mode, Policy
from services.auto_scaler.replay.model import ModelJob, ModelMinute
from services.auto_scaler.replay.recorded import USUAL_COST, Known, RecordedJob, RecordedMinute, read_inputs
from services.auto_scaler.replay.rounds import JobRounds, SeenMinute

_TASK_ACTIONS = (Action.INCREASE_TASKS.value, Action.DECREASE_TASKS.value, Action.UNDO.value)
_WRITTEN = "written"
GoOn = Callable[[], None]
"""Called before each step of a run, which ends where it raises."""


def _always() -> None:
    pass


class Totals(NamedTuple):
    """Of the minutes that are known: those in which the worst task was beyond the SLO, hours of tasks, and changes of
    the number of tasks by the Auto Scaler."""

    slo_minutes_missed: int = 0
    task_hours: float = 0.0
    actions: int = 0


class Compared(NamedTuple):
    """How many of the stored decisions another policy decides otherwise on the same inputs.

    `understood`: those whose inputs this release can read.
    """

    understood: int
    otherwise: int


def measured(recorded: RecordedJob) -> Totals:
    """What happened. A minute of which the lag is unknown counts as kept."""
    missed, task_minutes, tasks = 0, 0, first_tasks(recorded)
    for minute in recorded.minutes:
        tasks = minute.tasks or tasks
        if _is_known(minute):
            slo = recorded.known_at(minute.at).config.slo.max_lag_seconds
            missed += minute.lag_seconds is not None and minute.lag_seconds > slo
            task_minutes += tasks
    done = [one for one in recorded.decisions if one.outcome == _WRITTEN and one.action in _TASK_ACTIONS]
    return Totals(missed, task_minutes / 60, len(done))


def model_of_what_ran(recorded: RecordedJob, go_on: GoOn = _always) -> Totals:
    """The model with the numbers of tasks that really ran."""

    def as_it_ran(minute: RecordedMinute, passed: ModelMinute, started_at: datetime, is_changing: bool) -> None:
        return None

    return _run(recorded, as_it_ran, go_on, as_recorded=True)


def model_of(recorded: RecordedJob, policy: Policy, go_on: GoOn = _always) -> Totals:
    """The model under a policy, from the number of tasks that ran at first."""
    rounds = JobRounds(recorded.job, policy)
    for past in recorded.before:
        go_on()
        rounds.remember(past)

    def decide(minute: RecordedMinute, passed: ModelMinute, started_at: datetime, is_changing: bool) -> int | None:
        known = recorded.known_at(minute.at)
        config = known.config.model_copy(update={TASK_COUNT: passed.tasks})
        state = known.state.model_copy(update={"converged": not is_changing, "fleet": _fleet(known)})
        found = rounds.decide(_seen(known, minute, passed, started_at), config, state)
        if found is None or found.change is None or policy.mode is not Mode.ACT:
            return None
        wanted = found.change.get(TASK_COUNT)
        return None if wanted is None else int(wanted)

    return _run(recorded, decide, go_on, as_recorded=False)


def compare_decisions(recorded: RecordedJob, policy: Policy, go_on: GoOn = _always) -> Compared:
    """The stored decisions once more, on their own inputs: exact, without a model."""
    understood = otherwise = 0
    for one in recorded.decisions:
        go_on()
        inputs = read_inputs(one)
        if inputs is None:
            continue
        new = inputs.model_copy(update={"policy": policy}).decide()
        understood += 1
        otherwise += (new.action.value, new.change) != (one.action, one.change)
    return Compared(understood, otherwise)


def known_minutes(recorded: RecordedJob) -> int:
    """Minutes that count: of which it is known what came in, and what a task gets through."""
    return sum(_is_known(minute) for minute in recorded.minutes)


def first_tasks(recorded: RecordedJob) -> int:
    """The number of tasks at the beginning."""
    ran = next((minute.tasks for minute in recorded.minutes if minute.tasks), None)
    return ran or recorded.known[0].config.task_count


_Decide = Callable[[RecordedMinute, ModelMinute, datetime, bool], int | None]


def _run(recorded: RecordedJob, decide: _Decide, go_on: GoOn, *, as_recorded: bool) -> Totals:
    """The model over all minutes that are known. `as_recorded`: with the tasks that ran."""
    if not recorded.minutes:
        return Totals()
    minutes = recorded.minutes
    key_groups = key_group_count(recorded.known_at(minutes[0].at).config)
    cost, tasks = recorded.cost or USUAL_COST, first_tasks(recorded)
    job = ModelJob(tasks, key_groups, recorded.skew, cost, minutes[0].backlog or 0.0)
    started_at, missed, task_minutes, actions = minutes[0].at, 0, 0, 0
    for minute in minutes:
        go_on()
        if job.has_changed():
            started_at = minute.at
        if minute.arrived is None or minute.rate_per_task is None:
            continue
        passed = job.step(minute.arrived, minute.rate_per_task)
        known = recorded.known_at(minute.at)
        missed += passed.lag_seconds > known.config.slo.max_lag_seconds
        task_minutes += passed.tasks
        by_people = _set_by_people(known, minute, passed, as_recorded=as_recorded)
        wanted = decide(minute, passed, started_at, job.is_changing)
        if job.is_changing:
            continue
        if by_people is not None and by_people != passed.tasks:
            job.order(by_people)
        elif wanted is not None and wanted != passed.tasks:
            actions += 1
            job.order(wanted)
    return Totals(missed, task_minutes / 60, actions)


def _set_by_people(known: Known, minute: RecordedMinute, passed: ModelMinute, *, as_recorded: bool) -> int | None:
    """The tasks that a higher layer set, or that the layers below the scaler's ask for at least; None: neither."""
    if as_recorded or TASK_COUNT in known.state.pinned:
        return minute.tasks
    return known.state.declared_task_count if passed.tasks < known.state.declared_task_count else None


def _fleet(known: Known) -> Fleet | None:
    """Jobs that lagged at once did so then. How many were changed in that one round says nothing of later ones."""
    return None if known.state.fleet is None else known.state.fleet.model_copy(update={"actions": 0})


def _is_known(minute: RecordedMinute) -> bool:
    return minute.arrived is not None and minute.rate_per_task is not None


def _seen(known: Known, minute: RecordedMinute, passed: ModelMinute, started_at: datetime) -> SeenMinute:
    return SeenMinute(
        at=minute.at,
        started_at=started_at,
        tasks=passed.tasks,
        memory_bytes=known.config.resources.memory_bytes,
        read=passed.read,
        backlog=passed.backlog,
        is_measured=minute.at > started_at,
        lags=passed.lag_seconds > known.config.slo.max_lag_seconds,
        out_of_memory=False,
        memory_used=known.state.memory_used_bytes,
        busiest=passed.busiest(minute.at),
        by_task=partial(passed.of_tasks, minute.at),
    )
