"""What is found about the present step of a rescale: its configuration, its tasks, its container, its time. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from penstock.config.model import DesiredState
from penstock.tasks.host_task import POLICIES
from penstock.tasks.levelling import levels_while_running
from penstock.tasks.redistribution import CopyReport
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.progress import QUIESCED_STEPS, Plan, Progress, Step, elapsed
from services.state_syncer.decide.view import JobView
from services.state_syncer.host_tasks.next_attempt import GiveUp, Retry, after_attempt
from services.state_syncer.host_tasks.outcomes import Done, Failed, Outcome
from services.state_syncer.host_tasks.plan_tasks import task_of

LONGEST_SECONDS = {
    Step.COPY: 3600.0,
    Step.QUIESCE: 600.0,
    Step.LEVEL: 600.0,
    Step.AWAIT_STOPPED: 300.0,
    Step.REDISTRIBUTE: 3600.0,
}

AWAITED_SECONDS = 600.0
"""How long a copy of the state waits for tasks that do not run. Later steps have a limit of their own. Reports that do
not arrive are no evidence that a task does not run: they are awaited for as long as the step may take."""


LOST_SECONDS = 15.0
"""How long tasks that take no more rows wait for one that was lost. A host that crashed is mostly back by then."""
MOST_TAKEN_BACK = 2
"""So often a rescale is begun anew. When a task is lost once more it fails, and backs off."""


class Fact(StrEnum):
    """What is found about the present step."""

    CHANGED = "the expected configuration changed"
    UNASKED = "no container was asked yet"
    NEEDLESS = "the tasks keep no state, and the seal needs no Kafka"
    UNWANTED = "the state is not to be copied"
    AWAITED = "tasks do not run"
    OUT_OF_DATE = "tasks were lost while the state was copied"
    STRANDED = "tasks have not run for too long"
    MISSED = "tasks were lost a moment ago"
    RETURNED = "tasks that were lost run again, or it is unknown"
    AWAY = "tasks that were lost have not come back"
    AWAY_AGAIN = "tasks are lost again and again"
    LATE = "it takes too long"
    BUSY = "tasks finish their batches, or it is unknown"
    QUIET = "all tasks have finished their batches"
    UNEVEN = "tasks are behind the watermark of others"
    TOO_FAR = "tasks are too far behind the watermark of others"
    UNKNOWN = "it is unknown whether tasks are there"
    NOT_GONE = "tasks are there, or it is unknown"
    GONE = "the tasks are gone"
    UNANSWERED = "the container has not finished"
    DONE = "the container has finished"
    FAILED = "the container failed"
    UNMOVABLE = "the state cannot be moved"
    UNSEALABLE = "the old generation cannot be sealed now"
    LOST = "the attempt was lost"
    GIVEN_UP = "the attempt was lost, as others were before"


def found_of(view: JobView, progress: Progress, now: datetime) -> Fact:
    """What is found about the plan's step. Before the seal, a changed configuration takes precedence."""
    plan = progress.plan
    if plan.step is not Step.SEAL and view.asks_for_more(plan, plan.config, plan.restore):
        return Fact.CHANGED
    match plan.step:
        case Step.COPY:
            return _copied(view, progress, now)
        case Step.QUIESCE | Step.LEVEL:
            found = _quiet(view, progress, now)
        case Step.AWAIT_STOPPED:
            found = _presence(view, plan)
        case _:
            found = _answer(view, progress)
    return Fact.LATE if found in _WAITING and _is_late(plan, now) else found


_WAITING = frozenset({Fact.BUSY, Fact.MISSED, Fact.AWAITED, Fact.RETURNED, Fact.AWAY, Fact.NOT_GONE, Fact.UNANSWERED})


def _is_late(plan: Plan, now: datetime) -> bool:
    limit = longest_seconds(plan)
    return limit is not None and plan.seconds_spent(now) >= limit


def longest_seconds(plan: Plan) -> float | None:
    """How long the plan's step may take; None for no limit. Users say how long tasks may finish their batches and read
    on, which is one time."""
    asked = plan.config.get("rescale_within_seconds") if plan.step in QUIESCED_STEPS else None
    return LONGEST_SECONDS.get(plan.step) if asked is None else float(asked)


def seconds_left(plan: Plan, now: datetime) -> float:
    """Of the time in which tasks may finish their batches and read on."""
    return max(0.0, (longest_seconds(plan) or 0.0) - plan.seconds_spent(now))


def _copied(view: JobView, progress: Progress, now: datetime) -> Fact:
    """Tasks are given no more rows only once all of them run. One that was lost would otherwise be waited for by a job
    that reads nothing, and the copy would get too old meanwhile: it is made again."""
    plan, where = progress.plan, view.where
    found = _copy(view, progress)
    if found in (Fact.UNMOVABLE, Fact.UNSEALABLE):
        return found
    if where.all_run or found is Fact.UNANSWERED:
        return Fact.LATE if found in (Fact.UNASKED, Fact.UNANSWERED) and _is_late(plan, now) else found
    if elapsed(plan.step_at, now) >= (LONGEST_SECONDS[Step.COPY] if where.are_only_unheard else AWAITED_SECONDS):
        return Fact.STRANDED
    return Fact.OUT_OF_DATE if found is Fact.DONE and where.are_lost else Fact.AWAITED


def _copy(view: JobView, progress: Progress) -> Fact:
    if progress.plan.uncopied:
        return Fact.UNWANTED
    if not progress.asks_for_copy:
        return Fact.NEEDLESS
    if _unsealable(progress.outcome):
        return Fact.UNSEALABLE
    return _answer(view, progress) if progress.plan.has_attempt else Fact.UNASKED


def _unsealable(outcome: Outcome) -> str | None:
    report = outcome.report if isinstance(outcome, Done) else None
    return report.unsealable if isinstance(report, CopyReport) else None


def _quiet(view: JobView, progress: Progress, now: datetime) -> Fact:
    """Tasks without state drop no rows, so it does not matter whether they are behind."""
    quiet, running, plan = view.quiet, view.running, progress.plan
    if not quiet.is_certain or running is None:
        return _awaited(view, plan, now)
    levels = progress.has_state and levels_while_running(running.config)
    # The order to a goal is given once: tasks that did not come to it are levelled after the stop.
    is_uneven = quiet.goal_ms is not None and quiet.goal_ms > (running.level_ms or 0)
    if not (is_uneven and levels):
        return Fact.QUIET
    needed = quiet.seconds_to_goal(now)
    return Fact.TOO_FAR if needed is not None and needed > seconds_left(plan, now) else Fact.UNEVEN


def _awaited(view: JobView, plan: Plan, now: datetime) -> Fact:
    """The others take no rows while a task is lost, so it is not waited for as long as one that is in a batch."""
    since = lost_since(view, plan, now)
    if since is None:
        return Fact.BUSY if plan.lost_at is None else Fact.RETURNED
    if elapsed(since, now) >= LOST_SECONDS:
        return Fact.AWAY_AGAIN if len(plan.taken_back) >= MOST_TAKEN_BACK else Fact.AWAY
    return Fact.MISSED if plan.lost_at is None else Fact.AWAITED


def lost_since(view: JobView, plan: Plan, now: datetime) -> datetime | None:
    """Since when it is known that a task does not run whose job takes no more rows; None when that is not known. A
    container that is silent may be dead since its last report."""
    where = view.quiet.where
    if where.are_only_unheard:
        return None
    silent = max((each.seconds for each in where.silent), default=0.0)
    return min(plan.lost_at or now, now - timedelta(seconds=silent))


def _presence(view: JobView, plan: Plan) -> Fact:
    """A container that fell silent after the stop may be dead. Until it counts as lost the job would be down: tasks
    that ran before, and need not stop for another reason, rather go on."""
    running = view.running
    stopped = running is not None and running.stopping
    if stopped and view.presence is Presence.ABSENT:
        return Fact.GONE
    states = {config.get("desired_state") for config in (plan.config, {} if running is None else running.config)}
    goes_on = states == {DesiredState.RUNNING.value} and plan.restore is None
    return Fact.UNKNOWN if stopped and goes_on and view.silent else Fact.NOT_GONE


def _answer(view: JobView, progress: Progress) -> Fact:
    task = task_of(view.job, progress.plan, view.failures)
    lives = progress.container_lives
    match after_attempt(task, progress.outcome, POLICIES[task.key.kind], container_lives=lives):
        case Done():
            return Fact.DONE
        case GiveUp() if progress.plan.step is Step.COPY and _is_final(progress.outcome):
            return Fact.UNMOVABLE
        case GiveUp(lost=lost):
            return Fact.GIVEN_UP if lost else Fact.FAILED
        case Retry(lost=lost):
            return Fact.LOST if lost else Fact.FAILED
        case _:
            return Fact.UNANSWERED


def _is_final(outcome: Outcome) -> bool:
    """Whether it would fail after a stop, too."""
    return isinstance(outcome, Failed) and outcome.is_final
