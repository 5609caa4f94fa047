"""The next step for a job. Its recorded plan, if any, determines which module decides. Pure."""

from __future__ import annotations

from datetime import datetime

from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import Decision
from services.state_syncer.decide.progress import Progress
from services.state_syncer.decide.rescale import continue_rescale
from services.state_syncer.decide.rollout import continue_rollout
from services.state_syncer.decide.view import JobView, Running
from services.state_syncer.decide.waves import Rolling, RolloutPolicy


def next_step(view: JobView, now: datetime, policy: RolloutPolicy) -> Decision:
    """The decision about a job. A deletion goes first, whatever plan is recorded. Raises IllegalMove."""
    match view:
        case JobView(deleting=True):
            return decide(view, now)
        case JobView(progress=Progress() as progress, running=Running() as running):
            return continue_rescale(view, running, progress, now)
        case JobView(rolling=Rolling() as rolling, running=Running() as running):
            return continue_rollout(view, running, rolling, now, policy)
    return decide(view, now)
