"""The decision about a job without a recorded plan: compares the expected with the running configuration. Pure.

A decision that was not carried out is made again in the next round, from what the store then has.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from penstock.config.classify import INSTEAD, Difference, classify
from penstock.config.model import ChangeKind, DesiredState
from penstock.model.jobs import JobState
from penstock.tasks.host_task import INITIALIZE_SINK
from penstock.tasks.rollout import RunningRollout, is_upgrade
from penstock.tasks.sinks import is_prepared, prepared_part
from services.state_syncer.decide.decisions import (
    AwaitStopped,
    BackingOff,
    Change,
    Commit,
    Fail,
    Forget,
    Nothing,
    StartRescale,
    StartRollout,
    Wait,
)
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.view import Config, JobView, Running, SyncRecord, Unusable

_STATE_AND_SIZE = {"desired_state", "task_count", "key_group_bounds", "threads_per_task"}


def decide(view: JobView, now: datetime) -> Change:
    """The next step for a job, as if it had no recorded plan."""
    if view.deleting:
        return _delete(view)
    decision = _decide_change(view, now)
    running = view.running
    if running is not None and running.asks_for_tasks and is_to_stop(view):
        return _stop(view, running, decision)
    return decision if isinstance(decision, Nothing | StartRescale | StartRollout | Commit) else wait(view, decision)


def wait(view: JobView, decision: Wait | Fail | BackingOff) -> Wait | Fail | BackingOff | Commit:
    """The decision when a change cannot be made now. What needs nothing else is committed all the same, with the
    running configuration, and the change waits:

    - A restart that a user asked for: it belongs to no write.
    - The start of a stopped job that only gets another size: it starts with the size that it had.
    """
    running = view.running
    if running is None or running.stopping:
        return decision
    starts = _starts_as_it_was(view, running)
    if running.restarts >= view.restarts and not starts:
        return decision
    config = _with_state(running.config, DesiredState.RUNNING) if starts else running.config
    rollout = restarted(running.rollout, view.restarts)
    return Commit(config, running.revision, running.generation, view.restarts, then=decision, rollout=rollout)


def _starts_as_it_was(view: JobView, running: Running) -> bool:
    """Whether a stopped job is to run, and nothing that its tasks would have to restart for differs but its size."""
    expected = view.expected
    if not running.started or running.asks_for_tasks or view.restore is not None or isinstance(expected, Unusable):
        return False
    changes = [change for change in classify(running.config, expected).fields if change.kind >= ChangeKind.RESTART]
    is_to_run = expected["desired_state"] == DesiredState.RUNNING.value
    return is_to_run and all(change.path[0] in _STATE_AND_SIZE for change in changes)


def is_to_stop(view: JobView) -> bool:
    """Whether no task of the job shall run."""
    expected = view.expected
    return not isinstance(expected, Unusable) and bool(expected["desired_state"] == DesiredState.STOPPED.value)


def _stop(view: JobView, running: Running, decision: Change) -> Change:
    """The tasks stop at once, with the running configuration if the rest of the write cannot be made now."""
    match decision:
        case Commit() if not awaits_sink(view, decision):
            return decision
        case Commit(difference=difference):
            then: Wait | Fail | BackingOff = Wait(INITIALIZE_SINK, difference, view.failures_since(view.revision))
        case StartRescale(commit, restore):
            what = "to be rescaled" if restore is None else "to be restored"
            then = Wait(what, commit.difference, view.failures_since(view.revision))
        case Wait() | Fail() | BackingOff():
            then = decision
        case _:
            return decision
    stopped = stopped_config(running.config)
    difference = classify(running.config, stopped)
    return Commit(stopped, running.revision, running.generation, view.restarts, difference=difference, then=then)


def restarted(rollout: RunningRollout | None, restarts: int) -> RunningRollout | None:
    """The rollout after a restart that a user asked for: all tasks restart, upgraded or not."""
    if rollout is None:
        return None
    before = rollout.before.model_copy(update={"restarts": restarts})
    return rollout.model_copy(update={"before": before})


def is_backing_off(sync: SyncRecord | None, revision: int, now: datetime) -> bool:
    """Whether the job backs off after failures. A write newer than the failed one is tried at once."""
    if sync is None or sync.revision < revision:
        return False
    if sync.state is JobState.QUARANTINED:
        return True
    return sync.state is JobState.FAILED and sync.next_attempt_at is not None and now < sync.next_attempt_at


def awaits_sink(view: JobView, commit: Commit) -> bool:
    """Whether a host must first make the output of a commit, or check its query. A job that never started has neither.
    A job that started has the output of its running configuration, and its query was checked."""
    if commit.stopping:
        return False
    if view.running is None or not view.running.started:
        return commit.asks_for_tasks and bool(prepared_part(commit.config, started=False))
    return not is_prepared(commit.config, view.running.config)


def _delete(view: JobView) -> Commit | AwaitStopped | Forget:
    """Stops the tasks; once they are gone, forgets the job. A recorded plan is deleted with the job."""
    running = view.running
    if running is None or not running.started:
        return Forget()
    if not running.stopping:
        revision = max(view.revision, running.revision)
        return Commit(stopped_config(running.config), revision, running.generation, running.restarts, stopping=True)
    return Forget() if view.presence is Presence.ABSENT else AwaitStopped(view.presence)


def stopped_config(config: Config) -> Config:
    """The same configuration, of a stopped job."""
    return _with_state(config, DesiredState.STOPPED)


def _with_state(config: Config, state: DesiredState) -> Config:
    return {**config, "desired_state": state.value}


def _decide_change(view: JobView, now: datetime) -> Nothing | BackingOff | StartRescale | StartRollout | Fail | Commit:
    expected, running, restore = view.expected, view.running, view.restore
    if is_backing_off(view.sync, view.revision, now):
        return BackingOff()
    if isinstance(expected, Unusable):
        fields = () if expected.field is None else (expected.field,)
        return Fail(expected.reason, fields=fields)
    if restore is not None and (names := _forbidden(classify(restore.config, expected))):
        detail = f"{', '.join(names)} differ from what savepoint {restore.savepoint.name} was taken with"
        return Fail(detail, ChangeKind.FORBIDDEN, names)
    return _first(view, expected) if running is None else _bring(view, expected, running)


def _first(view: JobView, expected: Config) -> Commit:
    """A job that is to be restored must not read anything before the savepoint is in place: it is stopped first."""
    commit = Commit(expected, view.revision, view.last_generation + 1, view.restarts)
    if view.restore is None:
        return commit
    waits = Wait("to be restored", Difference(ChangeKind.RESCALE, ()))
    return replace(commit, config=stopped_config(expected), then=waits)


def _bring(view: JobView, expected: Config, running: Running) -> Nothing | StartRescale | StartRollout | Fail | Commit:
    """A restore is a rescale whose source is the savepoint."""
    difference = classify(running.config, expected)
    commit = Commit(expected, view.revision, running.generation, view.restarts, difference=difference)
    if running.started and (names := _forbidden(difference)):
        detail = f"{', '.join(names)} cannot change once the job has run: take the change back. {INSTEAD}"
        return Fail(detail, ChangeKind.FORBIDDEN, names)
    if view.restore is not None or (running.started and difference.kind is ChangeKind.RESCALE):
        # What tasks do last is not kept by a restore.
        copies = view.restore is None and running.asks_for_tasks
        return StartRescale(replace(commit, difference=difference.only(ChangeKind.RESCALE)), view.restore, copies)
    is_whole = not (running.stopping or running.quiescing) and running.rollout is None
    is_current = running.revision >= view.revision and running.restarts >= view.restarts
    if not difference.fields and is_whole and is_current:
        return Nothing()
    return StartRollout(commit) if _is_release(running, commit) else commit


def _forbidden(difference: Difference) -> tuple[str, ...]:
    return difference.only(ChangeKind.FORBIDDEN).names


def _is_release(running: Running, commit: Commit) -> bool:
    """Whether tasks that run get another package than all of them had last."""
    if not (running.started and running.asks_for_tasks and commit.asks_for_tasks):
        return False
    is_mixed = running.rollout is not None
    difference = classify(running.last_whole, commit.config) if is_mixed else commit.difference
    return is_upgrade(tuple(change.path for change in difference.fields))
