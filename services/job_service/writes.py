"""The decision about a write: the change that it makes, or the error that refuses it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from penstock.config.classify import FieldChange, classify
from penstock.config.merge import LayerConfig, apply_merge_patch, merge
from penstock.config.model import ChangeKind, JobConfig
from penstock.config.validate import check_job_name, check_layer, check_merged
from penstock.control.errors import Conflict, InvalidConfig, NotFound, PreconditionRequired, VersionConflict
from penstock.model.jobs import Action, Change, LayerRow, StoredJob, StoredLayer, layer_configs

BASE = "base"


class Verb(StrEnum):
    """What a write asks for."""

    PUT_JOB = "put_job"
    PUT = "put"
    PATCH = "patch"
    DROP = "drop"
    REVERT = "revert"
    EXPIRE = "expire"
    DELETE_JOB = "delete_job"
    RESTART = "restart"
    RELEASE = "release"
    RESTORE = "restore"


JOB_VERBS = {
    Verb.DELETE_JOB: Action.DELETE,
    Verb.RESTART: Action.RESTART,
    Verb.RELEASE: Action.RELEASE,
    Verb.RESTORE: Action.RESTORE,
}
# EXPIRE checks the expiry instead. PUT_JOB may omit If-Match.
NEED_IF_MATCH = (Verb.PUT, Verb.PATCH, Verb.DROP, Verb.REVERT)


@dataclass(frozen=True, slots=True)
class Precondition:
    """`if_match`: the layer's version; `must_exist`: `If-Match: *`; `must_be_new`: `If-None-Match: *`."""

    if_match: int | None = None
    must_exist: bool = False
    must_be_new: bool = False


@dataclass(frozen=True, slots=True)
class Expiry:
    """Seconds until the written layer is dropped; None: never."""

    seconds: int | None


@dataclass(frozen=True, slots=True)
class Write:
    """A requested write. Without `expiry` the layer's default applies. A REVERT with `config` None drops the layer."""

    verb: Verb
    job: str
    author: str
    layer: str = BASE
    config: Mapping[str, Any] | None = None
    reason: str = ""
    precondition: Precondition = Precondition()
    expiry: Expiry | None = None


Layers = Mapping[str, LayerRow]


def decide(write: Write, job: StoredJob | None, layers: Layers, now: datetime) -> Change | None:
    """The change that the write makes to the job as stored; None when there is nothing left to do.

    Raises NotFound, Conflict, VersionConflict, PreconditionRequired or InvalidConfig.
    """
    if write.verb is Verb.PUT_JOB:
        check_job_name(write.job)
    if job is None or not (job.exists or write.verb is Verb.PUT_JOB):
        raise NotFound(f"there is no job {write.job}", field="job", rule="known")
    if job.deleting:
        _check_on_deleting(write)
        return None
    return _job_change(write, job) if write.verb in JOB_VERBS else _layer_change(write, job, layers, now)


def new_content(write: Write, job: StoredJob) -> Mapping[str, Any] | None:
    """The content of the layer after the write; None when the write drops the layer."""
    if write.verb in (Verb.DROP, Verb.EXPIRE):
        return None
    if write.verb is Verb.PATCH:
        patched: Mapping[str, Any] = apply_merge_patch(job.config(write.layer) or {}, write.config)
        return patched
    return write.config


def merged_with(job: StoredJob, layers: Layers, layer: str, content: Mapping[str, Any] | None) -> JobConfig:
    """The job's whole configuration with `layer` set to `content`. Raises InvalidConfig."""
    if content is not None:
        check_layer(layer, content)
    others = [config for config in layer_configs(job, layers) if config.name != layer]
    return check_merged(merge([*others, *_layer_config(layers[layer], content)]))


def expected(job: StoredJob, layers: Layers) -> Mapping[str, Any]:
    """The job's merged configuration as stored, without defaults."""
    return merge(layer_configs(job, layers))


def forbidden_changes(before: Mapping[str, Any], after: JobConfig) -> Sequence[FieldChange]:
    """The changed leaves whose change kind is `forbidden` for a job that has run."""
    return [change for change in classify(before, after).fields if change.kind is ChangeKind.FORBIDDEN]


def require_layer_row(layers: Layers, layer: str) -> LayerRow:
    """The layer's row. Raises NotFound."""
    if layer not in layers:
        raise NotFound(f"there is no layer {layer}", field="layer", rule="known")
    return layers[layer]


def batches(writes: Sequence[Write]) -> list[list[int]]:
    """Positions of the writes, in batches with at most one write of each job. The writes of a job keep their order."""
    groups: list[list[int]] = []
    seen: dict[str, int] = {}
    for position, write in enumerate(writes):
        turn = seen.get(write.job, 0)
        seen[write.job] = turn + 1
        if turn == len(groups):
            groups.append([])
        groups[turn].append(position)
    return groups


def _check_on_deleting(write: Write) -> None:
    if write.verb not in (Verb.DELETE_JOB, Verb.EXPIRE):
        raise Conflict(f"the job {write.job} is being deleted", field="job", rule="deleting")


def _job_change(write: Write, job: StoredJob) -> Change:
    return Change(
        job=job.name,
        action=JOB_VERBS[write.verb],
        author=write.author,
        reason=write.reason,
        owner=job.owner,
        restarts=job.restarts + (write.verb is Verb.RESTART),
        deleting=write.verb is Verb.DELETE_JOB,
    )


def _layer_change(write: Write, job: StoredJob, layers: Layers, now: datetime) -> Change | None:
    row = require_layer_row(layers, write.layer)
    _check_precondition(write, job)
    if write.verb is Verb.EXPIRE and not _is_due(job.layers.get(write.layer), now):
        return None
    content = new_content(write, job)
    if content is None and job.config(write.layer) is None:
        raise NotFound(f"the job {job.name} has nothing in the layer {write.layer}", field="layer", rule="present")
    after = merged_with(job, layers, write.layer, content)
    if job.has_run:
        _refuse_forbidden(forbidden_changes(expected(job, layers), after))
    return Change(
        job=job.name,
        action=Action.CREATE if not job.exists else _layer_action(write.verb),
        author=write.author,
        reason=write.reason,
        owner=after.owner,
        restarts=job.restarts,
        layer=write.layer,
        old=job.config(write.layer),
        new=content,
        merged=after.model_dump(mode="json"),
        expires_at=None if content is None else _expires_at(write, job.layers.get(write.layer), row, now),
    )


def _layer_action(verb: Verb) -> Action:
    return Action.PUT if verb is Verb.PUT_JOB else Action(verb.value)


def _layer_config(row: LayerRow, content: Mapping[str, Any] | None) -> Iterable[LayerConfig]:
    return () if content is None else (LayerConfig(row.name, row.rank, 0, content),)


def _check_precondition(write: Write, job: StoredJob) -> None:
    wanted, current = write.precondition, job.version(write.layer)
    if wanted.must_be_new and job.exists:
        raise Conflict(
            f"the job {job.name} exists already", field="If-None-Match", rule="if_none_match", current_version=current
        )
    if wanted.must_exist and not job.exists:
        raise NotFound(f"there is no job {job.name}", field="job", rule="known")
    if wanted.if_match is None:
        if write.verb in NEED_IF_MATCH:
            raise PreconditionRequired(
                "send the version of the layer that you have read as If-Match", field="If-Match", rule="required"
            )
    elif wanted.if_match != current:
        raise VersionConflict(
            f"the layer {write.layer} of {job.name} is at version {current}, not {wanted.if_match}",
            current_version=current,
        )


def _is_due(layer: StoredLayer | None, now: datetime) -> bool:
    return layer is not None and layer.config is not None and layer.expires_at is not None and layer.expires_at <= now


def _refuse_forbidden(changes: Sequence[FieldChange]) -> None:
    if changes:
        raise InvalidConfig(
            f"{changes[0].field} cannot change once the job has run: its checkpoints would not fit. Create a new job "
            "with the new value that reads its inputs from the earliest position, then delete this job",
            field=changes[0].field,
            rule="forbidden_change",
            errors=[{"field": change.field, "rule": "forbidden_change"} for change in changes],
        )


def _expires_at(write: Write, present: StoredLayer | None, row: LayerRow, now: datetime) -> datetime | None:
    """The requested expiry. Without one a patch keeps the present expiry; other writes get the default of the layer."""
    if write.expiry is not None:
        seconds = write.expiry.seconds
    elif write.verb is Verb.PATCH and present is not None and present.config is not None and not _is_due(present, now):
        return present.expires_at
    else:
        seconds = row.default_expiry_seconds
    return None if seconds is None else now + timedelta(seconds=seconds)
