"""All templates of the cell as the store had them at one commit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.config.model import DesiredState, JobConfig
from penstock.tasks.rollout import RunningRollout
from penstock.tasks.spec import Before, TaskTemplate, expand
from services.task_service.store.rows import Changes, StoredTemplate


@dataclass(frozen=True)
class Broken:
    """A stored configuration that does not validate, and why."""

    commit_number: int
    reason: str


@dataclass(frozen=True)
class Templates:
    """Templates by job, up to `commit_number`. `removed`: by forgotten job, the commit that forgot it.

    A job whose newest row does not validate keeps its last valid template, so that its tasks run on.
    """

    commit_number: int
    shard_count: int
    by_job: Mapping[str, TaskTemplate]
    removed: Mapping[str, int]
    broken: Mapping[str, Broken]

    def above(self, after: int) -> tuple[TaskTemplate, ...]:
        """The templates that were committed above `after`."""
        return tuple(template for template in self.by_job.values() if template.commit_number > after)

    def removed_above(self, after: int) -> tuple[str, ...]:
        """Jobs that were forgotten above `after`."""
        return tuple(sorted(job for job, number in self.removed.items() if number > after))

    def unreadable(self) -> tuple[str, ...]:
        """Jobs whose row does not validate and of which no valid template is known."""
        return tuple(sorted(self.broken.keys() - self.by_job.keys()))


def everything(known: Templates | None, changes: Changes) -> Templates:
    """The templates after a full read. Rows that did not change are not validated again."""
    old = known.by_job if known is not None else {}
    old_broken = known.broken if known is not None else {}
    by_job: dict[str, TaskTemplate] = {}
    broken: dict[str, Broken] = {}
    for stored in changes.stored:
        template = _parse(stored, old.get(stored.job), old_broken.get(stored.job))
        if isinstance(template, Broken):
            broken[stored.job] = template
        kept = old.get(stored.job) if isinstance(template, Broken) else template
        if kept is not None:
            by_job[stored.job] = kept
    return Templates(changes.commit_number, changes.shard_count, by_job, changes.removed, broken)


def updated(known: Templates, changes: Changes) -> Templates:
    """The templates after a read of all commits above `known.commit_number`."""
    fresh = everything(known, changes)
    gone = changes.removed.keys()
    named = fresh.by_job.keys() | fresh.broken.keys()
    kept = {job: template for job, template in known.by_job.items() if job not in gone}
    broken = {job: reason for job, reason in known.broken.items() if job not in named and job not in gone}
    removed = {job: number for job, number in known.removed.items() if job not in named}
    return Templates(
        changes.commit_number,
        changes.shard_count,
        {**kept, **fresh.by_job},
        {**removed, **changes.removed},
        {**broken, **fresh.broken},
    )


def _parse(stored: StoredTemplate, known: TaskTemplate | None, broken: Broken | None) -> TaskTemplate | Broken:
    for same in (known, broken):
        if same is not None and same.commit_number == stored.commit_number:
            return same
    try:
        return template_of(stored)
    except ValueError as error:
        return Broken(stored.commit_number, str(error))


def template_of(stored: StoredTemplate) -> TaskTemplate:
    """The template of a stored row. The template of a job that must stop asks for no tasks.

    Raises ValueError (pydantic's are ValueErrors) when the configuration does not validate.
    """
    config = JobConfig.model_validate_json(stored.config)
    if stored.stopping:
        config = config.model_copy(update={"desired_state": DesiredState.STOPPED})
    template = TaskTemplate(
        job=stored.job,
        commit_number=stored.commit_number,
        revision=stored.revision,
        generation=stored.generation,
        restarts=stored.restarts,
        config=config,
        before=_before(stored),
        quiescing=stored.quiescing,
        level_ms=stored.level_ms,
    )
    expand(template)
    return template


def _before(stored: StoredTemplate) -> Before | None:
    """What tasks that are not yet upgraded run. A rollout of another revision than the row's is over."""
    if stored.rollout is None:
        return None
    rollout = RunningRollout.model_validate_json(stored.rollout)
    if rollout.revision != stored.revision:
        return None
    return Before(upgraded=rollout.upgraded, **rollout.before.model_dump())
