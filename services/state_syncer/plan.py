"""What to do about a job: a pure function from what the store says of it to one decision.

Nothing here remembers or acts. A decision that could not be carried out is simply made again next round, from
what the store says then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from penstock.config.classify import NO_DIFFERENCE, Difference, classify
from penstock.config.model import ChangeKind, DesiredState
from penstock.tasks.rollout import RunningRollout, is_upgrade
from services.state_syncer.diff import Config, Unusable
from services.state_syncer.observe import Presence
from services.state_syncer.progress import Progress, Restore
from services.state_syncer.waves import Rolling

QUARANTINE_AFTER_FAILURES = 5
FIRST_BACKOFF_SECONDS = 30.0
LONGEST_BACKOFF_SECONDS = 3600.0


class SyncState(StrEnum):
    """The states of `sync_state`. `queued`: the blast-radius budget puts the job's rescale or rollout off. `pending` is
    only ever written by the Job Service: look at the job afresh.
    """

    SYNCED = "synced"
    PENDING = "pending"
    WAITING = "waiting"
    QUEUED = "queued"
    RESCALING = "rescaling"
    ROLLING = "rolling"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class Running:
    """What the job has been brought to. `started`: some commit asked for tasks, so checkpoints may exist. `rollout`:
    only some of the tasks run `config`."""

    config: Config
    revision: int
    generation: int
    restarts: int
    stopping: bool
    started: bool
    commit_number: int
    rollout: RunningRollout | None = None

    @property
    def asks_for_tasks(self) -> bool:
        """Whether tasks shall run."""
        return not self.stopping and bool(self.config["desired_state"] == DesiredState.RUNNING)

    @property
    def settled(self) -> Config:
        """The configuration that all tasks ran last."""
        return self.config if self.rollout is None else self.rollout.before.config


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """How the last attempt on a job ended; what `/sync` shows."""

    state: SyncState
    revision: int
    detail: str = ""
    kind: ChangeKind = ChangeKind.NONE
    fields: tuple[str, ...] = ()
    failures: int = 0
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """All that a decision about a job is made from.

    `last_generation` is that of a job of the same name that was forgotten, 0 without one. `presence` is looked at
    only for a job whose stop has been committed. `progress` is that of the recorded plan, if there is one. `restore`:
    the one that was asked for and is not done. `rolling` is the recorded rollout, if there is one.
    """

    job: str
    revision: int
    restarts: int
    deleting: bool
    expected: Config | Unusable
    running: Running | None = None
    sync: SyncRecord | None = None
    last_generation: int = 0
    presence: Presence = Presence.UNKNOWN
    progress: Progress | None = None
    restore: Restore | None = None
    rolling: Rolling | None = None

    @property
    def failures(self) -> int:
        """The failures in a row that the job has behind it."""
        return 0 if self.sync is None else self.sync.failures

    def failures_since(self, revision: int) -> int:
        """Those of them behind this write, or a later one: a new write begins without."""
        return 0 if self.sync is None or self.sync.revision < revision else self.sync.failures


@dataclass(frozen=True, slots=True)
class Nothing:
    """The job runs what it should."""


@dataclass(frozen=True, slots=True)
class Held:
    """Quarantined, or its next attempt is not due: nothing is tried and nothing written."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The change cannot be made yet; none of it is. `failures` in a row are behind it."""

    detail: str
    difference: Difference
    failures: int = 0
    state: SyncState = SyncState.WAITING


@dataclass(frozen=True, slots=True)
class Begin:
    """Checkpoints must be redistributed for it: a plan may begin, when there is room for one (`rescale`, `budget`)."""

    config: Config
    difference: Difference
    restore: Restore | None = None


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A new package for tasks that run: it goes out in waves, when there is room (`rollout`, `budget`). `commit`: what
    it comes to."""

    commit: Commit

    @property
    def config(self) -> Config:
        """What is to run."""
        return self.commit.config

    @property
    def difference(self) -> Difference:
        """What changes."""
        return self.commit.difference


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt failed and leaves the job as it runs."""

    detail: str
    kind: ChangeKind = ChangeKind.NONE
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Make this the running row. `then` is the decision about the rest when only a restart could be committed.
    `rollout`: which tasks do not run `config` yet."""

    config: Config
    revision: int
    generation: int
    restarts: int
    stopping: bool = False
    difference: Difference = field(default=NO_DIFFERENCE)
    then: Wait | Fail | Held | None = None
    rollout: RunningRollout | None = None

    @property
    def asks_for_tasks(self) -> bool:
        """Whether tasks start because of it."""
        return bool(self.config["desired_state"] == DesiredState.RUNNING)


@dataclass(frozen=True, slots=True)
class AwaitStopped:
    """The stop is committed; tasks are still there, or it is not known whether they are."""

    presence: Presence


@dataclass(frozen=True, slots=True)
class Forget:
    """No task of the deleted job is left: remove it."""


Decision = Nothing | Held | Wait | Begin | Upgrade | Fail | Commit | AwaitStopped | Forget


def decide(view: JobView, now: datetime) -> Decision:
    """The one next step for a job."""
    if view.deleting:
        return _decide_deletion(view)
    decision = _decide_change(view, now)
    return decision if isinstance(decision, Nothing | Begin | Upgrade | Commit) else wait(view, decision)


def wait(view: JobView, decision: Wait | Fail | Held) -> Wait | Fail | Held | Commit:
    """What is left of a decision to do nothing now: a restart that was asked for is not put off by it."""
    return _restart_meanwhile(view, decision) or decision


def _decide_deletion(view: JobView) -> Commit | AwaitStopped | Forget:
    running = view.running
    if running is None or not running.started:
        return Forget()
    if not running.stopping:
        stopped = {**running.config, "desired_state": DesiredState.STOPPED.value}
        revision = max(view.revision, running.revision)
        return Commit(stopped, revision, running.generation, running.restarts, stopping=True)
    return Forget() if view.presence is Presence.ABSENT else AwaitStopped(view.presence)


def _decide_change(view: JobView, now: datetime) -> Nothing | Held | Begin | Upgrade | Fail | Commit:
    if is_held(view.sync, view.revision, now):
        return Held()
    if isinstance(view.expected, Unusable):
        fields = () if view.expected.field is None else (view.expected.field,)
        return Fail(f"the layers merge to no valid configuration: {view.expected.reason}", fields=fields)
    if view.restore is not None:
        return _restore(view, view.expected, view.restore)
    if view.running is None:
        return Commit(view.expected, view.revision, view.last_generation + 1, view.restarts)
    return _bring(view, view.expected, view.running)


def _bring(view: JobView, expected: Config, running: Running) -> Nothing | Begin | Upgrade | Fail | Commit:
    difference = classify(running.config, expected)
    if running.started and difference.kind is ChangeKind.FORBIDDEN:
        return _refuse(difference)
    if running.started and difference.kind is ChangeKind.RESCALE:
        return Begin(expected, only(difference, ChangeKind.RESCALE))
    is_whole = not running.stopping and running.rollout is None
    if not difference.fields and is_whole and _is_current(view, running):
        return Nothing()
    commit = Commit(expected, view.revision, running.generation, view.restarts, difference=difference)
    return Upgrade(commit) if _is_upgrade(running, commit) else commit


def _is_upgrade(running: Running, commit: Commit) -> bool:
    """Whether tasks that run get another package than all of them had last."""
    if not (running.started and running.asks_for_tasks and commit.asks_for_tasks):
        return False
    is_mixed = running.rollout is not None
    difference = classify(running.settled, commit.config) if is_mixed else commit.difference
    return is_upgrade(tuple(change.path for change in difference.fields))


def _restore(view: JobView, expected: Config, restore: Restore) -> Begin | Fail | Commit:
    """A job that never ran is committed stopped first: it must not read anything before it has the savepoint."""
    refused = only(classify(restore.config, expected), ChangeKind.FORBIDDEN)
    if refused.fields:
        names = field_names(refused)
        detail = f"{', '.join(names)} differ from what savepoint {restore.savepoint.name} was taken with"
        return Fail(detail, ChangeKind.FORBIDDEN, names)
    running = view.running
    if running is None:
        stopped = {**expected, "desired_state": DesiredState.STOPPED.value}
        waits = Wait("to be restored", Difference(ChangeKind.RESCALE, ()))
        return Commit(stopped, view.revision, view.last_generation + 1, view.restarts, then=waits)
    difference = classify(running.config, expected)
    if running.started and difference.kind is ChangeKind.FORBIDDEN:
        return _refuse(difference)
    return Begin(expected, only(difference, ChangeKind.RESCALE), restore)


def _is_current(view: JobView, running: Running) -> bool:
    return running.revision >= view.revision and running.restarts >= view.restarts


def _refuse(difference: Difference) -> Fail:
    names = field_names(only(difference, ChangeKind.FORBIDDEN))
    detail = (
        f"{', '.join(names)} cannot change in a job that has run: its checkpoints would not fit. "
        "Make a new job with the new configuration, or take the change back"
    )
    return Fail(detail, ChangeKind.FORBIDDEN, names)


def only(difference: Difference, kind: ChangeKind) -> Difference:
    """The part of a difference that is of this kind."""
    return Difference(kind, tuple(change for change in difference.fields if change.kind is kind))


def field_names(difference: Difference) -> tuple[str, ...]:
    """The dotted paths of the fields that differ, in order."""
    return tuple(sorted(change.field for change in difference.fields))


def _restart_meanwhile(view: JobView, rest: Wait | Fail | Held) -> Commit | None:
    """A restart that was asked for is no part of a write: the job restarts as it runs, whatever else must wait."""
    running = view.running
    if running is None or running.stopping or running.restarts >= view.restarts:
        return None
    return Commit(
        running.config,
        running.revision,
        running.generation,
        view.restarts,
        then=rest,
        rollout=restarted(running.rollout, view.restarts),
    )


def restarted(rollout: RunningRollout | None, restarts: int) -> RunningRollout | None:
    """A restart that was asked for is one of all tasks."""
    if rollout is None:
        return None
    before = rollout.before.model_copy(update={"restarts": restarts})
    return rollout.model_copy(update={"before": before})


def is_held(sync: SyncRecord | None, revision: int, now: datetime) -> bool:
    """Whether failures hold off the next attempt."""
    if sync is None or sync.revision < revision:
        return False
    if sync.state is SyncState.QUARANTINED:
        return True
    return sync.state is SyncState.FAILED and sync.next_attempt_at is not None and now < sync.next_attempt_at


def next_record(view: JobView, decision: Decision, now: datetime) -> SyncRecord | None:
    """The sync state that a decision leads to; None when the row goes, or stays as it is."""
    match decision:
        case Held() | Forget() | Begin() | Upgrade():
            return None
        case Nothing():
            return _synced(view)
        case Wait(detail, difference, failures, state):
            fields = field_names(difference)
            return SyncRecord(state, view.revision, detail, difference.kind, fields, failures)
        case Fail():
            return failed(view, decision, now)
        case AwaitStopped(presence):
            return SyncRecord(SyncState.DELETING, view.revision, _AWAITING[presence])
        case Commit(stopping=True):
            return SyncRecord(SyncState.DELETING, view.revision, _AWAITING[Presence.UNKNOWN])
        case Commit(then=None):
            kind, fields = decision.difference.kind, field_names(decision.difference)
            return SyncRecord(SyncState.SYNCED, view.revision, kind=kind, fields=fields)
        case Commit():
            return next_record(view, decision.then, now) if decision.then is not None else None


_AWAITING = {
    Presence.PRESENT: "stopping: tasks still run",
    Presence.UNKNOWN: "stopping: not every container has reported since",
    Presence.ABSENT: "stopping: its tasks are gone",
}


def _synced(view: JobView) -> SyncRecord:
    """Synced, keeping what the last change was."""
    before = view.sync
    if before is not None and before.state is SyncState.SYNCED:
        return SyncRecord(SyncState.SYNCED, view.revision, kind=before.kind, fields=before.fields)
    return SyncRecord(SyncState.SYNCED, view.revision)


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
    """How long to leave a job alone after so many failures in a row: doubling, with a limit."""
    return float(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(max(failures, 1) - 1, 10)))
