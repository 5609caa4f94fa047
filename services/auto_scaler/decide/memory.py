"""More memory: up to a part of a container, so that tasks stay easy to move; beyond that, more tasks."""

from __future__ import annotations

from penstock.tasks.heap import heap_for, process_for
from services.auto_scaler.decide.growth import increase_tasks
from services.auto_scaler.decide.model import MEMORY, Action, ScalingDecision, Situation, Symptom, nothing, set_above


def answer_out_of_memory(case: Situation) -> ScalingDecision:
    """Half as much again, vertically first (Turbine, ICDE 2020, section V-E)."""
    symptom, now_bytes = Symptom.OUT_OF_MEMORY, case.config.resources.memory_bytes
    if MEMORY in case.state.pinned:
        return nothing(symptom, "a task ran out of memory", set_above(MEMORY))
    if case.state.container_memory_bytes is None:
        return nothing(symptom, "no container is live, so the largest task that fits is unknown")
    limit = int(case.state.container_memory_bytes * case.policy.vertical_share)
    wanted = min(limit, _more(case, now_bytes))
    if wanted <= now_bytes or _usable(case, wanted) <= _usable(case, now_bytes):
        cause = f"a task ran out of memory; it may have no more than {_mib(limit)}, "
        return increase_tasks(case, symptom, f"{cause}{case.policy.vertical_share:.0%} of a container", None)
    reason = f"a task ran out of memory; from {_mib(now_bytes)} to {_mib(wanted)} each"
    if case.is_isolated:
        reason += f", of which {_mib(_usable(case, now_bytes))} and {_mib(_usable(case, wanted))} are heap"
    limits = (f"a task may have {_mib(limit)}, {case.policy.vertical_share:.0%} of a container",)
    return ScalingDecision(
        symptom=symptom,
        action=Action.INCREASE_MEMORY,
        reason=reason,
        change={"resources": {"memory_bytes": wanted}},
        limits=limits if wanted == limit else (),
    )


def _more(case: Situation, memory_bytes: int) -> int:
    """By the growth factor; of an isolated task the heap grows by it, too, which a small process does not divide."""
    factor = case.policy.memory_growth_factor
    grown = int(memory_bytes * factor)
    return max(grown, process_for(int(heap_for(memory_bytes) * factor))) if case.is_isolated else grown


def _usable(case: Situation, memory_bytes: int) -> int:
    return heap_for(memory_bytes) if case.is_isolated else memory_bytes


def _mib(amount: int) -> str:
    return f"{amount / 2**20:,.0f} MiB"
