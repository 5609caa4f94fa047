"""Requests that wait for something to change: thousands of them, released at once from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Waiters:
    """All waiters belong to one event loop, the server's."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    async def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Waits until `is_done()`, which is asked again at every `release`; whether it is, after `seconds` at most.

        What `is_done` looks at must change before `release` is called.
        """
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + seconds
        while not is_done():
            changed, seconds_left = self._changed, deadline - self._loop.time()
            if seconds_left <= 0:
                return False
            try:
                await asyncio.wait_for(changed.wait(), seconds_left)
            except TimeoutError:
                return is_done()
        return True

    def release(self) -> None:
        """Lets all look again; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        released, self._changed = self._changed, asyncio.Event()
        released.set()
