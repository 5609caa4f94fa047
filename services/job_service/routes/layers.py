"""Layers of a job: read, replace, patch, drop, revert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from penstock.control.errors import NotFound
from penstock.store.engine import snapshot
from penstock.wire.balance import RebalanceWrite
from penstock.wire.jobs import BatchWrite, LayerView, LayerWrite, RescaleWrite, RevertWrite, Written
from services.job_service import access, requests
from services.job_service.answers import Answer, etag, layer_view, write_answer
from services.job_service.requests import CallerOf, JobName, LayerName, LayerPrecondition, PartsOf, PrincipalOf, respond
from services.job_service.store import expected, history
from services.job_service.store.layers import all_layers
from services.job_service.writer import Caller
from services.job_service.writes import Expiry, Verb, Write, require_layer_row

router = APIRouter(tags=["layers of a job"], route_class=requests.StrictRoute)
AsOf = Annotated[int | None, Query(ge=1, le=2**62, description="as it was at this revision")]


@router.get("/v1/jobs/{job}/layers/{layer}", response_model=LayerView)
def get_layer(
    job: JobName, layer: LayerName, parts: PartsOf, _: PrincipalOf, response: Response, revision: AsOf = None
) -> LayerView:
    """A layer with its version (also its ETag): 0 when it was never written. Also as of any revision."""
    with snapshot(parts.engine) as connection:
        require_layer_row(all_layers(connection), layer)
        view = _present(connection, job, layer) if revision is None else _past(connection, job, layer, revision)
    response.headers["ETag"] = etag(view.version)
    return view


@router.put("/v1/jobs/{job}/layers/{layer}", response_model=Written)
def put_layer(
    job: JobName,
    layer: LayerName,
    body: LayerWrite,
    parts: PartsOf,
    caller: CallerOf,
    precondition: LayerPrecondition,
) -> Response:
    """Replaces a layer. `If-Match` is the version that was read; 0 when there was none."""
    return _write_layer(parts, caller, _layer_write(Verb.PUT, job, layer, body, caller, precondition))


@router.patch("/v1/jobs/{job}/layers/{layer}", response_model=Written)
def patch_layer(
    job: JobName,
    layer: LayerName,
    body: LayerWrite,
    parts: PartsOf,
    caller: CallerOf,
    precondition: LayerPrecondition,
) -> Response:
    """Changes a layer by a merge patch (RFC 7386): null drops a key. Its expiry stays unless a new one is given."""
    return _write_layer(parts, caller, _layer_write(Verb.PATCH, job, layer, body, caller, precondition))


@router.delete("/v1/jobs/{job}/layers/{layer}", response_model=Written)
def drop_layer(
    job: JobName,
    layer: LayerName,
    parts: PartsOf,
    caller: CallerOf,
    precondition: LayerPrecondition,
    reason: requests.Text = "",
) -> Response:
    """Drops a layer: the values below it apply again. The version keeps counting."""
    write = Write(Verb.DROP, job, caller.principal.name, layer, None, reason, precondition)
    return _write_layer(parts, caller, write)


@router.post("/v1/jobs/{job}/layers/{layer}/revert", response_model=Written)
def revert_layer(
    job: JobName,
    layer: LayerName,
    body: RevertWrite,
    parts: PartsOf,
    caller: CallerOf,
    precondition: LayerPrecondition,
) -> Response:
    """Sets a layer back to its content at an earlier version. This is a new write with a new version."""
    access.require_layer(caller.principal, layer)

    def work(connection: Connection) -> Answer:
        content = _content_at(connection, job, layer, body.version)
        verb, author = Verb.REVERT, caller.principal.name
        write = Write(verb, job, author, layer, content, body.reason, precondition, expiry_of(body))
        return write_answer(200, parts.writer.one(connection, write))

    return respond(parts.writer.run(caller, work))


def expiry_of(body: LayerWrite | RevertWrite | BatchWrite | RescaleWrite | RebalanceWrite) -> Expiry | None:
    """None when the body omits the expiry (the layer's default applies); `Expiry(None)` when it is null (never)."""
    given = "expires_in_seconds" in body.model_fields_set
    return Expiry(body.expires_in_seconds) if given else None


def _layer_write(
    verb: Verb, job: str, layer: str, body: LayerWrite, caller: Caller, precondition: LayerPrecondition
) -> Write:
    author = caller.principal.name
    return Write(verb, job, author, layer, body.config, body.reason, precondition, expiry_of(body))


def _write_layer(parts: requests.Parts, caller: Caller, write: Write) -> Response:
    access.require_layer(caller.principal, write.layer)
    return respond(parts.writer.run(caller, lambda connection: write_answer(200, parts.writer.one(connection, write))))


def _present(connection: Connection, job: str, layer: str) -> LayerView:
    stored = expected.read(connection, [job]).get(job)
    if stored is None:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    return layer_view(stored, layer)


def _past(connection: Connection, job: str, layer: str, revision: int) -> LayerView:
    row = history.as_of(connection, job, layer, revision)
    if row is None:
        raise NotFound(f"{job} had no layer {layer} at revision {revision}", field="revision", rule="known")
    return LayerView(
        job=job,
        layer=layer,
        version=row.version or 0,
        revision=row.revision,
        author=row.author,
        reason=row.reason,
        written_at=row.at,
        expires_at=row.expires_at,
        config=row.new,
    )


def _content_at(connection: Connection, job: str, layer: str, version: int) -> Mapping[str, Any] | None:
    if version == 0:
        return None
    row = history.at_version(connection, job, layer, version)
    if row is None:
        raise NotFound(f"the layer {layer} of {job} had no version {version}", field="version", rule="known")
    return row.new
