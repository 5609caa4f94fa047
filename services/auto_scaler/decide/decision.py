"""The decision: Algorithm 2 of Turbine (ICDE 2020, section V) with its Plan Generator, as a pure function.

    if time_lagged > SLO threshold:
        if imbalanced, enough in all, and the job can be rebalanced: rebalance input traffic amongst its tasks
        else if more tasks have not helped, or would not: ask people
        else: increase the number of tasks, to the estimate
    else if OOM: increase reserved memory, beyond its limit the number of tasks
    else: prepare for a known peak, or else try to decrease resources, never below the estimate

What the paper leaves open is in `Policy`. Without an estimate the reactive form holds: double on lag, and give back
slowly what was added, after a day without a symptom.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.config.declare import Model
from penstock.config.model import JobConfig
from services.auto_scaler.decide import guards, untriaged
from services.auto_scaler.decide.growth import answer_lag, before_peak, can_grow, describe_lag
from services.auto_scaler.decide.memory import answer_out_of_memory
from services.auto_scaler.decide.model import ScalerState, ScalingDecision, Situation, Symptom, nothing
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.reduction import can_shrink, try_decrease
from services.auto_scaler.decide.symptoms import JobSymptoms

REASON = "reason"
WHY = "why"


def decide(
    symptoms: JobSymptoms, config: JobConfig, state: ScalerState, policy: Policy, now: datetime
) -> ScalingDecision:
    """The decision about a job that runs `config`."""
    case = Situation(symptoms, config, state, policy, now)
    symptom = classify_symptom(symptoms, config, policy)
    if symptom is Symptom.UNKNOWN:
        return nothing(symptom, f"the lag is unknown: {_why_unknown(symptoms)}")
    frozen = guards.why_frozen(state.fleet, policy)
    if frozen is not None and symptom is not Symptom.OUT_OF_MEMORY:
        return nothing(symptom, _describe(case, symptom), frozen)
    if symptom is Symptom.NONE:
        return _stay_healthy(case)
    stopped = untriaged.why_stopped(case) if symptom is Symptom.LAG else None
    if stopped is not None:
        return nothing(symptom, f"{describe_lag(case)}; {stopped}", untriaged=True)
    held = guards.why_hold(case)
    if held is not None:
        return nothing(symptom, _describe(case, symptom), held)
    return answer_lag(case) if symptom is Symptom.LAG else answer_out_of_memory(case)


def classify_symptom(symptoms: JobSymptoms, config: JobConfig, policy: Policy) -> Symptom:
    """The symptom to answer, in the order of Algorithm 2. Lag is answered before it is over the SLO.

    The age of a batch that has not finished is the least lag, so that a small one is no sign of health.
    """
    lag = symptoms.time_lagged_seconds
    if lag is not None and lag > policy.early_share * config.slo.max_lag_seconds:
        return Symptom.LAG
    if symptoms.out_of_memory:
        return Symptom.OUT_OF_MEMORY
    return Symptom.UNKNOWN if lag is None or symptoms.lag_basis == "age" else Symptom.NONE


def _why_unknown(found: JobSymptoms) -> str:
    if found.lag_basis == "age":
        return "a batch has not finished, and until then it is not known how fast the tasks are"
    if found.tasks_measured < found.tasks_expected:
        return f"{found.tasks_measured} of {found.tasks_expected} tasks are measured"
    return "some task processes nothing, or has not told what waits for it"


def needs_recent(case: Situation) -> bool:
    """Whether the decision needs an estimate from the minutes before now: it may answer lag."""
    is_lag = classify_symptom(case.symptoms, case.config, case.policy) is Symptom.LAG
    return is_lag and _may_act(case) and (untriaged.may_resume(case) or untriaged.why_stopped(case) is None)


def needs_past(case: Situation) -> bool:
    """Whether the decision needs the last day and past days, too: it may take something away, or prepare for a peak."""
    if classify_symptom(case.symptoms, case.config, case.policy) is not Symptom.NONE or not _may_act(case):
        return False
    return can_shrink(case) or (case.policy.prescale and can_grow(case))


def _may_act(case: Situation) -> bool:
    return guards.why_frozen(case.state.fleet, case.policy) is None and guards.why_hold(case) is None


def _describe(case: Situation, symptom: Symptom) -> str:
    if symptom is Symptom.LAG:
        return describe_lag(case)
    return "a task ran out of memory" if symptom is Symptom.OUT_OF_MEMORY else "healthy"


def _stay_healthy(case: Situation) -> ScalingDecision:
    rate, load = case.state.rate, case.state.load
    if rate is not None and load is not None and guards.why_hold(case) is None:
        grown = before_peak(case, rate, load)
        if grown is not None:
            return grown
    return try_decrease(case)


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
    return DecisionInputs.model_validate({key: inputs[key] for key in inputs.keys() - {REASON, WHY}}).decide()
