"""The decision about a write: the change that it makes, or the error that refuses it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.config.classify import INSTEAD, Config, FieldChange, classify, form_changes
from penstock.config.merge import LayerConfig, apply_merge_patch, merge
from penstock.config.model import DesiredState, JobConfig
from penstock.config.validate import check_change, check_job_name, layer_problems
from penstock.control.errors import Conflict, InvalidConfig, NotFound, PreconditionRequired, VersionConflict
from penstock.control.texts import likely
from penstock.model.jobs import Action, Change, LayerRow, StoredJob, StoredLayer, layer_configs
from services.job_service.layer_expiry import Expiry, require_whole_layer, staying

BASE = "base"


# The actions on the job as a whole.
ON_JOBS = (
    Action.DELETE,
    Action.RESTART,
    Action.RELEASE,
    Action.RESTORE,
    Action.CANCEL_RESTORE,
    Action.PAUSE_ROLLOUT,
    Action.RESUME_ROLLOUT,
    Action.ABORT_ROLLOUT,
)
# EXPIRE checks the expiry instead. CREATE and those on jobs may omit If-Match.
NEED_IF_MATCH = (Action.PUT, Action.PATCH, Action.DROP, Action.REVERT)


@dataclass(frozen=True, slots=True)
class Precondition:
    """`if_match`: the layer's version; `must_exist`: `If-Match: *`; `must_be_new`: `If-None-Match: *`.

    `any_version`: of a patch that says what it wants of the layer, whatever else is in it, as a rescale does.
    """

    if_match: int | None = None
    must_exist: bool = False
    must_be_new: bool = False
    any_version: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A requested write. CREATE replaces the base layer of a job that exists. A REVERT goes back to `version`: its
    `config` is read from the history before it is decided, and None drops the layer. Without `expiry` the layer's
    default applies; a patch that `stays` then never expires. `allow_repeats`: see
    `repeats`."""

    action: Action
    job: str
    author: str
    layer: str = BASE
    config: Mapping[str, Any] | None = None
    reason: str = ""
    precondition: Precondition = Precondition()
    expiry: Expiry | None = None
    version: int | None = None
    stays: bool = False
    allow_repeats: bool = False


Layers = Mapping[str, LayerRow]


def decide(write: Write, job: StoredJob | None, layers: Layers, now: datetime) -> Change | None:
    """The change that the write makes to the job as stored; None when there is nothing left to do.

    Raises NotFound, Conflict, VersionConflict, PreconditionRequired or InvalidConfig.
    """
    if write.action is Action.CREATE:
        check_job_name(write.job)
    if job is None or not (job.exists or write.action is Action.CREATE):
        raise NotFound(f"there is no job {write.job}", field="job", rule="known")
    if job.deleting:
        _check_on_deleting(write)
        return None
    if write.action in ON_JOBS:
        _check_precondition(write, job)
        return _job_change(write, job)
    return _layer_change(write, job, layers, now)


def unknown_job(name: str) -> StoredJob:
    """A job that does not exist, as a write that creates it finds it."""
    return StoredJob(name, 0, 0, deleting=False, owner="", created_at=datetime.min)


def new_content(write: Write, job: StoredJob, now: datetime) -> Mapping[str, Any] | None:
    """The content of the layer after the write; None when the write drops the layer."""
    if write.action in (Action.DROP, Action.EXPIRE):
        return None
    if write.action is Action.PATCH:
        present = unexpired(job, write.layer, now)
        patched: Mapping[str, Any] = apply_merge_patch((present and present.config) or {}, write.config)
        return patched
    return write.config


def unexpired(job: StoredJob, layer: str, now: datetime) -> StoredLayer | None:
    """A layer of a job; None where it has none, and where the layer has expired: it may not be dropped yet."""
    found = job.layers.get(layer)
    if found is None or found.config is None or found.expires_at is None or found.expires_at > now:
        return found
    return None


def merged_with(job: StoredJob, layers: Layers, layer: str, content: Mapping[str, Any] | None) -> JobConfig:
    """The job's whole configuration with `layer` set to `content`. Raises InvalidConfig.

    A job that breaks a newer rule already is only refused what would break another one, or would start it.
    """
    of_layer = () if content is None else layer_problems(layer, content, job.config(layer))
    others = [config for config in layer_configs(job, layers) if config.name != layer]
    after = merge([*others, *_layer_config(layers[layer], content)])
    known = [each for each in (expected(job, layers), job.running) if each]
    if _is_stopped(expected(job, layers)) and not _is_stopped(after):
        known = []
    return check_change(after, known, of_layer)


def _is_stopped(config: Mapping[str, Any]) -> bool:
    return config.get("desired_state") == DesiredState.STOPPED


def expected(job: StoredJob, layers: Layers) -> Mapping[str, Any]:
    """The job's merged configuration as stored, without defaults."""
    return merge(layer_configs(job, layers))


def forbidden_changes(before: Config, after: JobConfig) -> Sequence[FieldChange]:
    """The changed leaves that a job which has run cannot take."""
    difference = classify(before, after)
    return [change for change in difference.fields if change.never_fits] + list(
        form_changes(difference, after.output.type)
    )


def refused_changes(running: Config, before: Config, after: JobConfig) -> Sequence[FieldChange]:
    """The changed leaves by which a write takes the job away from what its checkpoints fit.

    `before`: what was expected until then. Going back to what runs is always allowed, and so is a write that leaves
    such leaves as they are.
    """
    refused = forbidden_changes(running, after)
    if not refused:
        return ()
    written = {change.path for change in classify(before, after).fields}
    return [change for change in refused if change.path in written]


def require_layer_row(layers: Layers, layer: str) -> LayerRow:
    """The layer's row. Raises NotFound."""
    if layer not in layers:
        raise NotFound(f"there is no layer {layer}; {likely(layer, layers)}", field="layer", rule="known")
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
    if write.action not in (Action.DELETE, Action.EXPIRE):
        raise Conflict(f"the job {write.job} is being deleted", field="job", rule="deleting")


def _job_change(write: Write, job: StoredJob) -> Change:
    return Change(
        job=job.name,
        action=write.action,
        author=write.author,
        reason=write.reason,
        owner=job.owner,
        restarts=job.restarts + (write.action is Action.RESTART),
        deleting=write.action is Action.DELETE,
    )


def _layer_change(write: Write, job: StoredJob, layers: Layers, now: datetime) -> Change | None:
    row = require_layer_row(layers, write.layer)
    _check_precondition(write, job)
    present = unexpired(job, write.layer, now)
    if write.action is Action.EXPIRE and present is job.layers.get(write.layer):
        return None
    if write.stays:
        write = replace(write, expiry=staying(write.expiry, present))
    if write.action is Action.PATCH:
        require_whole_layer(write.expiry, present, write.config or {}, now)
    content = new_content(write, job, now)
    if content is None and job.config(write.layer) is None:
        raise NotFound(f"the job {job.name} has nothing in the layer {write.layer}", field="layer", rule="present")
    after = merged_with(job, layers, write.layer, content)
    if job.running is not None:
        _refuse_forbidden(refused_changes(job.running, expected(job, layers), after))
    return Change(
        job=job.name,
        action=Action.PUT if job.exists and write.action is Action.CREATE else write.action,
        author=write.author,
        reason=write.reason,
        owner=after.owner,
        restarts=job.restarts,
        layer=write.layer,
        old=job.config(write.layer),
        new=content,
        config=after,
        merged=after.model_dump(mode="json"),
        expires_at=None if content is None else _expires_at(write, present, row, now),
    )


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
        if write.action in NEED_IF_MATCH and not wanted.any_version:
            raise PreconditionRequired(
                "send the version of the layer that you have read as If-Match, in its double quotes, such as "
                f'If-Match: "{current}"',
                field="If-Match",
                rule="required",
            )
    elif wanted.if_match != current:
        raise VersionConflict(_moved_on(write.layer, job, wanted.if_match), current_version=current)


def _moved_on(layer: str, job: StoredJob, read: int) -> str:
    told = f"the layer {layer} of {job.name} is at version {job.version(layer)}, not {read}"
    present = job.layers.get(layer)
    if present is None or present.version < read:
        return f"{told}, which nobody has written. Read the layer, and send its version"
    why = f" ({present.reason})" if present.reason else ""
    return (
        f"{told}: {present.author} has written it at {present.written_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC{why}. "
        "Read it again, decide again, and send its new version"
    )


def _refuse_forbidden(changes: Sequence[FieldChange]) -> None:
    if changes:
        other_path = "A folder takes files of one form: give another output.path, too"
        instead = INSTEAD if changes[0].never_fits else other_path
        raise InvalidConfig(
            f"{changes[0].field} cannot change once the job has run. {instead}",
            field=changes[0].field,
            rule="forbidden_change",
            errors=[{"field": change.field, "rule": "forbidden_change"} for change in changes],
        )


def _expires_at(write: Write, present: StoredLayer | None, row: LayerRow, now: datetime) -> datetime | None:
    """The requested expiry. Without one a patch keeps the present expiry; other writes get the default of the layer."""
    if write.expiry is not None:
        seconds = write.expiry.seconds
    elif write.action is Action.PATCH and present is not None and present.config is not None:
        return present.expires_at
    else:
        seconds = row.default_expiry_seconds
    return None if seconds is None else now + timedelta(seconds=seconds)
