"""What an open page is told, as server-sent events: that something changed, and never what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from penstock.control.clock import Clock
from services.console.live.follower import Follower
from services.console.live.watches import Watch, Watches
from services.console.sealed import Session

LONGEST_SECONDS = 60.0
"""Then a stream ends. The browser comes again, and session and token are looked at again."""
SLOW_SECONDS = 30.0
"""Between two refreshes while the events of the Job Service are not heard."""
_LEAST_GAP_SECONDS = 0.5
_BEGIN = b"id: 0\nretry: 1000\n\n"
_CHANGED = b"id: 0\nevent: changed\ndata: now\n\n"


class Live:
    """The open pages of a process. `refresh_seconds`: figures are measured without an event, so a page is refreshed
    after so long at the latest."""

    def __init__(self, watches: Watches, follower: Follower, clock: Clock, refresh_seconds: float) -> None:
        self.watches = watches
        self._follower = follower
        self._clock = clock
        self._refresh_seconds = refresh_seconds

    def end(self) -> None:
        """The process ends, and so do all streams."""
        self.watches.end()

    def open(self, session: Session, job: str | None) -> Watch:
        """Registers an open page, which counts as open until `close`. `job`: the job that it shows; None: all jobs.
        Raises TooManyCalls."""
        return self.watches.join(session, job)

    def close(self, watch: Watch) -> None:
        """The page is closed, whether its events were ever asked for or not. Safe to repeat."""
        self.watches.leave(watch)
        self._follower.end(watch)

    async def events(self, watch: Watch, *, comes_again: bool) -> AsyncIterator[bytes]:
        """The events of an open page until it is closed. `comes_again`: it may have missed one."""
        until = self._clock.monotonic() + LONGEST_SECONDS
        self._follower.begin()
        yield _CHANGED if comes_again else _BEGIN
        while (left := until - self._clock.monotonic()) > 0:
            await watch.wait(min(left, self._pause_seconds()))
            if watch.has_ended:
                return
            yield _CHANGED
            await asyncio.sleep(_LEAST_GAP_SECONDS)

    def _pause_seconds(self) -> float:
        return self._refresh_seconds if self._follower.is_connected else max(SLOW_SECONDS, self._refresh_seconds)
