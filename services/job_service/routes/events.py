"""The writes to all jobs as server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse

from penstock.control.errors import InvalidConfig
from services.job_service import requests
from services.job_service.events.reader import Wanted
from services.job_service.events.stream import stream
from services.job_service.requests import PartsOf, PrincipalOf, TokenOf

router = requests.router_of("events")
Position = Annotated[int | None, Query(ge=0, le=2**62, description="the id of the last event that is known")]
Revision = Annotated[
    int | None, Query(ge=0, le=2**62, description="the last revision of `job` that is known, instead of `after`")
]
LastEventId = Annotated[int | None, Header(ge=0, le=2**62, description="as `after`, which it goes before")]


@router.get(
    "/v1/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "an event for each write to a job"}},
)
async def follow(
    parts: PartsOf,
    principal: PrincipalOf,
    token: TokenOf,
    after: Position = None,
    after_revision: Revision = None,
    last_event_id: LastEventId = None,
    job: requests.OptionalText = None,
    layer: requests.OptionalText = None,
) -> StreamingResponse:
    """Every write to a job as it is committed: an entry of the history as JSON, its action as the event's type.

    Without `after` it begins now. Ids grow, none is skipped or comes twice: a client goes on with the last one that it
    has (`Last-Event-ID`, as browsers send it), also at another Job Service. Who knows only a revision of a job, as a
    write answers it, begins with `after_revision` and `job`: the next entry of the job comes first. After 15 minutes a
    stream ends, and the client comes again. It also ends with the token. Lines that begin with a colon keep the
    connection alive.
    """
    position = after if last_event_id is None else last_event_id
    _require_one(after, after_revision, job)
    slot = parts.event_slots.take(principal.name)
    if position is None and after_revision is not None and job is not None:
        begin = await parts.events.begin_after(job, after_revision)
    else:
        begin = await parts.events.begin(position)
    check = partial(requests.principal_of, parts, token)
    return StreamingResponse(
        stream(parts.events, begin, Wanted(job, layer), parts.clock, slot, check),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _require_one(after: int | None, after_revision: int | None, job: str | None) -> None:
    """Raises InvalidConfig: ids order the entries of all jobs, revisions those of one."""
    if after_revision is None:
        return
    if job is None:
        raise InvalidConfig("after_revision is of one job: name it, or use after", field="job", rule="required")
    if after is not None:
        raise InvalidConfig("give after or after_revision, not both", field="after_revision", rule="one_of")
