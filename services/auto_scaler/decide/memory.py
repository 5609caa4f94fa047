"""More memory: up to a part of a container, so that tasks stay easy to move; beyond that, more tasks."""

from __future__ import annotations

from services.auto_scaler.decide.growth import increase_tasks
from services.auto_scaler.decide.model import MEMORY, Action, ScalingDecision, Situation, Symptom, nothing


def answer_out_of_memory(case: Situation) -> ScalingDecision:
    """Half as much again, vertically first (Turbine, ICDE 2020, section V-E)."""
    symptom, now_bytes = Symptom.OUT_OF_MEMORY, case.config.resources.memory_bytes
    if MEMORY in case.state.pinned:
        return nothing(symptom, f"{MEMORY} is set by a higher layer")
    if case.state.container_memory_bytes is None:
        return nothing(symptom, "no container is live, so the largest task that fits is unknown")
    limit = int(case.state.container_memory_bytes * case.policy.vertical_share)
    wanted = min(limit, int(now_bytes * case.policy.memory_growth_factor))
    if wanted <= now_bytes:
        cause = f"the task is at its limit of {limit} bytes, {case.policy.vertical_share:.0%} of a container"
        return increase_tasks(case, symptom, cause, None)
    reason = f"a task ran out of memory; from {now_bytes} to {wanted} bytes"
    limits = (f"a task may have {limit} bytes, {case.policy.vertical_share:.0%} of a container",)
    return ScalingDecision(
        symptom=symptom,
        action=Action.INCREASE_MEMORY,
        reason=reason,
        change={"resources": {"memory_bytes": wanted}},
        limits=limits if wanted == limit else (),
    )
