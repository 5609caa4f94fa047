"""Follows the events of the Job Service, once for all open pages of the process.

The console has no token of its own: it asks with that of somebody who has a page open, and asks anew with another one
when that page closes, or when the Job Service refuses. It goes on after the last event that it has. Every token may
read the events. What a page is told is only that something changed; it then reads what its own token may read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import httpx
import orjson

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.wire.event_client import SILENCE_SECONDS, Lines
from penstock.wire.service_client import path
from services.console.live.watches import Watch, Watches

log = logger(__name__)
PAUSE_SECONDS = 5.0
_REFUSED = (401, 403)
_CONFLICT = 409


class Follower:
    """For one event loop. `certificates`: which the Job Service is trusted by, asked for at each connection.
    `refresh_seconds`: all pages are woken once in so long at most, as they are refreshed after it anyway."""

    def __init__(
        self,
        url: str,
        certificates: Callable[[], ssl.SSLContext],
        watches: Watches,
        clock: Clock,
        refresh_seconds: float,
    ) -> None:
        self._url = url
        self._certificates = certificates
        self._watches = watches
        self._clock = clock
        self._refresh_seconds = refresh_seconds
        self._position: int | None = None
        self._woke_all_at = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._lender: Watch | None = None
        self.is_connected = False

    def begin(self) -> None:
        """A page was opened."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())

    def end(self, watch: Watch) -> None:
        """A page was closed: its token is used no more."""
        if watch is self._lender and self._task is not None:
            self._task.cancel()
            self._task, self._lender, self.is_connected = None, None, False
        if len(self._watches):
            self.begin()
        else:
            self._position, self._woke_all_at = None, float("-inf")

    async def _follow(self) -> None:
        while (lender := next((watch for watch in self._watches if not watch.has_ended), None)) is not None:
            self._lender = lender
            try:
                await self._connect(lender)
            except (httpx.HTTPError, OSError, PenstockError) as error:
                log.info("events not followed", error=repr(error))
            self.is_connected = False
            await asyncio.sleep(PAUSE_SECONDS)
        self._lender = None

    async def _connect(self, lender: Watch) -> None:
        headers = {"Authorization": f"Bearer {lender.session.token}"}
        if self._position is not None:
            headers["Last-Event-ID"] = str(self._position)
        timeout = httpx.Timeout(10.0, read=SILENCE_SECONDS)
        async with (
            httpx.AsyncClient(
                base_url=self._url, headers=headers, timeout=timeout, verify=self._certificates(), trust_env=False
            ) as client,
            client.stream("GET", path("events")) as response,
        ):
            if response.is_error:
                self._refused(lender, response.status_code)
            else:
                await self._read(response)

    def _refused(self, lender: Watch, status: int) -> None:
        """Another token is next, whatever the reason is: it may be this token's alone, such as too many streams."""
        log.info("events refused", status=status)
        self._watches.put_last(lender)
        if status in _REFUSED:
            lender.end()
        if status == _CONFLICT:
            self._position = None

    async def _read(self, response: httpx.Response) -> None:
        """What was missed where there is no position to go on from wakes all."""
        self.is_connected, lines = True, Lines()
        async for line in response.aiter_lines():
            event = lines.take(line)
            if event is None:
                continue
            if self._position is None:
                self._wake_all()
            self._position = event.id
            if event.data is not None:
                self._watches.wake(orjson.loads(event.data).get("job"))

    def _wake_all(self) -> None:
        if (now := self._clock.monotonic()) - self._woke_all_at >= self._refresh_seconds:
            self._woke_all_at = now
            self._watches.wake(None)
