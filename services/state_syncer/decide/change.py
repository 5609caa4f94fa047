"""The decision about a job without a recorded plan: compares the expected with the running configuration. Pure.

A decision that was not carried out is made again in the next round, from what the store then has.
"""

from __future__ import annotations

from datetime import datetime

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.tasks.rollout import RunningRollout, is_upgrade
from services.state_syncer.decide.decisions import (
    BackingOff,
    Change,
    Commit,
    Fail,
    Nothing,
    StartRescale,
    StartRollout,
    Wait,
)
from services.state_syncer.decide.deletion import decide_deletion
from services.state_syncer.decide.diff import Config, Unusable, only
from services.state_syncer.decide.restore import decide_restore, refuse
from services.state_syncer.decide.view import JobView, Running, SyncRecord, SyncState


def decide(view: JobView, now: datetime) -> Change:
    """The next step for a job, as if it had no recorded plan."""
    if view.deleting:
        return decide_deletion(view)
    decision = _decide_change(view, now)
    return decision if isinstance(decision, Nothing | StartRescale | StartRollout | Commit) else wait(view, decision)


def wait(view: JobView, decision: Wait | Fail | BackingOff) -> Wait | Fail | BackingOff | Commit:
    """The decision when a change cannot be made now. A restart that a user asked for is committed all the same.

    A restart belongs to no write: the job restarts with its running configuration, and the change waits.
    """
    running = view.running
    if running is None or running.stopping or running.restarts >= view.restarts:
        return decision
    rollout = restarted(running.rollout, view.restarts)
    return Commit(running.config, running.revision, running.generation, view.restarts, then=decision, rollout=rollout)


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
    if sync.state is SyncState.QUARANTINED:
        return True
    return sync.state is SyncState.FAILED and sync.next_attempt_at is not None and now < sync.next_attempt_at


def _decide_change(view: JobView, now: datetime) -> Nothing | BackingOff | StartRescale | StartRollout | Fail | Commit:
    if is_backing_off(view.sync, view.revision, now):
        return BackingOff()
    if isinstance(view.expected, Unusable):
        fields = () if view.expected.field is None else (view.expected.field,)
        return Fail(f"the layers merge to no valid configuration: {view.expected.reason}", fields=fields)
    if view.restore is not None:
        return decide_restore(view, view.expected, view.restore)
    if view.running is None:
        return Commit(view.expected, view.revision, view.last_generation + 1, view.restarts)
    return _bring(view, view.expected, view.running)


def _bring(view: JobView, expected: Config, running: Running) -> Nothing | StartRescale | StartRollout | Fail | Commit:
    difference = classify(running.config, expected)
    if running.started and difference.kind is ChangeKind.FORBIDDEN:
        return refuse(difference)
    if running.started and difference.kind is ChangeKind.RESCALE:
        return StartRescale(expected, only(difference, ChangeKind.RESCALE))
    is_whole = not running.stopping and running.rollout is None
    if not difference.fields and is_whole and _is_current(view, running):
        return Nothing()
    commit = Commit(expected, view.revision, running.generation, view.restarts, difference=difference)
    return StartRollout(commit) if _is_release(running, commit) else commit


def _is_current(view: JobView, running: Running) -> bool:
    return running.revision >= view.revision and running.restarts >= view.restarts


def _is_release(running: Running, commit: Commit) -> bool:
    """Whether tasks that run get another package than all of them had last."""
    if not (running.started and running.asks_for_tasks and commit.asks_for_tasks):
        return False
    is_mixed = running.rollout is not None
    difference = classify(running.last_whole, commit.config) if is_mixed else commit.difference
    return is_upgrade(tuple(change.path for change in difference.fields))
