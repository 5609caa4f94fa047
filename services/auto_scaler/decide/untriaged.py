"""Lag that more tasks would not cure (Turbine, ICDE 2020, section V-D): people are asked, and nothing is guessed.

- An increase that did not help is taken back once. Then nothing grows for a while.
- Lag after an update by a person: the job may grow once, and is watched.
- Tasks far slower than they can be, or a backlog that stays although the tasks are enough: something else is wrong.
"""

from __future__ import annotations

from datetime import timedelta

from services.auto_scaler.decide import estimates
from services.auto_scaler.decide.model import (
    TASK_COUNT,
    Action,
    Load,
    PastChange,
    ScalingDecision,
    Situation,
    Symptom,
    nothing,
    set_above,
    tasks_in_words,
    with_tasks,
)

_BETTER_LAG = 0.9


def last_change(case: Situation, action: Action) -> PastChange | None:
    """The newest change of the number of tasks, if it was such an action, is recent, and still says something."""
    change = _standing_change(case, action)
    return change if change is not None and _is_within(case, change, case.policy.untriaged_seconds) else None


def _standing_change(case: Situation, action: Action) -> PastChange | None:
    change, update = case.state.last_change, case.state.update
    if change is None or change.action is not action or change.tasks_after != case.tasks:
        return None
    return None if update is not None and update.at > change.at else change


def _is_within(case: Situation, change: PastChange, seconds: float) -> bool:
    return case.now < change.at + timedelta(seconds=seconds)


def why_stopped(case: Situation) -> str | None:
    """Why the job does not grow any more: growing did not help, and nothing has changed since."""
    undone, policy = _standing_change(case, Action.UNDO), case.policy
    if undone is None or not _is_within(case, undone, policy.stopped_seconds):
        return None
    if not _is_within(case, undone, policy.untriaged_seconds) and _is_faster(case, undone):
        return None
    if _gets_more(case, undone):
        return None
    return (
        f"{tasks_in_words(undone.tasks_before)} did not help, so the cause is something else; the job stays at "
        f"{tasks_in_words(undone.tasks_after)} until it is updated, its tasks get faster or far more comes in, or for "
        f"{policy.stopped_seconds / 3600:.0f} hours"
    )


def may_resume(case: Situation) -> bool:
    """Whether what comes in could let a job grow that has been stopped: then it must be looked at."""
    undone = _standing_change(case, Action.UNDO)
    return undone is not None and undone.input_rows_per_second is not None


def _gets_more(case: Situation, undone: PastChange) -> bool:
    """Whether clearly more comes in than at the undo: then that there were too few tasks is a cause again."""
    load, before = case.state.load, undone.input_rows_per_second
    return load is not None and before is not None and load.rows_per_second > case.policy.stopped_ratio * before


def _is_faster(case: Situation, undone: PastChange) -> bool:
    rate, before = case.symptoms.processed_rows_per_second, undone.processed_rows_per_second
    if rate is None or before is None:
        return True
    return rate >= (1 + case.policy.least_effect) * before


def has_helped(change: PastChange, case: Situation) -> bool | None:
    """Whether an increase made the tasks faster together, by enough of what their number promised, or the lag smaller.

    None when that is unknown.
    """
    lag, before, rate = case.symptoms.time_lagged_seconds, change.lag_seconds, case.symptoms.processed_rows_per_second
    if lag is not None and before is not None and lag <= _BETTER_LAG * before:
        return True
    if rate is None or not change.processed_rows_per_second:
        return None
    expected = change.processed_rows_per_second * (change.tasks_after / change.tasks_before - 1)
    return rate - change.processed_rows_per_second >= case.policy.least_effect * expected


def shown_too_few(case: Situation) -> PastChange | None:
    """The newest change, when it answered lag a short time ago: as few tasks as before it would lag again."""
    change = _answer_to_lag(case)
    return change if change is not None and _is_within(case, change, case.policy.too_few_seconds) else None


def _answer_to_lag(case: Situation) -> PastChange | None:
    change = _standing_change(case, Action.INCREASE_TASKS)
    least = case.policy.early_share * case.config.slo.max_lag_seconds
    return None if change is None or (change.lag_seconds or 0.0) <= least else change


def _to_judge(case: Situation) -> PastChange | None:
    """An increase that answered lag and has just had its time to show. Later lag may have another cause."""
    change = _answer_to_lag(case)
    if change is None:
        return None
    started_at = max(change.at, case.state.running_since)
    return change if case.now < started_at + timedelta(seconds=case.policy.effect_seconds) else None


def undo(case: Situation, lag: str) -> ScalingDecision | None:
    """Takes an increase back that did not help; None when there is no such increase."""
    change = _to_judge(case)
    if change is None or has_helped(change, case) is not False:
        return None
    before = f"{tasks_in_words(change.tasks_before)} got through {change.processed_rows_per_second:,.0f}"
    reason = (
        f"{lag}; {change.tasks_after} tasks get through {case.symptoms.processed_rows_per_second:,.0f} rows/s of work, "
        f"{before}: more tasks do not help"
    )
    if TASK_COUNT in case.state.pinned:
        return nothing(Symptom.LAG, reason, set_above(TASK_COUNT), untriaged=True)
    back = max(change.tasks_before, case.state.declared_task_count)
    if back >= case.tasks:
        return nothing(Symptom.LAG, reason, f"the job declares {tasks_in_words(case.tasks)}", untriaged=True)
    return with_tasks(Symptom.LAG, Action.UNDO, f"{reason}; back to {tasks_in_words(back)}", back, untriaged=True)


def why_watch(case: Situation) -> str | None:
    """Why a job that was updated lately does not grow again: it has grown once since."""
    update, change = case.state.update, case.state.last_change
    if update is None or case.now >= update.at + timedelta(seconds=case.policy.update_watch_seconds):
        return None
    if change is None or change.at < update.at or change.action is not Action.INCREASE_TASKS:
        return None
    return (
        f"{update.author or 'somebody'} updated the job at {update.at:%H:%M} UTC, and it has grown once since: it is "
        f"watched until {update.at + timedelta(seconds=case.policy.update_watch_seconds):%H:%M} UTC"
    )


def why_outage(case: Situation) -> str | None:
    """Why more tasks are no answer: a batch does not end, or all tasks are far slower than they can be."""
    if case.symptoms.lag_basis == "age":
        return "a batch has not finished for as long, though its rows take less: something does not answer the tasks"
    rate, present = case.state.rate, case.symptoms.processed_rows_per_second
    if rate is None or present is None or not estimates.is_outage(rate, present / case.tasks, case.policy):
        return None
    could = rate.best * case.tasks
    return f"the tasks get through {present:,.0f} rows/s and could do {could:,.0f}: something slows them down"


def though_enough(case: Situation, lag: str, load: Load) -> ScalingDecision:
    """The answer to lag when the tasks are enough by the estimate: they recover, or the cause is unknown."""
    enough = f"{lag}; by the estimate {tasks_in_words(case.tasks)} should be enough"
    growth = load.backlog_growth_per_second
    if growth is None:
        return nothing(Symptom.LAG, f"{enough}; whether what waits becomes less is not known yet")
    if growth < 0:
        return nothing(Symptom.LAG, f"{enough}, and what waits becomes less")
    return nothing(Symptom.LAG, f"{enough}, but what waits does not become less", untriaged=case.is_over_slo)
