"""Follows the events of the Job Service, once for all open pages of the process.

The console has no token of its own: it asks with that of somebody who has a page open, and asks anew with another one
when that page closes. Every token may read the events. What a page is told is only that something changed; it then
reads what its own token may read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import httpx
import orjson

from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.wire.event_client import SILENCE_SECONDS, Lines
from penstock.wire.service_client import path
from services.console.live.watches import Watch, Watches

log = logger(__name__)
PAUSE_SECONDS = 5.0
_REFUSED = (401, 403)


class Follower:
    """For one event loop. `certificates`: which the Job Service is trusted by, asked for at each connection."""

    def __init__(self, url: str, certificates: Callable[[], ssl.SSLContext], watches: Watches) -> None:
        self._url = url
        self._certificates = certificates
        self._watches = watches
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
        timeout = httpx.Timeout(10.0, read=SILENCE_SECONDS)
        async with (
            httpx.AsyncClient(
                base_url=self._url, headers=headers, timeout=timeout, verify=self._certificates(), trust_env=False
            ) as client,
            client.stream("GET", path("events")) as response,
        ):
            if response.status_code in _REFUSED:
                lender.end()
            if response.is_error:
                log.info("events refused", status=response.status_code)
                return
            await self._read(response)

    async def _read(self, response: httpx.Response) -> None:
        """What was missed between two connections wakes all."""
        self.is_connected, lines = True, Lines()
        self._watches.wake(None)
        async for line in response.aiter_lines():
            event = lines.take(line)
            if event is not None and event.data is not None:
                self._watches.wake(orjson.loads(event.data).get("job"))
