"""The decision about a job that is being deleted: stop its tasks; once they are gone, forget the job. Pure."""

from __future__ import annotations

from penstock.config.model import DesiredState
from services.state_syncer.decide.decisions import AwaitStopped, Commit, Forget
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.view import JobView


def decide_deletion(view: JobView) -> Commit | AwaitStopped | Forget:
    """The next step. A recorded plan is not touched: it is deleted with the job."""
    running = view.running
    if running is None or not running.started:
        return Forget()
    if not running.stopping:
        stopped = {**running.config, "desired_state": DesiredState.STOPPED.value}
        revision = max(view.revision, running.revision)
        return Commit(stopped, revision, running.generation, running.restarts, stopping=True)
    return Forget() if view.presence is Presence.ABSENT else AwaitStopped(view.presence)
