"""The effects of a decision: what to commit, record, ask and log, and whether the next round must come soon. Pure.

Each decision has one case here. `round.fold` writes the effects of all jobs of a round at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.config.model import ChangeKind
from penstock.tasks.rollout import Rejected
from services.state_syncer.decide.decisions import (
    AwaitStopped,
    BackingOff,
    Change,
    Commit,
    CommitWave,
    Decision,
    EndRollout,
    Fail,
    Finish,
    FinishRollout,
    Forget,
    Halt,
    Nothing,
    Poll,
    PollWave,
    RecordStep,
    RecordWave,
    RescaleStep,
    Resume,
    RetryStep,
    StartRescale,
    StartRollout,
    StopAndRecord,
    Wait,
)
from services.state_syncer.decide.diff import field_names
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.progress import Plan, describe_step
from services.state_syncer.decide.view import JobRow, JobView, SyncRecord, SyncState
from services.state_syncer.decide.waves import Rollout, describe_wave

QUARANTINE_AFTER_FAILURES = 5
FIRST_BACKOFF_SECONDS = 30.0
LONGEST_BACKOFF_SECONDS = 3600.0

COMMITTED, WAITS, FAILED, STOPPING, FORGOTTEN, RESCALING, RESUMED, ROLLING, ROLLED_OUT, REJECTED = (
    "job committed",
    "job waits",
    "job failed to sync",
    "job stops",
    "job forgotten",
    "job rescales",
    "job resumes",
    "job rolls",
    "package rolled out",
    "package rejected",
)
RESCALE, ROLLOUT = "rescale", "rollout"
_AWAITING = {
    Presence.PRESENT: "stopping: tasks still run",
    Presence.UNKNOWN: "stopping: not every container has reported since",
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
        case StopAndRecord() | RecordStep() | Poll() | Finish() | Resume() | RetryStep():
            return _of_rescale(view, decision, now)
        case CommitWave() | RecordWave() | PollWave() | FinishRollout() | Halt():
            return wave_effects(view, decision)
        case EndRollout(_, commit):
            return replace(_of_change(view, commit, now), plan=PlanWrite(view.job, None, ends_rollout=True), soon=True)
        case _:
            return _of_change(view, decision, now)


def _of_change(view: JobView, decision: Change, now: datetime) -> Effects:
    match decision:
        case Nothing():
            return Effects(record=_synced(view))
        case BackingOff() | StartRescale() | StartRollout():
            return Effects()
        case Wait(detail, difference):
            about = {"detail": detail, "fields": field_names(difference)}
            return Effects(
                record=_waiting(view, decision),
                events=(LogEvent(WAITS, view.job, view.revision, difference.kind.name.lower(), about, if_new=True),),
            )
        case Fail():
            return Effects(record=failed(view, decision, now), events=_failure(view, decision))
        case AwaitStopped(presence):
            told = LogEvent(STOPPING, view.job, view.revision, "delete", {"tasks": presence.value}, if_new=True)
            record = SyncRecord(SyncState.DELETING, view.revision, _AWAITING[presence])
            return Effects(record=record, events=(told,), soon=True)
        case Forget():
            return Effects(forget=True, events=(LogEvent(FORGOTTEN, view.job, view.revision, "delete", {}),))
        case Commit():
            told = LogEvent(COMMITTED, view.job, decision.revision, _commit_kind(view, decision), {})
            return Effects(
                commit=decision,
                record=_committed(view, decision, now),
                events=(told,),
                soon=decision.stopping,
            )


def _of_rescale(view: JobView, decision: RescaleStep, now: datetime) -> Effects:
    """Failures are kept until a plan has come to its end."""
    plan = decision.plan
    about = {"step": plan.step.value, "to_generation": plan.generation, "container": plan.container}
    told = LogEvent(RESCALING, view.job, plan.revision, RESCALE, about)
    ended = PlanWrite(view.job, None)
    match decision:
        case StopAndRecord(_, commit):
            written = PlanWrite(view.job, plan)
            return Effects(commit=commit, plan=written, record=_rescaling(view, plan), events=(told,), soon=True)
        case RecordStep():
            written = PlanWrite(view.job, plan)
            return Effects(plan=written, asks=plan, record=_rescaling(view, plan), events=(told,), soon=True)
        case Poll(_, why):
            return Effects(asks=plan, record=_rescaling(view, plan, why), soon=True)
        case Finish(_, commit, seconds):
            fields = field_names(commit.difference)
            return Effects(
                commit=commit,
                has_state=True,
                plan=ended._replace(seconds=seconds),
                restored=None if plan.restore is None else plan.restore.number,
                record=SyncRecord(SyncState.SYNCED, plan.revision, kind=ChangeKind.RESCALE, fields=fields),
                events=(LogEvent(COMMITTED, view.job, plan.revision, RESCALE, {"seconds": dict(seconds)}),),
                soon=True,
            )
        case Resume(_, commit, failure):
            resumed = LogEvent(RESUMED, view.job, commit.revision, RESCALE, about)
            record = _committed(view, commit, now) if failure is None else failed(view, failure, now)
            events = (resumed, *(() if failure is None else _failure(view, failure)))
            return Effects(commit=commit, plan=ended, record=record, events=events, soon=True)
        case RetryStep(_, failure):
            return Effects(record=failed(view, failure, now), events=_failure(view, failure), soon=True)


def wave_effects(job: JobRow, decision: CommitWave | RecordWave | PollWave | FinishRollout | Halt) -> Effects:
    """The effects of a decision about a rollout under way."""
    plan = decision.plan
    written = PlanWrite(job.job, plan)
    match decision:
        case CommitWave(_, commit):
            told = LogEvent(ROLLING, job.job, plan.revision, ROLLOUT, {"step": describe_wave(plan)})
            return Effects(commit=commit, plan=written, record=_rolling(job, plan), events=(told,), soon=True)
        case RecordWave():
            return Effects(plan=written, record=_rolling(job, plan), soon=True)
        case PollWave(_, waits_for):
            return Effects(record=_rolling(job, plan, waits_for), soon=True)
        case FinishRollout():
            told = LogEvent(ROLLED_OUT, job.job, plan.revision, ROLLOUT, {"tasks": plan.upgraded})
            record = SyncRecord(SyncState.SYNCED, plan.revision, kind=ChangeKind.RESTART, fields=plan.fields)
            ended = PlanWrite(job.job, None, ends_rollout=True)
            return Effects(plan=ended, record=record, events=(told,), soon=True)
        case Halt(_, rejected):
            about = {"package": rejected.package, "why": plan.why}
            told = LogEvent(REJECTED, job.job, plan.revision, ROLLOUT, about)
            halted = written._replace(rejected=rejected)
            return Effects(plan=halted, record=_rolling(job, plan), events=(told,), soon=True)


# ---- the sync states


def _synced(view: JobView) -> SyncRecord:
    """Synced; what the last change was is kept."""
    before = view.sync
    if before is not None and before.state is SyncState.SYNCED:
        return SyncRecord(SyncState.SYNCED, view.revision, kind=before.kind, fields=before.fields)
    return SyncRecord(SyncState.SYNCED, view.revision)


def _waiting(view: JobView, waits: Wait) -> SyncRecord:
    kind, fields = waits.difference.kind, field_names(waits.difference)
    return SyncRecord(waits.state, view.revision, waits.detail, kind, fields, waits.failures)


def _committed(view: JobView, commit: Commit, now: datetime) -> SyncRecord | None:
    if commit.stopping:
        return SyncRecord(SyncState.DELETING, view.revision, _AWAITING[Presence.UNKNOWN])
    match commit.then:
        case None:
            kind, fields = commit.difference.kind, field_names(commit.difference)
            return SyncRecord(SyncState.SYNCED, view.revision, kind=kind, fields=fields)
        case Wait():
            return _waiting(view, commit.then)
        case Fail():
            return failed(view, commit.then, now)
        case BackingOff():
            return None


def _rescaling(view: JobView, plan: Plan, why: str = "") -> SyncRecord:
    detail = f"{plan.step.value}: {why or describe_step(plan)}"
    failures = view.failures_since(plan.revision)
    return SyncRecord(SyncState.RESCALING, plan.revision, detail, ChangeKind.RESCALE, plan.fields, failures)


def _rolling(job: JobRow, plan: Rollout, waits_for: str = "") -> SyncRecord:
    failures = job.failures_since(plan.revision)
    detail = describe_wave(plan, waits_for)
    return SyncRecord(SyncState.ROLLING, plan.revision, detail, ChangeKind.RESTART, plan.fields, failures)


def failed(view: JobView, failure: Fail, now: datetime) -> SyncRecord:
    """The state after one more failure in a row."""
    failures = 1 + view.failures_since(view.revision)
    quarantined = failures >= QUARANTINE_AFTER_FAILURES
    return SyncRecord(
        SyncState.QUARANTINED if quarantined else SyncState.FAILED,
        view.revision,
        failure.detail,
        failure.kind,
        failure.fields,
        failures,
        None if quarantined else now + timedelta(seconds=backoff_seconds(failures)),
    )


def backoff_seconds(failures: int) -> float:
    """How long a job backs off after so many failures in a row: doubling, with a limit."""
    return float(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(max(failures, 1) - 1, 10)))


# ---- the log


def _failure(view: JobView, failure: Fail) -> tuple[LogEvent]:
    details = {"error": failure.detail, "fields": failure.fields}
    return (LogEvent(FAILED, view.job, view.revision, failure.kind.name.lower(), details),)


def _commit_kind(view: JobView, commit: Commit) -> str:
    if view.running is None:
        return "first"
    if commit.stopping:
        return "delete"
    return RESTART if commit.restarts > view.running.restarts else commit.difference.kind.name.lower()


RESTART = ChangeKind.RESTART.name.lower()
