"""A decision in sentences, for whoever is on call: symptom, what was measured and looked at, estimate, limits, answer.

They are stored with the decision, so that `penstock decisions JOB --why` says what was known then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.tasks import balance
from penstock.tasks.spec import key_group_ranges
from services.auto_scaler.decide import patterns
from services.auto_scaler.decide.decision import REASON, WHY, DecisionInputs
from services.auto_scaler.decide.model import (
    Action,
    Load,
    RateEstimate,
    ScalingDecision,
    StateSize,
    Symptom,
    Use,
    Workload,
    tasks_in_words,
)

_ANSWERS = {
    Action.NONE: "Nothing is done",
    Action.REBALANCE: "The tasks get other ranges of key groups",
    Action.MOVE_TASK: "A task moves to another container",
    Action.INCREASE_TASKS: "The job gets more tasks",
    Action.INCREASE_MEMORY: "The tasks get more memory",
    Action.DECREASE_TASKS: "The job gets fewer tasks",
    Action.DECREASE_MEMORY: "The tasks get less memory",
    Action.UNDO: "The last increase is taken back",
}


def sentences(inputs: DecisionInputs, decision: ScalingDecision) -> list[str]:
    """The decision, a sentence each."""
    state = inputs.state
    found = [
        _symptom(inputs, decision),
        _load(state.load),
        _rate(state.rate),
        *_state(state.state_size),
        *(_use(use) for use in state.uses),
        *_traffic(inputs),
        _past(state.workload, inputs),
        *_events(inputs),
        f"{_answer(decision)}{decision.reason}.",
        *(f"Limit: {limit}." for limit in decision.limits),
    ]
    if decision.untriaged:
        found.append("The cause is unknown, so there is an alert, and people must look.")
    return found


def _answer(decision: ScalingDecision) -> str:
    """A lag is no reason to do nothing: the limits are, and they follow."""
    if decision.action is Action.NONE and decision.symptom is Symptom.LAG and decision.limits:
        return "Nothing is done, although there is a symptom: "
    return f"{_ANSWERS[decision.action]}: "


def _symptom(inputs: DecisionInputs, decision: ScalingDecision) -> str:
    found, slo = inputs.symptoms, inputs.config.slo.max_lag_seconds
    tasks = tasks_in_words(inputs.config.task_count)
    if decision.symptom is Symptom.OUT_OF_MEMORY:
        return (
            f"Symptom: out of memory. In the last minutes a task ended because it lacked memory; the job has {tasks}."
        )
    if found.time_lagged_seconds is None:
        return f"Symptom: unknown. The job has {tasks}; measured: {found.tasks_measured}."
    if found.lag_basis == "age":
        return f"Symptom: a batch has not finished for {found.time_lagged_seconds:,.0f} s; the SLO is {slo:,.0f} s."
    word = "lag" if decision.symptom is Symptom.LAG else "none"
    behind = f"The job has {tasks} and is {found.time_lagged_seconds:,.0f} s behind"
    return f"Symptom: {word}. {behind}; the SLO is {slo:,.0f} s."


def _load(load: Load | None) -> str:
    if load is None:
        return "What comes in: not known or not looked at."
    waits = "unknown" if load.backlog_records is None else f"{load.backlog_records:,.0f} rows"
    growth = load.backlog_growth_per_second
    change = "" if growth is None else f", and that changes by {growth:+,.0f} rows/s"
    return f"What comes in: {load.rows_per_second:,.0f} rows/s. What waits: {waits}{change}."


def _rate(rate: RateEstimate | None) -> str:
    if rate is None:
        return "Estimate: none."
    busy = "1 busy minute" if rate.busy_minutes == 1 else f"{rate.busy_minutes} busy minutes"
    if rate.of_profile:
        return f"Estimate: a busy task does {rate.rows_per_second:,.0f} rows/s, by a profile; there were only {busy}."
    if rate.is_lower_bound:
        return f"Estimate: a busy task does at least {rate.rows_per_second:,.0f} rows/s; there were only {busy}."
    lately = rate.latest_rows_per_second
    latest = "" if lately is None else f", and lately {lately:,.0f}"
    return f"Estimate: a busy task does {rate.rows_per_second:,.0f} rows/s{latest}, measured in {busy}."


def _state(size: StateSize | None) -> Iterator[str]:
    """Of jobs whose state is estimated."""
    if size is None:
        return
    kept = ""
    if size.seconds_kept is not None:
        kept = f", and {size.seconds_kept:,.0f} more for each row/s that comes in"
    yield (
        f"State: a row takes {size.bytes_per_row:,.0f} bytes, by {size.minutes} minutes of tasks. "
        f"The task that has most has {size.rows:,.0f} rows{kept}."
    )


def _use(use: Use) -> str:
    share = use.of_task / use.of_container
    return f"{use.dimension}: the task that uses most takes {use.of_task:,.0f}, {share:.1%} of the smallest container."


def _traffic(inputs: DecisionInputs) -> Iterator[str]:
    """Of jobs that lag."""
    rates = inputs.state.traffic
    if rates is None:
        return
    found = balance.proposal(rates, inputs.config.task_count, key_group_ranges(inputs.config))
    known = f"Key groups: {sum(rate is not None for rate in rates)} of {len(rates)} are measured"
    if found is None:
        yield f"{known}, too few to deal them anew."
        return
    yield (
        f"{known}. The busiest task gets {found.before.imbalance:.2f} times the mean input, and "
        f"{found.after.imbalance:.2f} times with the best ranges."
    )


def _past(found: Workload | None, inputs: DecisionInputs) -> str:
    if found is None:
        return "Past days: not looked at."
    days, policy = patterns.compared_days(found), inputs.policy
    if not days:
        return "Past days: none is known."
    if patterns.is_unusual(found, policy):
        if found.recent is None:
            return f"Past days: {len(days)} compared, but the last {policy.recent_minutes} minutes are not known."
        return f"Past days: {len(days)} compared, but the last {policy.recent_minutes} minutes are unlike them."
    worst, soon = patterns.worst_ahead(found, policy) or 0.0, patterns.usual_soon(found) or 0.0
    return (
        f"Past days: {len(days)} compared. At this time up to {worst:,.0f} rows/s came in within "
        f"{policy.ahead_minutes} minutes, and usually {soon:,.0f} within {policy.soon_minutes}."
    )


def _events(inputs: DecisionInputs) -> Iterator[str]:
    change, update, dealt = inputs.state.last_change, inputs.state.update, inputs.state.last_rebalance
    if change is not None:
        tasks = f"from {change.tasks_before} to {tasks_in_words(change.tasks_after)}"
        yield f"Last change: {tasks} at {change.at:%Y-%m-%d %H:%M} UTC."
    if dealt is not None:
        yield f"Last rebalance: at {dealt.at:%Y-%m-%d %H:%M} UTC, with a lag of {dealt.lag_seconds or 0.0:,.0f} s then."
    for move in inputs.state.moves:
        refused = ", which was refused" if move.refused else ""
        yield f"Last move: of task {move.index} at {move.at:%Y-%m-%d %H:%M} UTC{refused}."
    if update is not None:
        yield f"Last update: by {update.author or 'somebody'} at {update.at:%Y-%m-%d %H:%M} UTC."


def reason_of(decision: ScalingDecision) -> str:
    """The reason with what limited it."""
    return "; ".join((decision.reason, *decision.limits))


def as_stored(inputs: DecisionInputs, decision: ScalingDecision) -> dict[str, Any]:
    """The JSON that is kept of a decision: its inputs, and for people its reason and all that was known.

    The traffic of each key group, of which there may be thousands, is kept only when the answer depends on it.
    """
    kept = inputs
    if inputs.state.traffic is not None:
        without = inputs.model_copy(update={"state": inputs.state.model_copy(update={"traffic": None})})
        kept = without if without.decide() == decision else inputs
    return {
        **kept.model_dump(mode="json"),
        REASON: reason_of(decision),
        WHY: sentences(inputs, decision),
    }
