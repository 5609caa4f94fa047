"""The Reactive Auto Scaler: Algorithm 2 of Turbine (ICDE 2020, section V) as a pure function.

    if time_lagged > SLO threshold:
        if imbalanced and the job can be rebalanced: rebalance input traffic amongst its tasks
        else: increase the number of tasks
    else if OOM: increase reserved memory
    else (no OOM, no lag in a day): try to decrease resources

What the paper leaves open is settled here, and in `Policy`: how much (up fast, down slowly), how long to wait (an
action is given time to show), and how far down. The reactive form knows no lower bound of what a job needs, which
the paper names as its weakness: so it gives back only what it added itself, never less than the layers below it
declare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from penstock.config.declare import Model
from penstock.config.model import JobConfig
from penstock.tasks.spec import key_group_count
from services.auto_scaler.symptoms import JobSymptoms


class Symptom(StrEnum):
    """What the decision answers."""

    UNKNOWN = "unknown"
    NONE = "none"
    LAG = "lag"
    OUT_OF_MEMORY = "out_of_memory"


class Action(StrEnum):
    """What is to be done."""

    NONE = "none"
    REBALANCE = "rebalance"
    INCREASE_TASKS = "increase_tasks"
    INCREASE_MEMORY = "increase_memory"
    DECREASE_TASKS = "decrease_tasks"
    DECREASE_MEMORY = "decrease_memory"


class Policy(Model):
    """How the scaler behaves. `vertical_share`: the largest part of a container that a task may have."""

    cooldown_seconds: float = 300.0
    imbalance_threshold: float = 0.5
    growth_factor: float = 2.0
    shrink_factor: float = 0.75
    memory_growth_factor: float = 1.5
    vertical_share: float = 0.2
    quiet_minutes: int = 1440
    least_coverage: float = 0.9


class DayHistory(Model):
    """The minutes of the last day: those with measurements, with lag beyond the SLO, with a task out of memory."""

    minutes_measured: int
    minutes_lagging: int
    minutes_out_of_memory: int


class ScalerState(Model):
    """What else the decision depends on.

    `converged`: the job runs what is expected of it. `running_since`: its last commit. `declared_*`: what the layers
    below the scaler's ask for. `pinned`: fields that a layer above sets, so that a change would show no effect.
    `container_memory_bytes`: of the smallest live container, None when there is none. `day` None: not looked at.
    """

    converged: bool
    running_since: datetime
    last_action_at: datetime | None = None
    declared_task_count: int = 1
    declared_memory_bytes: int = 0
    pinned: frozenset[str] = frozenset()
    container_memory_bytes: int | None = None
    day: DayHistory | None = None


class ScalingDecision(Model):
    """What to do and why; `change` is a merge patch for the scaler's layer, None when nothing is written."""

    symptom: Symptom
    action: Action
    reason: str
    change: dict[str, Any] | None = None


REASON = "reason"
TASK_COUNT = "task_count"
MEMORY = "resources.memory_bytes"


def decide(
    symptoms: JobSymptoms, config: JobConfig, state: ScalerState, policy: Policy, now: datetime
) -> ScalingDecision:
    """The decision about a job that runs `config`."""
    symptom = classify_symptom(symptoms, config)
    held = _why_hold(state, policy, now)
    if symptom in (Symptom.LAG, Symptom.OUT_OF_MEMORY) and held is not None:
        return _nothing(symptom, held)
    if symptom is Symptom.LAG:
        return _answer_lag(symptoms, config, state, policy)
    if symptom is Symptom.OUT_OF_MEMORY:
        return _increase_memory(config, state, policy)
    if symptom is Symptom.UNKNOWN:
        return _nothing(symptom, "the lag is unknown: not every task has been measured")
    return _try_decrease(config, state, policy, held)


def classify_symptom(symptoms: JobSymptoms, config: JobConfig) -> Symptom:
    """The symptom to answer, in the order of Algorithm 2."""
    lag = symptoms.time_lagged_seconds
    if lag is not None and lag > config.slo.max_lag_seconds:
        return Symptom.LAG
    if symptoms.out_of_memory:
        return Symptom.OUT_OF_MEMORY
    return Symptom.UNKNOWN if lag is None else Symptom.NONE


def _why_hold(state: ScalerState, policy: Policy, now: datetime) -> str | None:
    """Why no action may follow now: the last one, or any restart, must have had time to show."""
    if not state.converged:
        return "the job does not run what is expected of it yet"
    changed_at = max(state.running_since, state.last_action_at or state.running_since)
    if now < changed_at + timedelta(seconds=policy.cooldown_seconds):
        return "the last change has not had time to take effect"
    return None


def _answer_lag(symptoms: JobSymptoms, config: JobConfig, state: ScalerState, policy: Policy) -> ScalingDecision:
    lag = f"lag of {symptoms.time_lagged_seconds:.0f} s is over the SLO of {config.slo.max_lag_seconds:.0f} s"
    imbalanced = symptoms.imbalance is not None and symptoms.imbalance > policy.imbalance_threshold
    if imbalanced and can_be_rebalanced(config):
        reason = f"{lag}; the tasks' rates deviate by {symptoms.imbalance:.0%} of their mean"
        return ScalingDecision(symptom=Symptom.LAG, action=Action.REBALANCE, reason=reason)
    return _increase_tasks(config, state, policy, lag)


def can_be_rebalanced(config: JobConfig) -> bool:
    """Whether its key groups can be dealt to its tasks in another way."""
    return 1 < config.task_count < key_group_count(config)


def _increase_tasks(config: JobConfig, state: ScalerState, policy: Policy, lag: str) -> ScalingDecision:
    limit = min(config.max_task_count, key_group_count(config))
    wanted = min(limit, max(config.task_count + 1, math.ceil(config.task_count * policy.growth_factor)))
    if TASK_COUNT in state.pinned:
        return _nothing(Symptom.LAG, f"{lag}; {TASK_COUNT} is set by a higher layer")
    if wanted <= config.task_count:
        return _nothing(Symptom.LAG, f"{lag}; the job is at its limit of {limit} tasks")
    reason = f"{lag}; from {config.task_count} to {wanted} tasks"
    change = {"task_count": wanted}
    return ScalingDecision(symptom=Symptom.LAG, action=Action.INCREASE_TASKS, reason=reason, change=change)


def _increase_memory(config: JobConfig, state: ScalerState, policy: Policy) -> ScalingDecision:
    symptom, now_bytes = Symptom.OUT_OF_MEMORY, config.resources.memory_bytes
    if MEMORY in state.pinned:
        return _nothing(symptom, f"{MEMORY} is set by a higher layer")
    if state.container_memory_bytes is None:
        return _nothing(symptom, "no container is live, so the largest task that fits is unknown")
    limit = int(state.container_memory_bytes * policy.vertical_share)
    wanted = min(limit, int(now_bytes * policy.memory_growth_factor))
    if wanted <= now_bytes:
        return _nothing(
            symptom, f"the task is at its limit of {limit} bytes, {policy.vertical_share:.0%} of a container"
        )
    reason = f"a task ran out of memory; from {now_bytes} to {wanted} bytes"
    change = {"resources": {"memory_bytes": wanted}}
    return ScalingDecision(symptom=symptom, action=Action.INCREASE_MEMORY, reason=reason, change=change)


def _try_decrease(config: JobConfig, state: ScalerState, policy: Policy, held: str | None) -> ScalingDecision:
    symptom = Symptom.NONE
    memory = max(state.declared_memory_bytes, int(config.resources.memory_bytes * policy.shrink_factor))
    tasks = max(state.declared_task_count, math.floor(config.task_count * policy.shrink_factor))
    if not can_shrink(config, state):
        return _nothing(symptom, "healthy, and nothing to give back")
    if held is not None:
        return _nothing(symptom, held)
    if not _was_quiet(state.day, policy):
        return _nothing(symptom, "healthy, but not known to have been for a day")
    if tasks < config.task_count and TASK_COUNT not in state.pinned:
        reason, change = f"quiet for a day; from {config.task_count} to {tasks} tasks", {"task_count": tasks}
        return ScalingDecision(symptom=symptom, action=Action.DECREASE_TASKS, reason=reason, change=change)
    reason = f"quiet for a day; from {config.resources.memory_bytes} to {memory} bytes"
    patch = {"resources": {"memory_bytes": memory}}
    return ScalingDecision(symptom=symptom, action=Action.DECREASE_MEMORY, reason=reason, change=patch)


def can_shrink(config: JobConfig, state: ScalerState) -> bool:
    """Whether the scaler has added something that it could give back."""
    tasks = config.task_count > state.declared_task_count and TASK_COUNT not in state.pinned
    memory = config.resources.memory_bytes > state.declared_memory_bytes and MEMORY not in state.pinned
    return tasks or memory


def _was_quiet(day: DayHistory | None, policy: Policy) -> bool:
    if day is None or day.minutes_measured < policy.least_coverage * policy.quiet_minutes:
        return False
    return day.minutes_lagging == 0 and day.minutes_out_of_memory == 0


def _nothing(symptom: Symptom, reason: str) -> ScalingDecision:
    return ScalingDecision(symptom=symptom, action=Action.NONE, reason=reason)


class DecisionInputs(Model):
    """Everything a decision was made from, as it is stored."""

    symptoms: JobSymptoms
    config: JobConfig
    state: ScalerState
    policy: Policy
    now: datetime

    def decide(self) -> ScalingDecision:
        """The decision that these inputs lead to."""
        return decide(self.symptoms, self.config, self.state, self.policy, self.now)


def replay(inputs: Mapping[str, Any]) -> ScalingDecision:
    """The decision again, from the `inputs` of a stored one. Raises pydantic's ValidationError on foreign inputs."""
    return DecisionInputs.model_validate({key: value for key, value in inputs.items() if key != REASON}).decide()


def as_stored(inputs: DecisionInputs, decision: ScalingDecision) -> dict[str, Any]:
    """The JSON that is kept of a decision: its inputs, and its reason for people to read."""
    return {**inputs.model_dump(mode="json"), REASON: decision.reason}
