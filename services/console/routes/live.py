"""The stream that wakes an open page when something changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from penstock.config.declare import NAME
from penstock.control.errors import RetryableError
from penstock.wire.app import OwnThreads
from services.console.live.stream import Live
from services.console.live.watches import Watch
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
    watch = parts.live.open(session, job)
    return Followed(parts.live, watch, comes_again=last_event_id is not None)


class Followed(StreamingResponse):
    """The events of a page that has a place. It is given back however the response ends, also before its beginning."""

    def __init__(self, live: Live, watch: Watch, *, comes_again: bool) -> None:
        super().__init__(
            live.events(watch, comes_again=comes_again),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )
        self._live = live
        self._watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As `StreamingResponse`."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live.close(self._watch)


def _require_token(parts: Parts, session: Session) -> None:
    """Raises Unauthenticated. While the Job Service does not answer nothing can be told that the token may not read."""
    try:
        with parts.connect(session.token, None) as client:
            client.caller_at_once(_MOST_SECONDS)
    except RetryableError:
        return
