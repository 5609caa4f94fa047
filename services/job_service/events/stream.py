"""The events of one client, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from penstock.control.clock import Clock
from penstock.control.errors import Conflict, RetryableError, Unauthenticated
from penstock.control.logs import logger
from services.job_service.events.reader import EventReader, Page, Wanted
from services.job_service.events.slots import Slot

log = logger(__name__)
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 900.0
"""Then a stream ends, and its client comes again."""
_PAUSE_SECONDS = 0.5
Check = Callable[[], Awaitable[object]]
"""Raises Unauthenticated when the token of the client is good no more, RetryableError when that is not known."""


async def stream(
    reader: EventReader, position: int, wanted: Wanted, clock: Clock, slot: Slot, check: Check
) -> AsyncIterator[bytes]:
    """The events from a position on. While the store is away it waits, with heartbeats. It ends with the token, and
    where the next entries were archived: the client comes again, and is refused with the reason."""
    until, said_at = clock.monotonic() + LONGEST_SECONDS, clock.monotonic()
    try:
        yield b"id: %d\nretry: 2000\n\n" % position
        while clock.monotonic() < until and not reader.is_ending:
            page = await _next(reader, position, wanted, check)
            is_behind, position = page.position > position, page.position
            if page.data or clock.monotonic() - said_at >= HEARTBEAT_SECONDS:
                # An id alone moves the client on past entries that it did not ask for.
                yield page.data or b"id: %d\n: still here\n\n" % position
                said_at = clock.monotonic()
            if not is_behind:
                await asyncio.sleep(_PAUSE_SECONDS)
    except (Unauthenticated, Conflict) as error:
        log.info("a stream of events ends", error=error.detail)
    finally:
        slot.close()


async def _next(reader: EventReader, position: int, wanted: Wanted, check: Check) -> Page:
    """Raises Unauthenticated, Conflict."""
    try:
        await check()
        return await reader.next(position, wanted)
    except RetryableError as error:
        log.info("events not read", error=error.detail)
        return Page(b"", position)
