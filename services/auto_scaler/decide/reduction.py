"""Less of what the scaler has added: never below what the layers under it declare, nor below the estimate.

Two ways lead to fewer tasks. With an estimate and some past days that the smaller job would have carried, an hour
without lag is enough. Without them it takes a day, and the steps are smaller. Memory follows after a day: more tasks
need less of it each.
"""

from __future__ import annotations

import math

from services.auto_scaler.decide import estimates, guards, patterns, shares, state_size, untriaged
from services.auto_scaler.decide.model import (
    MEMORY,
    TASK_COUNT,
    Action,
    DayHistory,
    ScalerState,
    ScalingDecision,
    Situation,
    Symptom,
    Workload,
    nothing,
    tasks_in_words,
    with_tasks,
)
from services.auto_scaler.decide.policy import Policy

_HEALTHY = Symptom.NONE


def can_shrink(case: Situation) -> bool:
    """Whether the scaler has added something that it could give back."""
    return _can_lose_tasks(case) or _can_lose_memory(case)


def _can_lose_tasks(case: Situation) -> bool:
    return case.tasks > case.state.declared_task_count and TASK_COUNT not in case.state.pinned


def _can_lose_memory(case: Situation) -> bool:
    memory = case.config.resources.memory_bytes
    return memory > case.state.declared_memory_bytes and MEMORY not in case.state.pinned


def try_decrease(case: Situation) -> ScalingDecision:
    """The answer to health."""
    if not can_shrink(case):
        return nothing(_HEALTHY, "healthy, and nothing to give back")
    held = guards.why_no_reduction(case)
    if held is not None:
        return nothing(_HEALTHY, "healthy", held)
    fewer = _fewer_tasks(case) if _can_lose_tasks(case) else nothing(_HEALTHY, "healthy")
    if fewer.change is not None or not (_can_lose_memory(case) and _was_quiet(case.state.day, case.policy)):
        return fewer
    return _less_memory(case, fewer)


def _fewer_tasks(case: Situation) -> ScalingDecision:
    unsafe = _why_not_safe(case)
    if unsafe is not None:
        return nothing(_HEALTHY, "healthy", unsafe)
    policy, state = case.policy, case.state
    is_gone = _was_for_backlog(case)
    is_known = is_gone or _is_proven(state, policy)
    if not (_was_quiet_lately(state.day, policy) if is_known else _was_quiet(state.day, policy)):
        asked = _in_words(policy.known_quiet_minutes if is_known else policy.quiet_minutes)
        return nothing(_HEALTHY, "healthy", f"it is not known to have been without lag for {asked}")
    factor = 0.0 if is_gone else policy.known_shrink_factor if is_known else policy.shrink_factor
    step = max(state.declared_task_count, math.floor(case.tasks * factor))
    needed, too_few = _needed(case), _shown_too_few(case)
    target = _rounded(case, max(step, needed, too_few + 1))
    if target <= too_few:
        target = estimates.next_larger(too_few, case.key_groups) or case.tasks
    if target >= case.tasks:
        return nothing(_HEALTHY, "healthy", _why_none_less(case, needed, too_few))
    if not _is_worth_it(case, target):
        return nothing(_HEALTHY, "healthy", f"{tasks_in_words(target)} instead of {case.tasks}: not worth a restart")
    limits = [_why_none_less(case, needed, too_few)] if max(needed, too_few + 1) >= step else []
    if target == state.declared_task_count:
        limits.append(f"the layers below declare {tasks_in_words(target)}")
    reason = f"{_why_fewer(case, needed)}; from {case.tasks} to {tasks_in_words(target)}"
    return with_tasks(_HEALTHY, Action.DECREASE_TASKS, reason, target, *limits)


def _was_for_backlog(case: Situation) -> bool:
    """Whether tasks were added within the last day to work off what waited alone: those before carried what came in.

    That what waited is gone shows without past days, and its tasks go at once.
    """
    change, rate, policy = untriaged.shown_too_few(case), case.state.rate, case.policy
    if change is None or change.input_rows_per_second is None or rate is None or not rate.is_sure:
        return False
    work = change.input_rows_per_second * (1 + policy.headroom)
    return estimates.tasks_needed(work, rate.careful, case.key_groups) <= change.tasks_before


def _shown_too_few(case: Situation) -> int:
    change = untriaged.shown_too_few(case)
    return 0 if change is None else change.tasks_before


def _why_none_less(case: Situation, needed: int, too_few: int) -> str:
    if too_few >= needed:
        return f"{tasks_in_words(too_few)} lagged in the last {case.policy.too_few_seconds / 3600:,.3g} hours"
    for_shares, use = shares.needed_for_shares(case)
    if use is not None and for_shares >= needed:
        return f"it needs {tasks_in_words(needed)}: fewer would take more of {use.dimension} than a task should"
    return f"it needs {tasks_in_words(needed)}, by what comes in and what past days had"


def _is_worth_it(case: Situation, target: int) -> bool:
    saved = case.tasks - target
    return saved >= case.policy.least_reduction * case.tasks or target == case.state.declared_task_count


def _is_proven(state: ScalerState, policy: Policy) -> bool:
    """Whether an estimate and enough past days say what the job needs."""
    found = state.workload
    return state.rate is not None and state.load is not None and found is not None and (
        len(found.days) >= policy.least_days
    )  # fmt: skip


def _why_not_safe(case: Situation) -> str | None:
    """What speaks against any reduction: an unlike day, a known peak but no estimate, or one plainly too small."""
    state, policy = case.state, case.policy
    if state.workload is not None and patterns.is_unusual(state.workload, policy):
        return _why_unlike(state.workload)
    if state.rate is None or state.load is None:
        ahead = patterns.worst_ahead(state.workload, policy) if state.workload is not None else None
        return f"what a task can do is not known, and on past days up to {ahead:,.0f} rows/s came in" if ahead else None
    corrected = estimates.rate_without_lag(state.rate, state.load, case.tasks)
    if corrected <= state.rate.careful:
        return None
    return (
        f"a task was thought to do {state.rate.careful:,.0f} rows/s but does "
        f"{corrected:,.0f} without lag: the estimate is corrected first"
    )


def _why_unlike(found: Workload) -> str:
    if found.recent is None:
        return "what came in lately is not known, so past days say nothing about what comes"
    return (
        f"{found.recent:,.0f} rows/s came in lately, unlike the {patterns.usual_now(found) or 0:,.0f} of past days, so "
        "these say nothing about what comes"
    )


def _needed(case: Situation) -> int:
    """The fewest tasks that carry what comes in, and what came in on past days in the next hours, whose memory is
    enough for the state, and that take no more of a container's disk and network than they should; 1 when unknown."""
    state, policy = case.state, case.policy
    for_state = max(_needed_for_memory(case), shares.needed_for_shares(case)[0])
    if state.rate is None or state.load is None:
        return for_state
    ahead = patterns.worst_ahead(state.workload, policy) if state.workload is not None else None
    work = max(state.load.rows_per_second, ahead or 0.0) * estimates.skew(state.load, case.tasks)
    work *= 1 + policy.headroom
    return max(for_state, estimates.tasks_needed(work, state.rate.careful, case.key_groups))


def _rounded(case: Situation, tasks: int) -> int:
    alike = estimates.fewest_alike(min(tasks, case.key_groups), case.key_groups)
    return max(case.state.declared_task_count, alike)


def _why_fewer(case: Situation, needed: int) -> str:
    state, policy = case.state, case.policy
    if state.rate is None or state.load is None:
        return f"quiet for {_in_words(policy.quiet_minutes)}"
    ahead = patterns.worst_ahead(state.workload, policy) if state.workload is not None else None
    past = "" if ahead is None else f", on past days up to {ahead:,.0f} in the next hours"
    return (
        f"quiet; {state.load.rows_per_second:,.0f} rows/s come in{past}; planned with "
        f"{state.rate.careful:,.0f} for each task, {needed} are enough"
    )


def _needed_for_memory(case: Situation) -> int:
    used, size, memory = case.state.memory_used_bytes, case.state.state_size, case.config.resources.memory_bytes
    if used is None:
        return 1
    if size is None:
        return estimates.tasks_for_memory(used, case.tasks, memory, case.policy)
    return state_size.tasks_for_state(used, size, case.tasks, memory, case.policy)


def _less_memory(case: Situation, otherwise: ScalingDecision) -> ScalingDecision:
    now_bytes, used = case.config.resources.memory_bytes, case.state.memory_used_bytes
    if used is None:
        return _with_limit(otherwise, "what a task uses is not known, so its memory stays")
    expected = _expected_use(case, used)
    needed = estimates.memory_needed(expected, case.policy)
    step = max(case.state.declared_memory_bytes, int(now_bytes * case.policy.shrink_factor))
    wanted = max(step, needed)
    if wanted >= now_bytes:
        ahead = "" if expected == used else f", and would use {expected} with what past days had in the next hours"
        return _with_limit(otherwise, f"a task uses {used} bytes{ahead}, so it needs {needed}")
    return ScalingDecision(
        symptom=_HEALTHY,
        action=Action.DECREASE_MEMORY,
        reason=f"quiet for {_in_words(case.policy.quiet_minutes)}; from {now_bytes} to {wanted} bytes",
        change={"resources": {"memory_bytes": wanted}},
        limits=otherwise.limits,
    )


def _expected_use(case: Situation, used: int) -> int:
    """Bytes of the largest task when as much comes in as past days had in the next hours, where its state tells it."""
    size, load, found = case.state.state_size, case.state.load, case.state.workload
    ahead = patterns.worst_ahead(found, case.policy) if found is not None else None
    if size is None or load is None or ahead is None:
        return used
    uneven = estimates.skew(load, case.tasks)
    return state_size.bytes_with_input(used, size, uneven * (ahead - load.rows_per_second) / case.tasks)


def _with_limit(decision: ScalingDecision, limit: str) -> ScalingDecision:
    return decision.model_copy(update={"limits": (*decision.limits, limit)})


def _in_words(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    amount, unit = (minutes, "minute") if rest or not hours else (hours, "hour")
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"


def _was_quiet(day: DayHistory | None, policy: Policy) -> bool:
    if day is None or day.minutes_measured < policy.least_coverage * policy.quiet_minutes:
        return False
    return day.minutes_lagging == 0 and day.minutes_out_of_memory == 0


def _was_quiet_lately(day: DayHistory | None, policy: Policy) -> bool:
    return day is not None and (day.minutes_quiet or 0) >= policy.known_quiet_minutes
