"""What is stored of a job in the form that decisions take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from penstock.config.keygroups import key_group_count, ranges
from penstock.config.merge import overlay
from penstock.config.validate import read_merged
from penstock.control.errors import InvalidConfig
from penstock.tasks.rollout import OrderedRollout, RunningRollout, SeenTask
from services.state_syncer.decide.progress import Plan, PlanRow, Progress
from services.state_syncer.decide.view import Config, JobView, Running, Unusable
from services.state_syncer.decide.waves import Rolling, Rollout


def expected_config(layers: Sequence[Config]) -> Config | Unusable:
    """The complete configuration, as JSON, that `layers` (lowest first) ask for.

    The Job Service has accepted each layer, so a rule between fields that they break is newer than the job. A task
    without input is never made all the same.
    """
    if not layers:
        return Unusable("the job has no layer with a configuration", None)
    if not all(isinstance(layer, dict) for layer in layers):
        return Unusable("one of its recorded layers is no map of fields", None)
    try:
        config = read_merged(reduce(overlay, layers))
        ranges(key_group_count(config), config.task_count, config.key_group_bounds)
    except InvalidConfig as error:
        return Unusable(f"the layers merge to no valid configuration: {error.detail}", error.field)
    except ValueError as error:
        return Unusable(f"the layers merge to no valid configuration: {error}", "task_count")
    return config.model_dump(mode="json")


def expected_of(merged: Config | None, layers: Sequence[Config]) -> Config | Unusable:
    """The expected configuration: `merged`, as the Job Service stored it, or else the merge of the layers."""
    return merged or expected_config(layers)


def with_recorded(
    view: JobView,
    rollout: Mapping[str, Any] | None,
    row: PlanRow | None,
    tasks: Mapping[int, SeenTask],
    order: Mapping[str, Any] | None = None,
) -> JobView:
    """The view with what is recorded of the job: `running.rollout`, and the plan, of a rollout with its tasks and an
    operator's order.

    A rollout or a plan that this version cannot read leaves the job as it is, with the reason.
    """
    running = view.running
    if rollout is not None and running is not None:
        try:
            view = _with_rollout(view, running, RunningRollout.model_validate(rollout))
        except ValueError as error:
            # A restart would commit the running row without its rollout, so the restart waits.
            unusable = Unusable(f"its recorded rollout cannot be read: {error}", "rollout")
            return replace(view, expected=unusable, restarts=running.restarts)
    return view if row is None else _with_plan(view, row, tasks, order)


def order_of(recorded: Mapping[str, Any] | None) -> OrderedRollout | None:
    """What an operator asked of a rollout, as it is recorded. Raises ValueError for what this version cannot read."""
    return None if recorded is None else OrderedRollout.model_validate(recorded)


def _with_rollout(view: JobView, running: Running, rollout: RunningRollout) -> JobView:
    """A State Syncer of an older version does not know rollouts: what it committed has another revision. The rollout
    is over then."""
    if rollout.revision != running.revision:
        return view
    return replace(view, running=replace(running, rollout=rollout))


def _with_plan(view: JobView, row: PlanRow, tasks: Mapping[int, SeenTask], order: Mapping[str, Any] | None) -> JobView:
    try:
        if row.is_rollout:
            return replace(view, rolling=Rolling(Rollout.model_validate(row.plan), tasks, order_of(order)))
        plan = Plan.model_validate(row.plan)
    except ValueError as error:
        return replace(view, expected=Unusable(f"its recorded plan cannot be read: {error}", "plan"))
    level_ms = None if view.running is None else view.running.level_ms
    return replace(view, progress=Progress(plan.under(level_ms), row.newest_generation))
