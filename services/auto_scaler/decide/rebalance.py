"""Other ranges of key groups for the tasks, where uneven input is the cause of lag: "rebalance input traffic amongst
tasks" (Turbine, ICDE 2020, section V, Algorithm 2).

Uneven is what comes in, by key group where that is measured, or what waits. The ranges are those of
`penstock rebalance`. Without measured key groups there are none to propose, and the job grows instead.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from penstock.tasks import balance
from penstock.tasks.spec import key_group_ranges
from services.auto_scaler.decide import estimates
from services.auto_scaler.decide.model import (
    BOUNDS,
    TASK_COUNT,
    Action,
    PastRebalance,
    ScalingDecision,
    Situation,
    Symptom,
)
from services.auto_scaler.decide.need import Demand, Need, would_do

BETTER_LAG = 0.9


class Dealt(NamedTuple):
    """Ranges for so many tasks, with the part of all input that comes to the busiest one, now and then."""

    bounds: tuple[int, ...]
    share_now: float
    share_then: float
    gain: float


def answer_uneven(case: Situation, lag: str, demand: Demand | None, need: Need | None) -> ScalingDecision | None:
    """The answer to lag because the input is dealt unevenly; None when that is not the cause, or dealing is no cure."""
    found = proposed(case)
    if found is None or in_vain(case) is not None:
        return None
    does = demand is not None and would_do(case, demand, found.share_then)
    if demand is not None and not does:
        return None
    is_cure = need is not None and need.tasks > case.tasks
    uneven = _why_uneven(case, found, is_enough=need is not None and not is_cure)
    if uneven is None and not is_cure:
        return None
    why = uneven or f"{case.tasks} tasks are enough if the input is dealt evenly"
    reason = (
        f"{lag}; {why}; other ranges of key groups take {found.gain:.0%} from the busiest task, which then has "
        f"{case.tasks * found.share_then:.2f} times the mean"
    )
    change = {BOUNDS: list(found.bounds)}
    return ScalingDecision(symptom=Symptom.LAG, action=Action.REBALANCE, reason=reason, change=change)


def proposed(case: Situation) -> Dealt | None:
    """The ranges that share the measured input evenly; None when they are no better, not known or not the scaler's."""
    rates = case.state.traffic
    if rates is None or len(rates) != case.key_groups or not 1 < case.tasks < case.key_groups:
        return None
    if {TASK_COUNT, BOUNDS} & case.state.pinned:
        return None
    found = balance.proposal(rates, case.tasks, key_group_ranges(case.config))
    if found is None or found.gain <= 0 or found.gain < case.policy.least_gain:
        return None
    share_now, share_then = (load.imbalance / case.tasks for load in (found.before, found.after))
    return Dealt(found.bounds, share_now, share_then, found.gain)


def in_vain(case: Situation) -> str | None:
    """Why the input is not dealt once more: it was lately, and the job lags; or it was within the day, and the lag is
    no less than then."""
    last, policy = _standing(case), case.policy
    if last is None or case.now >= last.at + timedelta(seconds=policy.stopped_seconds):
        return None
    lag, before = case.symptoms.time_lagged_seconds, last.lag_seconds
    is_less = lag is not None and before is not None and lag <= BETTER_LAG * before
    if is_less and case.now >= last.at + timedelta(seconds=policy.untriaged_seconds):
        return None
    return f"the key groups were dealt anew at {last.at:%H:%M} UTC, and that was not enough"


def _standing(case: Situation) -> PastRebalance | None:
    """The newest rebalance, while it says something of the job as it is."""
    last, update = case.state.last_rebalance, case.state.update
    if last is None or last.tasks != case.tasks:
        return None
    return None if update is not None and update.at > last.at else last


def _why_uneven(case: Situation, found: Dealt, *, is_enough: bool) -> str | None:
    """What is uneven, by the most direct measurement that shows it: input, then processing rates, then backlog."""
    symptoms, policy = case.symptoms, case.policy
    times = case.tasks * found.share_now
    if times > 1 + policy.imbalance_threshold:
        return f"the busiest of {case.tasks} tasks gets {times:.2f} times the mean input, by its key groups"
    skew = 1.0 if case.state.load is None else estimates.skew(case.state.load, case.tasks)
    if skew > 1 + policy.imbalance_threshold:
        return f"the busiest of {case.tasks} tasks gets {skew:.2f} times the mean input"
    if symptoms.imbalance is not None and symptoms.imbalance > policy.imbalance_threshold:
        return f"the tasks' rates deviate by {symptoms.imbalance:.0%} of their mean"
    share = symptoms.largest_backlog_share
    if is_enough and share is not None and share >= policy.hot_task_share:
        return f"{share:.0%} of what waits is for one of {case.tasks} tasks, which are enough together"
    return None
