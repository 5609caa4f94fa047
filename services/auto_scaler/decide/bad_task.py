"""A single bad task: slow and behind while its siblings, with as much input, are not. It moves to another container
(Turbine, ICDE 2020, section V-D). If that does not help, people are asked.

Nothing is guessed: without the input of each task, by its key groups, or without the container of each there is no
move. And a container on which a sibling is well is not the cause.
"""

from __future__ import annotations

from datetime import timedelta

from penstock.tasks import balance
from penstock.tasks.spec import key_group_ranges
from services.auto_scaler.decide.model import Action, Move, PastMove, ScalingDecision, Situation, Symptom, nothing
from services.auto_scaler.decide.symptoms import WorstTask


def answer_bad_task(case: Situation, lag: str) -> ScalingDecision | None:
    """None when no single task is bad, nothing says so for sure, or its move was refused a short time ago."""
    worst = case.symptoms.worst
    if worst is None or not _is_alone(case, worst) or not _has_usual_input(case, worst.index):
        return None
    if why_refused(case) is not None:
        return None
    reason = (
        f"{lag}; task {worst.index} does {worst.rate_share:.0%} of what the others do, which lag "
        f"{worst.others_lag_seconds:,.0f} s at most, and no more comes in to it"
    )
    moved = _why_not_again(case, worst.index)
    if moved is not None:
        return nothing(Symptom.LAG, reason, moved, untriaged=case.is_over_slo)
    container = _own_container(case, worst.index)
    if container is None:
        return None
    change: Move = {"index": worst.index, "container": container}
    return ScalingDecision(
        symptom=Symptom.LAG,
        action=Action.MOVE_TASK,
        reason=f"{reason}; it is the only one of them on {container}, and leaves it",
        change=dict(change),
    )


def _is_alone(case: Situation, worst: WorstTask) -> bool:
    early = case.policy.early_share * case.config.slo.max_lag_seconds
    return worst.others_lag_seconds <= early < worst.lag_seconds and worst.rate_share <= case.policy.bad_task_share


def _has_usual_input(case: Situation, index: int) -> bool:
    """Whether no more comes in to it than to the others, but for the margin that each task has."""
    rates = case.state.traffic
    loads = balance.completed(rates) if rates is not None and len(rates) == case.key_groups else None
    if loads is None:
        return False
    by_task = [sum(loads[part.lo : part.hi]) for part in key_group_ranges(case.config)]
    return by_task[index] <= (1 + case.policy.headroom) * sum(by_task) / len(by_task)


def _own_container(case: Situation, index: int) -> str | None:
    """The container that the task shares with none of the others; None when it does, or one is not known."""
    containers = case.state.containers
    if containers is None or len(containers) != case.tasks or None in containers:
        return None
    return containers[index] if containers.count(containers[index]) == 1 else None


def _why_not_again(case: Situation, index: int) -> str | None:
    """Why the task does not move once more: a move was asked for on this day, and it is bad still."""
    last = _standing(case, index, case.policy.stopped_seconds)
    if last is None or last.refused:
        return None
    return f"it was asked to leave its container at {last.at:%H:%M} UTC, and that did not help"


def why_refused(case: Situation) -> str | None:
    """That the worst task may not move for now, so that lag is answered as if no move were known."""
    worst = case.symptoms.worst
    last = None if worst is None else _standing(case, worst.index, case.policy.untriaged_seconds)
    if last is None or not last.refused:
        return None
    return f"the move of task {last.index} was refused at {last.at:%H:%M} UTC"


def _standing(case: Situation, index: int, seconds: float) -> PastMove | None:
    """The newest move of the task, if it is recent, and the job has not been updated since."""
    last, update = next((move for move in case.state.moves if move.index == index), None), case.state.update
    if last is None or (update is not None and update.at > last.at):
        return None
    return last if case.now < last.at + timedelta(seconds=seconds) else None
