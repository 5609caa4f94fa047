"""When nothing may be done, whatever a job needs: each guard is a sentence, or None. The first one counts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from services.auto_scaler.decide import untriaged
from services.auto_scaler.decide.growth import can_grow
from services.auto_scaler.decide.model import Fleet, ScalerState, Situation, Symptom
from services.auto_scaler.decide.policy import Policy


def count_fleet(cases: Iterable[tuple[Symptom, Situation]]) -> Fleet:
    """The jobs that could be given tasks now, by symptom: lag that the scaler must leave to others is no sign."""
    found = [(symptom, case) for symptom, case in cases if _counts(symptom, case)]
    lagging = sum(symptom is Symptom.LAG and case.is_over_slo for symptom, case in found)
    unmeasured = sum(symptom is Symptom.UNKNOWN for symptom, _ in found)
    return Fleet(jobs=len(found), lagging=lagging, unmeasured=unmeasured)


def _counts(symptom: Symptom, case: Situation) -> bool:
    """One that has started just now need not be measured yet."""
    if not case.state.converged or not can_grow(case) or untriaged.why_stopped(case) is not None:
        return False
    return symptom is not Symptom.UNKNOWN or _too_soon(case.state, case.policy.cooldown_seconds, case.now) is None


def why_frozen(fleet: Fleet | None, policy: Policy) -> str | None:
    """The circuit breaker: what so many jobs have at once is no matter of their sizes."""
    if fleet is None or fleet.jobs < policy.breaker_least_jobs:
        return None
    if fleet.lagging > policy.breaker_lagging_share * fleet.jobs:
        return f"{fleet.lagging} of {fleet.jobs} jobs lag at once, so no job is scaled until people know why"
    if fleet.unmeasured > policy.breaker_unmeasured_share * fleet.jobs:
        return f"{fleet.unmeasured} of {fleet.jobs} jobs are not measured, so no job is scaled until they are"
    return None


def why_hold(case: Situation) -> str | None:
    """Why no action at all may follow now."""
    state, policy, now = case.state, case.policy, case.now
    if not state.converged:
        return "the job does not run what is expected of it yet"
    if any(window.contains(now) for window in policy.maintenance):
        return f"it is a maintenance window at {now:%H:%M} UTC"
    return _too_soon(state, policy.cooldown_seconds, now) or _over_limits(state, policy)


def why_no_reduction(case: Situation) -> str | None:
    """Why nothing may be taken away now: fast up, slow down."""
    held = why_hold(case)
    if held is not None:
        return held
    if any(window.contains(case.now) for window in case.policy.peak_hours):
        return f"nothing is taken away in peak hours, and it is {case.now:%H:%M} UTC"
    return _too_soon(case.state, case.policy.shrink_cooldown_seconds, case.now)


def _too_soon(state: ScalerState, seconds: float, now: datetime) -> str | None:
    """The last action, and any restart, must have had time to show."""
    changed_at = max(state.running_since, state.last_action_at or state.running_since)
    if now >= changed_at + timedelta(seconds=seconds):
        return None
    waited = (now - changed_at).total_seconds()
    return f"the last change has not had time to take effect: {waited:.0f} s of {seconds:.0f} s have passed"


def _over_limits(state: ScalerState, policy: Policy) -> str | None:
    if (state.actions_last_hour or 0) >= policy.max_actions_per_hour:
        return f"the job was changed {state.actions_last_hour} times in the last hour, which is the limit"
    if state.fleet is not None and state.fleet.actions >= policy.max_actions_per_round:
        return f"{state.fleet.actions} jobs are changed in this round already, which is the limit"
    return None
