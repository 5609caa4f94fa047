"""Committed changes and refusals as the answers that callers get. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.control.errors import UserError
from penstock.control.texts import first_few
from penstock.model.jobs import Committed, StoredJob
from penstock.wire.jobs import BatchResult, LayerVersion, LayerView, Problem, View, Written


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and JSON body of an answer to a write; kept by Idempotency-Key."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verified:
    """Whether Spark's analysis found nothing against a write. `why` it is not `done`."""

    done: bool
    why: str = ""


def etag(version: int) -> str:
    """A layer's version as an entity tag."""
    return f'"{version}"'


def written(committed: Committed, notes: Sequence[str] = ()) -> Written:
    """A change that was done, and what to know of it."""
    change = committed.change
    return Written(
        job=change.job,
        action=change.action,
        revision=committed.revision,
        layer=change.layer,
        version=committed.version,
        expires_at=change.expires_at,
        notes=list(notes),
    )


def without_rows(done: Written, readers: Sequence[str]) -> Written:
    """A deletion that was done, with a note of the jobs to which no row comes any more. It is legal all the same."""
    if not readers:
        return done
    told = f"{first_few(readers)} read{'s' if len(readers) == 1 else ''} what {done.job} wrote: no new row comes there"
    return done.model_copy(update={"notes": [*done.notes, told]})


def nothing_done(job: StoredJob) -> Written:
    """For a write that left nothing to do, such as the deletion of a job that is being deleted."""
    return Written(job=job.name, action="none", revision=job.revision)


def answer(status: int, view: View, done: Written | None = None, *, verified: Verified | None = None) -> Answer:
    """The answer to a write; its ETag is the version that the write `done`, or `view` itself, made."""
    made = view if isinstance(view, Written) else done
    if verified is not None:
        view = view.model_copy(update={"verified": verified.done, "why": verified.why})
    headers = {} if made is None or made.version is None else {"ETag": etag(made.version)}
    return Answer(status, view.model_dump(mode="json"), headers)


def batch_result(outcome: Written | UserError) -> BatchResult:
    """One result of a batch."""
    if isinstance(outcome, Written):
        return BatchResult(status=200, written=outcome)
    problem = Problem(
        type="about:blank",
        title=type(outcome).__name__,
        status=outcome.status,
        detail=outcome.detail,
        field=outcome.field,
        rule=outcome.rule,
        **outcome.extra,
    )
    return BatchResult(status=outcome.status, problem=problem)


def layer_view(job: StoredJob, layer: str) -> LayerView:
    """A layer of a job; version 0 when it was never written."""
    stored = job.layers.get(layer)
    if stored is None:
        return LayerView(job=job.name, layer=layer, version=0)
    return LayerView(
        job=job.name,
        config=None if stored.config is None else dict(stored.config),
        **dict(LayerVersion.model_validate(stored)),
    )


def layer_versions(job: StoredJob) -> list[LayerVersion]:
    """All layers of a job that were ever written, without their content."""
    return [LayerVersion.model_validate(job.layers[layer]) for layer in sorted(job.layers)]
