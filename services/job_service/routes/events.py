"""The writes to all jobs as server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse

from services.job_service import requests
from services.job_service.events.reader import Wanted
from services.job_service.events.stream import stream
from services.job_service.requests import PartsOf, PrincipalOf, TokenOf

router = requests.router_of("events")
Position = Annotated[int | None, Query(ge=0, le=2**62, description="the id of the last event that is known")]
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
    last_event_id: LastEventId = None,
    job: requests.OptionalText = None,
    layer: requests.OptionalText = None,
) -> StreamingResponse:
    """Every write to a job as it is committed: an entry of the history as JSON, its action as the event's type.

    Without `after` it begins now. Ids grow, none is skipped or comes twice: a client goes on with the last one that it
    has (`Last-Event-ID`, as browsers send it), also at another Job Service. After 15 minutes a stream ends, and the
    client comes again. It also ends with the token. Lines that begin with a colon keep the connection alive.
    """
    slot = parts.event_slots.take(principal.name)
    begin = await parts.events.begin(after if last_event_id is None else last_event_id)
    check = partial(requests.principal_of, parts, token)
    return StreamingResponse(
        stream(parts.events, begin, Wanted(job, layer), parts.clock, slot, check),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
