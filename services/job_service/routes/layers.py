"""Layers of a job: read, replace, patch, drop, revert."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from sqlalchemy import Connection

from penstock.control.errors import NotFound
from penstock.model.jobs import Action
from penstock.store.engine import snapshot
from penstock.wire.jobs import LayerView, LayerWrite, RevertWrite, Written
from services.job_service import access, requests
from services.job_service.answers import etag, layer_view
from services.job_service.calls import Call
from services.job_service.layer_expiry import expiry_of
from services.job_service.requests import (
    AllowRepeats,
    CallOf,
    JobName,
    LayerName,
    LayerPrecondition,
    PartsOf,
    Verify,
    known_job,
    respond,
    respond_view,
)
from services.job_service.store import history
from services.job_service.store.layers import all_layers
from services.job_service.writes import Write, require_layer_row

router = requests.router_of("layers of a job")
AsOf = Annotated[int | None, Query(ge=1, le=2**62, description="as it was at this revision")]


@router.get("/v1/jobs/{job}/layers/{layer}", response_model=LayerView)
def get_layer(job: JobName, layer: LayerName, parts: PartsOf, revision: AsOf = None) -> Response:
    """A layer with its version (also its ETag): 0 when it was never written. Also as of any revision."""
    with snapshot(parts.engine) as connection:
        require_layer_row(all_layers(connection), layer)
        if revision is None:
            view = layer_view(known_job(connection, job), layer)
        else:
            view = _past(connection, job, layer, revision)
    return respond_view(view, etag(view.version))


@router.put("/v1/jobs/{job}/layers/{layer}", response_model=Written)
@requests.needs(access.of_layer())
async def put_layer(
    job: JobName,
    layer: LayerName,
    body: LayerWrite,
    call: CallOf,
    precondition: LayerPrecondition,
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
) -> Response:
    """Replaces a layer. `If-Match` is the version that was read; 0 when there was none."""
    given = (body.config, body.reason, precondition, expiry_of(body))
    write = Write(Action.PUT, job, call.author, layer, *given, allow_repeats=allow_repeats)
    return await _written(call, write, verify)


@router.patch("/v1/jobs/{job}/layers/{layer}", response_model=Written)
@requests.needs(access.of_layer())
async def patch_layer(
    job: JobName,
    layer: LayerName,
    body: LayerWrite,
    call: CallOf,
    precondition: LayerPrecondition,
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
) -> Response:
    """Changes a layer by a merge patch (RFC 7386): null drops a key. Its expiry stays unless a new one is given.
    409 when other fields of the layer would end earlier by it, or stay for ever, unless `whole_layer` is true."""
    given = (body.config, body.reason, precondition, expiry_of(body))
    write = Write(Action.PATCH, job, call.author, layer, *given, allow_repeats=allow_repeats)
    return await _written(call, write, verify)


@router.delete("/v1/jobs/{job}/layers/{layer}", response_model=Written)
@requests.needs(access.of_layer())
async def drop_layer(
    job: JobName,
    layer: LayerName,
    call: CallOf,
    precondition: LayerPrecondition,
    reason: requests.Text = "",
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
) -> Response:
    """Drops a layer: the values below it apply again. The version keeps counting."""
    given = (None, reason, precondition)
    write = Write(Action.DROP, job, call.author, layer, *given, allow_repeats=allow_repeats)
    return await _written(call, write, verify)


@router.post("/v1/jobs/{job}/layers/{layer}/revert", response_model=Written)
@requests.needs(access.of_layer())
def revert_layer(
    job: JobName,
    layer: LayerName,
    body: RevertWrite,
    call: CallOf,
    precondition: LayerPrecondition,
    allow_repeats: AllowRepeats = False,
) -> Response:
    """Sets a layer back to its content at an earlier version. This is a new write with a new version.

    `expires_in_seconds` absent: the layer ends when that version was to end, or never as that one; if that time has
    passed, it lasts as long as then, from now on. `expires_at` of the answer tells it."""
    given = (None, body.reason, precondition, expiry_of(body))
    write = Write(Action.REVERT, job, call.author, layer, *given, version=body.version, allow_repeats=allow_repeats)
    return respond(call.write(200, write))


async def _written(call: Call, write: Write, verify: bool) -> Response:
    """Does a write to a layer that the caller may set, once Spark has nothing against it."""
    return respond(await call.write_layer(write, verify=verify))


def _past(connection: Connection, job: str, layer: str, revision: int) -> LayerView:
    row = history.as_of(connection, job, layer, revision)
    if row is None:
        raise NotFound(f"{job} had no layer {layer} at revision {revision}", field="revision", rule="known")
    changed = {"layer": layer, "version": row.version or 0, "written_at": row.at, "config": row.new}
    return LayerView(**{**dict(row), **changed})
