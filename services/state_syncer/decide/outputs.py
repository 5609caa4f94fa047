"""Which outputs must be made before the commit after which tasks write to them. Pure."""

from __future__ import annotations

from penstock.tasks.sinks import needs_sink
from services.state_syncer.decide.decisions import Commit, StartRescale
from services.state_syncer.decide.view import JobView


def awaits_sink(view: JobView, commit: Commit) -> bool:
    """Whether the output of a commit may not exist yet. A job that never started has made none. A job that started
    has made the output of its running configuration."""
    if commit.stopping or not needs_sink(commit.config):
        return False
    if view.running is None or not view.running.started:
        return commit.asks_for_tasks
    return bool(commit.config["output"] != view.running.config["output"])


def end_of(view: JobView, start: StartRescale) -> Commit:
    """The final commit of a plan, with its output. The output is made before the job is stopped."""
    generation = 0 if view.running is None else view.running.generation
    return Commit(start.config, view.revision, generation, view.restarts, difference=start.difference)
