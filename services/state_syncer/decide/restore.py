"""The decision about a job that must start from a savepoint. Pure."""

from __future__ import annotations

from penstock.config.classify import Difference, classify
from penstock.config.model import ChangeKind, DesiredState
from services.state_syncer.decide.decisions import Commit, Fail, StartRescale, Wait
from services.state_syncer.decide.diff import Config, field_names, only
from services.state_syncer.decide.progress import Restore
from services.state_syncer.decide.view import JobView


def decide_restore(view: JobView, expected: Config, restore: Restore) -> StartRescale | Fail | Commit:
    """A restore is a rescale whose source is the savepoint.

    A job that never ran is first committed as stopped: it must not read anything before the savepoint is in place.
    """
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
        return refuse(difference)
    return StartRescale(expected, only(difference, ChangeKind.RESCALE), restore)


def refuse(difference: Difference) -> Fail:
    """The failure of a change that needs a new job."""
    names = field_names(only(difference, ChangeKind.FORBIDDEN))
    detail = (
        f"{', '.join(names)} cannot change in a job that has run: its checkpoints would not fit. "
        "Make a new job with the new configuration, or take the change back"
    )
    return Fail(detail, ChangeKind.FORBIDDEN, names)
