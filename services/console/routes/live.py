"""The stream that wakes an open page when something changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from penstock.config.declare import NAME
from penstock.control.errors import RetryableError
from penstock.wire.app import OwnThreads
from services.console.requests import Parts, SessionOf, parts_of
from services.console.sealed import Session

router = APIRouter(include_in_schema=False)
PATH = "/live"
_MOST_SECONDS = 10.0
_ASKED = OwnThreads(4)


@router.get(PATH)
async def live(
    request: Request,
    session: SessionOf,
    job: Annotated[str | None, Query(pattern=NAME)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Server-sent events: `changed` when something was written to the job, or to any, and when figures are old."""
    parts = parts_of(request)
    await _ASKED.run(_require_token, parts, session)
    parts.live.watches.require_room(session)
    return StreamingResponse(
        parts.live.events(session, job, comes_again=last_event_id is not None),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


def _require_token(parts: Parts, session: Session) -> None:
    """Raises Unauthenticated. While the Job Service does not answer nothing can be told that the token may not read."""
    try:
        with parts.connect(session.token, None) as client:
            client.caller_at_once(_MOST_SECONDS)
    except RetryableError:
        return
