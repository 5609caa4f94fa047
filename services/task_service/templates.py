"""All templates of the cell as the store had them at one commit. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from pydantic import ValidationError

from penstock.config.model import DesiredState, JobConfig
from penstock.config.pattern_words import message_of
from penstock.control.logs import logger
from penstock.tasks.rollout import RunningRollout
from penstock.tasks.spec import Before, Coming, TaskTemplate, expand, readable
from penstock.wire.cluster import DIGESTS
from services.task_service.store.rows import Changes, StoredTemplate

log = logger(__name__)

DIGEST_BYTES = 16


@dataclass(frozen=True)
class Broken:
    """A stored configuration that does not validate, and why."""

    commit_number: int
    reason: str


class Row(NamedTuple):
    """A template as JSON, and its digest."""

    text: bytes
    digest: int


@dataclass(frozen=True)
class Templates:
    """Templates by job, older commits first, up to `commit_number`. `removed`: by forgotten job, the commit that forgot
    it.

    A job whose newest row does not validate keeps its last valid template, so that its tasks run on. `store`: the
    incarnation of the job store. `rows`: by job its template as it is sent. `digest`: of all templates together.
    """

    commit_number: int
    shard_count: int
    by_job: dict[str, TaskTemplate]
    removed: Mapping[str, int]
    broken: Mapping[str, Broken]
    store: str
    rows: Mapping[str, Row]
    digest: int

    def above(self, after: int) -> tuple[TaskTemplate, ...]:
        """The templates that were committed above `after`."""
        newest_first = takewhile(lambda each: each.commit_number > after, reversed(self.by_job.values()))
        return tuple(newest_first)[::-1]

    def removed_above(self, after: int) -> tuple[str, ...]:
        """Jobs that were forgotten above `after`."""
        return tuple(sorted(job for job, number in self.removed.items() if number > after))

    def unreadable(self) -> tuple[str, ...]:
        """Jobs whose row does not validate and of which no valid template is known."""
        return tuple(sorted(self.broken.keys() - self.by_job.keys()))


def everything(known: Templates | None, changes: Changes) -> Templates:
    """The templates after a full read. Rows that did not change are not validated again."""
    by_job, broken = _read(known, changes)
    rows = {job: _row_of(job, template, known) for job, template in by_job.items()}
    digest = digest_of(rows.values())
    facts = (changes.removed, broken, changes.incarnation, rows, digest)
    return Templates(changes.commit_number, changes.shard_count, by_job, *facts)


def updated(known: Templates, changes: Changes) -> Templates:
    """The templates after a read of all commits above `known.commit_number` of the same store."""
    fresh, fresh_broken = _read(known, changes)
    gone, named = changes.removed.keys(), fresh.keys() | fresh_broken.keys()
    fresh_rows = {job: _row_of(job, template, known) for job, template in fresh.items()}
    by_job, rows = dict(known.by_job), {**known.rows, **fresh_rows}
    newer = {job: template for job, template in fresh.items() if template is not known.by_job.get(job)}
    for job in (*gone, *newer):
        by_job.pop(job, None)
    by_job |= newer
    for job in gone:
        rows.pop(job, None)
    broken = {job: reason for job, reason in known.broken.items() if job not in named and job not in gone}
    removed = {job: number for job, number in known.removed.items() if job not in named}
    return Templates(
        changes.commit_number,
        changes.shard_count,
        by_job,
        {**removed, **changes.removed},
        {**broken, **fresh_broken},
        changes.incarnation,
        rows,
        _digest_after(known, rows, fresh_rows.keys() | gone),
    )


def digest_of(rows: Iterable[Row]) -> int:
    """The digest of all templates together, in any order."""
    return sum(row.digest for row in rows) % DIGESTS


def _digest_after(known: Templates, rows: Mapping[str, Row], changed: Collection[str]) -> int:
    before = digest_of(known.rows[job] for job in changed if job in known.rows)
    return (known.digest - before + digest_of(rows[job] for job in changed if job in rows)) % DIGESTS


def _row_of(job: str, template: TaskTemplate, known: Templates | None) -> Row:
    if known is not None and known.by_job.get(job) is template:
        return known.rows[job]
    return encoded(template, levels=True)


def encoded(template: TaskTemplate, *, levels: bool) -> Row:
    """A template as it is sent. `levels`: whether to those who know `level_ms`; others are told to take no more rows.

    A Task Manager of an old release refuses fields that it does not know. The digest is without `coming`: of two Task
    Services one may have read the row when the plan of its rescale had changed.
    """
    absent = {name for name in ("before", "quiescing") if not getattr(template, name)}
    if not levels or template.level_ms is None:
        absent.add("level_ms")
    plain = template.model_dump_json(exclude=absent | {"coming"}).encode()
    text = plain if template.coming is None else template.model_dump_json(exclude=absent).encode()
    return Row(text, int.from_bytes(hashlib.blake2b(plain, digest_size=DIGEST_BYTES).digest(), "big"))


def _read(known: Templates | None, changes: Changes) -> tuple[dict[str, TaskTemplate], dict[str, Broken]]:
    """The templates and the broken rows of what was read. A broken job keeps the template that is known."""
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
    return dict(sorted(by_job.items(), key=_commit_number)), broken


def _commit_number(named: tuple[str, TaskTemplate]) -> int:
    return named[1].commit_number


def _parse(stored: StoredTemplate, known: TaskTemplate | None, broken: Broken | None) -> TaskTemplate | Broken:
    for same in (known, broken):
        if same is not None and same.commit_number == stored.commit_number:
            return same
    try:
        return template_of(stored, known)
    except ValueError as error:
        return Broken(stored.commit_number, str(error))


def template_of(stored: StoredTemplate, known: TaskTemplate | None = None) -> TaskTemplate:
    """The template of a stored row; `known`: of the row before. The template of a job that must stop asks for no tasks.

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
        coming=_coming(stored, known),
    )
    expand(template)
    return template


def _coming(stored: StoredTemplate, known: TaskTemplate | None) -> Coming | None:
    """What cannot be read is left out: it only saves time. It is logged at the first commit of the rescale."""
    try:
        coming = readable(None if stored.coming is None else Coming.model_validate_json(stored.coming))
    except ValueError as error:
        if known is None or not _is_held(known):
            log.warning("tasks of a rescale are not prepared: its plan is broken", job=stored.job, error=_line(error))
        return None
    return None if coming is None or coming.config.desired_state is DesiredState.STOPPED else coming


def _is_held(template: TaskTemplate) -> bool:
    return template.quiescing or template.config.desired_state is DesiredState.STOPPED


def _line(error: ValueError) -> str:
    """The field and the rule of the first problem. No value: it may be a secret."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'plan'}: {message_of(first)}"


def _before(stored: StoredTemplate) -> Before | None:
    """What tasks that are not yet upgraded run. A rollout of another revision than the row's is over."""
    if stored.rollout is None:
        return None
    rollout = RunningRollout.model_validate_json(stored.rollout)
    if rollout.revision != stored.revision:
        return None
    return Before(upgraded=rollout.upgraded, **rollout.before.model_dump())
