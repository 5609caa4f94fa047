"""The host tasks that the plan of a rescale asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.classify import classify
from penstock.config.model import ChangeKind, JobConfig
from penstock.tasks.redistribution import Layout, RedistributionRequest, SealRequest
from penstock.tasks.selectors import selector_of
from penstock.tasks.spec import key_group_ranges
from services.state_syncer.decide.diff import Config, only
from services.state_syncer.decide.progress import Plan, Step
from services.state_syncer.decide.view import Running
from services.state_syncer.host_tasks.next_attempt import HostTaskState
from services.state_syncer.host_tasks.outcomes import AttemptKey


def key_of(job: str, plan: Plan, failures: int) -> AttemptKey:
    """The key of a plan's present attempt, after so many failures. Steps are named after the kinds of their host
    tasks."""
    return AttemptKey(job, plan.step.value, plan.generation, plan.container, failures, plan.losses)


def task_of(job: str, plan: Plan, failures: int) -> HostTaskState:
    """The host task of a plan's step. A failed redistribution ends its plan, so no attempt came before."""
    key = key_of(job, plan, failures)
    return HostTaskState(key, selector=selector_of(plan.config), avoid=plan.container, ran_on=plan.ran_on)


def request_of(
    job: str, plan: Plan, running: Running, state_bytes: int | None = None
) -> RedistributionRequest | SealRequest:
    """The request to the plan's container. `state_bytes`: the size of the state as the job's tasks reported it.

    Raises ValueError (pydantic's, too) when a configuration cannot be read.
    """
    source = layout(running.generation, running.config)
    if plan.step is Step.SEAL:
        return SealRequest(job=job, layout=source)
    if plan.generation is None:
        raise ValueError(f"the plan of {job} has taken no generation")
    if plan.restore is not None:
        saved = layout(plan.restore.generation, plan.restore.config)
        source = saved.model_copy(update={"savepoint": plan.restore.savepoint})
        target = layout(plan.generation, plan.config)
        return RedistributionRequest(job=job, source=source, target=target, state_bytes=state_bytes)
    return RedistributionRequest(
        job=job,
        source=source,
        target=layout(plan.generation, target_config(running, plan)),
        stopped_at=running.commit_number,
        state_bytes=state_bytes,
    )


def target_config(running: Running, plan: Plan) -> Config:
    """The running configuration with the rescaled fields of the plan. The commit brings the rest of the write."""
    config: Config = running.config
    for change in only(classify(running.config, plan.config), ChangeKind.RESCALE).fields:
        config = _replaced(config, change.path, change.new)
    return config


def layout(generation: int, config: Config) -> Layout:
    """A generation's layout."""
    checked = JobConfig.model_validate(dict(config))
    return Layout(generation=generation, config=checked, ranges=key_group_ranges(checked))


def _replaced(config: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """None is left out: a key of a map that is gone, or the default of a field. A map that is new to this version may
    be absent."""
    first, *rest = path
    if rest:
        return {**config, first: _replaced(config.get(first, {}), tuple(rest), value)}
    others = {name: other for name, other in config.items() if name != first}
    return others if value is None else {**others, first: value}
