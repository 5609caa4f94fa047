"""The effects of a decision: what to commit, record, ask and log, and whether the next round must come soon. Pure.

Each decision has one case here. `round.fold` writes the effects of all jobs of a round at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.config.model import ChangeKind
from penstock.model.alert_rules import limit_of
from penstock.model.alerts import AlertKind
from penstock.model.jobs import JobState
from penstock.model.states import FAILED_BEFORE, failure_before
from penstock.tasks.rollout import Rejected
from services.state_syncer.decide.decisions import (
    AwaitStopped,
    BackingOff,
    Commit,
    Decision,
    End,
    Fail,
    Finish,
    Forget,
    Nothing,
    Poll,
    Record,
    RetryStep,
    StartRescale,
    StartRollout,
    Wait,
)
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.progress import Plan
from services.state_syncer.decide.view import JobRow, JobView, SyncRecord
from services.state_syncer.decide.waves import Rollout

QUARANTINE_AFTER_FAILURES = int(limit_of(AlertKind.QUARANTINED))
FIRST_BACKOFF_SECONDS = 30.0
LONGEST_BACKOFF_SECONDS = 3600.0

COMMITTED, FAILED, FORGOTTEN = "job committed", "job failed to sync", "job forgotten"
RESCALE, ROLLOUT = "rescale", "rollout"
_AWAITING = {
    Presence.PRESENT: "stopping: tasks still run",
    Presence.UNKNOWN: "stopping: a container that may run its tasks has not reported since",
    Presence.UNTOLD: "stopping: its tasks are gone; containers that have not reported since are to be told",
    Presence.ABSENT: "stopping: its tasks are gone",
}


class LogEvent(NamedTuple):
    """One line of log. `kind`: of a commit or a failure. `if_new`: the line is left out when the sync state stays."""

    event: str
    job: str
    revision: int
    kind: str
    details: Mapping[str, Any]
    if_new: bool = False


class PlanWrite(NamedTuple):
    """What to record as a job's plan; None ends the plan.

    `seconds`: what the steps of a rescale took, once it has ended well. `rejected`: the package of a rollout that is
    halted. `ends_rollout`: the plan that ends is one of a rollout.
    """

    job: str
    plan: Plan | Rollout | None
    seconds: Mapping[str, float] | None = None
    rejected: Rejected | None = None
    ends_rollout: bool = False

    @property
    def has_generations(self) -> bool:
        """Whether the plan may take a generation or give one up: a rollout does neither."""
        return isinstance(self.plan, Plan) or (self.plan is None and not self.ends_rollout)


@dataclass(frozen=True, slots=True)
class Effects:
    """All effects of a decision about one job.

    `has_state`: the commit leaves checkpoints behind, whether it asks for tasks or not. `asks`: the plan whose
    container is asked after the write. `restored`: the number of the restore that is done. `record` None: the sync
    state stays, or goes with the job. `soon`: no notification comes for the next step, so the next round must come
    soon.
    """

    commit: Commit | None = None
    has_state: bool = False
    plan: PlanWrite | None = None
    asks: Plan | None = None
    restored: int | None = None
    forget: bool = False
    record: SyncRecord | None = None
    events: tuple[LogEvent, ...] = field(default=())
    soon: bool = False


def effects(view: JobView, decision: Decision, now: datetime) -> Effects:
    """The effects of a decision about a job."""
    match decision:
        case Nothing():
            return Effects(record=_synced(view))
        case BackingOff() | StartRescale() | StartRollout():
            return Effects()
        case Wait(detail, difference):
            kind, fields = difference.kind, difference.names
            about = {"detail": detail, "fields": fields}
            told = LogEvent("job waits", view.job, view.revision, kind.name.lower(), about, if_new=True)
            waits = detail + _failure_before(view)
            record = SyncRecord(decision.state, view.revision, waits, kind, fields, decision.failures)
            return Effects(record=record, events=(told,))
        case Fail(detail, kind, fields):
            about = {"error": detail, "fields": fields}
            told = LogEvent(FAILED, view.job, view.revision, kind.name.lower(), about)
            return Effects(record=_failed(view, decision, now), events=(told,))
        case RetryStep(failure):
            return replace(effects(view, failure, now), soon=True)
        case AwaitStopped(presence):
            told = LogEvent("job stops", view.job, view.revision, "delete", {"tasks": presence.value}, if_new=True)
            record = SyncRecord(JobState.DELETING, view.revision, _AWAITING[presence])
            return Effects(record=record, events=(told,), soon=True)
        case Forget():
            return Effects(forget=True, events=(LogEvent(FORGOTTEN, view.job, view.revision, "delete", {}),))
        case Commit():
            told = LogEvent(COMMITTED, view.job, decision.revision, _commit_kind(view, decision), {})
            committed = _committed(view, decision, now)
            return Effects(commit=decision, record=committed, events=(told,), soon=_is_soon_decided(decision))
        case End():
            return _of_end(view, decision, now)
        case _:
            return plan_effects(view, decision)


def plan_effects(
    job: JobRow, decision: Record[Plan] | Poll[Plan] | Finish[Plan] | Record[Rollout] | Poll[Rollout] | Finish[Rollout]
) -> Effects:
    """The effects of a decision about a plan that goes on, or has come to its end."""
    plan = decision.plan
    asks = plan if isinstance(plan, Plan) else None
    match decision:
        case Record(_, commit, rejected, why=why):
            written = PlanWrite(job.job, plan, rejected=rejected)
            told = _progress(job, decision)
            return Effects(commit, plan=written, asks=asks, record=_under_way(job, plan, why), events=told, soon=True)
        case Poll(_, why):
            return Effects(asks=asks, record=_under_way(job, plan, why), soon=True)
        case Finish():
            return _of_finish(job, decision)


def _of_finish(job: JobRow, decision: Finish[Plan] | Finish[Rollout]) -> Effects:
    plan, commit, seconds = decision.plan, decision.commit, decision.seconds
    if isinstance(plan, Rollout):
        told = LogEvent("package rolled out", job.job, plan.revision, ROLLOUT, {"tasks": plan.upgraded})
        kind, fields = ChangeKind.RESTART, plan.fields
    else:
        told = LogEvent(COMMITTED, job.job, plan.revision, RESCALE, {"seconds": dict(seconds or {}), **_uncopied(plan)})
        kind, fields = ChangeKind.RESCALE, plan.fields if commit is None else commit.difference.names
    return Effects(
        commit=commit,
        has_state=commit is not None,
        plan=PlanWrite(job.job, None, seconds=seconds, ends_rollout=isinstance(plan, Rollout)),
        restored=plan.restore.number if isinstance(plan, Plan) and plan.restore is not None else None,
        record=SyncRecord(JobState.SYNCED, plan.revision, kind=kind, fields=fields),
        events=(told,),
        soon=True,
    )


def _is_soon_decided(commit: Commit) -> bool:
    """Whether there is more to do, that no notification and no room are waited for."""
    then = commit.then
    return commit.stopping or (isinstance(then, Wait) and then.state is JobState.WAITING)


def _of_end(view: JobView, decision: End[Plan] | End[Rollout], now: datetime) -> Effects:
    """Failures are kept until a plan has come to its end."""
    plan, commit, failure = decision.plan, decision.commit, decision.failure
    found = effects(view, commit, now)
    if isinstance(plan, Plan):
        told = LogEvent("job resumes", view.job, commit.revision, RESCALE, _about(plan))
        failing = Effects() if failure is None else effects(view, failure, now)
        found = replace(found, record=failing.record or found.record, events=(told, *failing.events))
    return replace(found, plan=PlanWrite(view.job, None, ends_rollout=isinstance(plan, Rollout)), soon=True)


# ---- the sync states


def _synced(view: JobView) -> SyncRecord:
    """Synced; what the last change was is kept."""
    before = view.sync
    if before is not None and before.state is JobState.SYNCED:
        return SyncRecord(JobState.SYNCED, view.revision, kind=before.kind, fields=before.fields)
    return SyncRecord(JobState.SYNCED, view.revision)


def _committed(view: JobView, commit: Commit, now: datetime) -> SyncRecord | None:
    if commit.stopping:
        return SyncRecord(JobState.DELETING, view.revision, _AWAITING[Presence.UNKNOWN])
    if commit.then is not None:
        return effects(view, commit.then, now).record
    kind, fields = commit.difference.kind, commit.difference.names
    return SyncRecord(JobState.SYNCED, view.revision, kind=kind, fields=fields)


def _under_way(job: JobRow, plan: Plan | Rollout, why: str = "") -> SyncRecord:
    is_rescale = isinstance(plan, Plan)
    return SyncRecord(
        JobState.RESCALING if is_rescale else JobState.ROLLING,
        plan.revision,
        plan.describe(why),
        ChangeKind.RESCALE if is_rescale else ChangeKind.RESTART,
        plan.fields,
        job.failures_since(plan.revision),
    )


def _failed(view: JobView, failure: Fail, now: datetime) -> SyncRecord:
    """The state after one more failure in a row."""
    failures = 1 + view.failures_since(view.revision)
    quarantined = failures >= QUARANTINE_AFTER_FAILURES
    return SyncRecord(
        JobState.QUARANTINED if quarantined else JobState.FAILED,
        view.revision,
        failure.detail,
        failure.kind,
        failure.fields,
        failures,
        None if quarantined else now + timedelta(seconds=backoff_seconds(failures)),
    )


def _failure_before(view: JobView) -> str:
    """Why the newest attempt on this write failed, for the end of a detail, as long as the next one waits."""
    sync = view.sync
    if sync is None or not view.failures_since(view.revision):
        return ""
    failure = sync.detail if sync.state is JobState.FAILED else failure_before(sync.detail)
    return f"{FAILED_BEFORE}{failure}" if failure else ""


def backoff_seconds(failures: int) -> float:
    """How long a job backs off after so many failures in a row: doubling, with a limit."""
    return float(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(max(failures, 1) - 1, 10)))


# ---- the log


def _progress(job: JobRow, decision: Record[Plan] | Record[Rollout]) -> tuple[LogEvent, ...]:
    """What was seen of a wave is no progress of its own."""
    match decision:
        case Record(Plan() as plan, commit, why=str(why)) if why:
            event = "job awaits tasks" if commit is None else "job rescales anew"
            return (LogEvent(event, job.job, plan.revision, RESCALE, {**_about(plan), "why": why}),)
        case Record(Plan() as plan):
            return (LogEvent("job rescales", job.job, plan.revision, RESCALE, _about(plan)),)
        case Record(Rollout() as plan, rejected=Rejected() as rejected):
            about = {"package": rejected.package, "why": plan.why}
            return (LogEvent("package rejected", job.job, plan.revision, ROLLOUT, about),)
        case Record(Rollout() as plan, Commit()):
            return (LogEvent("job rolls", job.job, plan.revision, ROLLOUT, {"step": plan.describe()}),)
    return ()


def _about(plan: Plan) -> Mapping[str, Any]:
    about = {"step": plan.step.value, "to_generation": plan.generation, "container": plan.container}
    return {**about, **_uncopied(plan)}


def _uncopied(plan: Plan) -> Mapping[str, Any]:
    return {"uncopied": plan.uncopied} if plan.uncopied else {}


def _commit_kind(view: JobView, commit: Commit) -> str:
    if view.running is None:
        return "first"
    if commit.stopping:
        return "delete"
    kind = ChangeKind.RESTART if commit.restarts > view.running.restarts else commit.difference.kind
    return kind.name.lower()
