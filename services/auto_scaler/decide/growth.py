"""More tasks: because of lag, before a known peak, or because a task cannot have more memory."""

from __future__ import annotations

import math

from penstock.config.model import JobConfig
from services.auto_scaler.decide import estimates, patterns, rebalance, untriaged
from services.auto_scaler.decide.bad_task import answer_bad_task, why_refused
from services.auto_scaler.decide.model import (
    TASK_COUNT,
    Action,
    Load,
    RateEstimate,
    ScalingDecision,
    Situation,
    Symptom,
    nothing,
    set_above,
    with_tasks,
)
from services.auto_scaler.decide.need import Need, demand_with_lag, need_with_lag

DEFAULT_LIMIT: int = JobConfig.model_fields["max_task_count"].default


def answer_lag(case: Situation) -> ScalingDecision:
    """The answer to lag beyond the SLO, of a job that may be changed now."""
    lag = describe_lag(case)
    moved = answer_bad_task(case, lag)
    if moved is not None:
        return moved
    refused = why_refused(case)
    lag = lag if refused is None else f"{lag}; {refused}"
    broken = untriaged.why_outage(case)
    if broken is not None:
        return nothing(Symptom.LAG, f"{lag}; {broken}", untriaged=case.is_over_slo)
    undone = untriaged.undo(case, lag)
    if undone is not None:
        return undone
    demand = demand_with_lag(case)
    need = None if demand is None else need_with_lag(case, demand)
    dealt = rebalance.answer_uneven(case, lag, demand, need)
    if dealt is not None:
        return dealt
    vain = rebalance.in_vain(case)
    lag = lag if vain is None else f"{lag}; {vain}"
    if need is not None and need.tasks <= case.tasks and case.state.load is not None:
        return untriaged.though_enough(case, lag, case.state.load)
    watched = untriaged.why_watch(case)
    if watched is not None:
        return nothing(Symptom.LAG, lag, watched)
    return increase_tasks(case, Symptom.LAG, lag, need)


def describe_lag(case: Situation) -> str:
    """The symptom in words."""
    lag, slo = case.symptoms.time_lagged_seconds or 0.0, case.config.slo.max_lag_seconds
    if case.is_over_slo:
        return f"lag of {lag:,.0f} s is over the SLO of {slo:,.0f} s"
    return f"lag of {lag:,.0f} s is over {case.policy.early_share:.0%} of the SLO of {slo:,.0f} s"


def increase_tasks(case: Situation, symptom: Symptom, cause: str, need: Need | None) -> ScalingDecision:
    """To the estimate, or by the growth factor without one; at least one step more than now, within the limits."""
    if TASK_COUNT in case.state.pinned:
        return nothing(symptom, cause, set_above(TASK_COUNT))
    limit, limit_name = _limit(case)
    step = estimates.next_larger(case.tasks, case.key_groups)
    wanted = math.ceil(case.tasks * case.policy.growth_factor) if need is None else need.tasks
    wanted = max(wanted, step or case.tasks + 1)
    target = estimates.fewest_alike(min(wanted, limit), case.key_groups)
    if step is None or target < step:
        return nothing(symptom, cause, _why_no_step(case, step, limit, limit_name))
    why = cause if need is None else f"{cause}; {need.because}"
    limits = () if wanted <= limit else (f"{wanted} tasks are needed, and it may have {target} {limit_name}",)
    return with_tasks(symptom, Action.INCREASE_TASKS, f"{why}; from {case.tasks} to {target} tasks", target, *limits)


def _why_no_step(case: Situation, step: int | None, limit: int, limit_name: str) -> str:
    if step is None:
        return f"each of its {case.key_groups} key groups has a task of its own already"
    return f"it would take {step} tasks to carry more, and it may have {limit} {limit_name}"


def _limit(case: Situation) -> tuple[int, str]:
    """The most tasks that the job may have, and what says so."""
    most = case.config.max_task_count
    if case.key_groups <= most:
        return case.key_groups, f"by its {case.key_groups} key groups"
    if most == DEFAULT_LIMIT:
        return most, f"by the limit of {DEFAULT_LIMIT} tasks a job, which max_task_count can raise"
    return most, f"by its max_task_count of {most}"


def can_grow(case: Situation) -> bool:
    """Whether the job may have more tasks than now."""
    return TASK_COUNT not in case.state.pinned and case.tasks < _limit(case)[0]


def before_peak(case: Situation, rate: RateEstimate, load: Load) -> ScalingDecision | None:
    """More tasks before a peak that past days had in the next minutes; None when there is none, or it is not sure.

    The margin is for what the job gets, not for whether it gets more. It gets at once what the hours need that a
    reduction must last through: what is added for the last of them could not be taken back before. So a job grows once
    for many small rises. What is uneven beyond the threshold is one key, which more tasks would not split.
    """
    found, policy = case.state.workload, case.policy
    if not policy.prescale or found is None or not rate.is_sure or not can_grow(case):
        return None
    soon = patterns.usual_soon(found)
    if soon is None or len(found.days) < policy.least_days or patterns.is_unusual(found, policy):
        return None
    sure = estimates.rate_without_lag(rate, load, case.tasks)
    uneven = min(estimates.skew(load, case.tasks), 1 + policy.imbalance_threshold)
    if estimates.tasks_needed(soon * uneven, sure, case.key_groups) <= case.tasks:
        return None
    ahead = max(soon, patterns.usual_ahead(found) or soon)
    needed = estimates.tasks_needed(ahead * uneven * (1 + policy.headroom), sure, case.key_groups)
    days = len(patterns.compared_days(found))
    cause = (
        f"in the next {policy.soon_minutes} minutes {soon:,.0f} rows/s came in on {days} past days, and "
        f"{ahead:,.0f} in the next hours"
    )
    grown = increase_tasks(case, Symptom.NONE, cause, Need(needed, f"planned with {sure:,.0f} rows/s for each task"))
    return grown if grown.change is not None else None
