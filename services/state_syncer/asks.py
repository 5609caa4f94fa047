"""What a step asks of a container, as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.config.classify import classify
from penstock.config.model import ChangeKind, JobConfig
from penstock.tasks.redistribution import Layout, RedistributionRequest, SealRequest
from penstock.tasks.spec import key_group_ranges
from penstock.tasks.work import HostWork
from services.state_syncer.diff import Config
from services.state_syncer.plan import Running, only
from services.state_syncer.progress import Plan, Step


class AskKey(NamedTuple):
    """One attempt at a step; after a failure or a loss it is another one. `number`: the generation, a
    revision, or that of a savepoint."""

    job: str
    step: str
    number: int | None
    container: str | None
    failures: int
    losses: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A container at `url` shall do this, or say how far it is."""

    key: AskKey
    url: str
    request: HostWork


def key_of(job: str, plan: Plan, failures: int) -> AskKey:
    """The attempt that a plan is at, after so many failures."""
    return AskKey(job, plan.step, plan.generation, plan.container, failures, plan.losses)


def request_of(job: str, plan: Plan, running: Running) -> RedistributionRequest | SealRequest:
    """What the container is asked. Raises ValueError (pydantic's, too) when a configuration cannot be read."""
    source = layout(running.generation, running.config)
    if plan.step is Step.SEAL:
        return SealRequest(job=job, layout=source)
    if plan.generation is None:
        raise ValueError(f"the plan of {job} has taken no generation")
    if plan.restore is not None:
        saved = layout(plan.restore.generation, plan.restore.config)
        source = saved.model_copy(update={"savepoint": plan.restore.savepoint})
        return RedistributionRequest(job=job, source=source, target=layout(plan.generation, plan.config))
    return RedistributionRequest(job=job, source=source, target=layout(plan.generation, target_config(running, plan)))


def target_config(running: Running, plan: Plan) -> Config:
    """What runs, with the rescaled fields of the plan: all else of the write comes with the commit."""
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
