"""Requests that wait for something to change: thousands of them, each let go once it has what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.control.errors import PenstockError


class Waiters:
    """All waiters belong to one event loop, the server's."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Waits until `is_done()`, which is asked again at every `release`; whether it is, after `seconds` at most.

        What `is_done` looks at must change before `release` is called. What it raises is raised here.
        """
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + seconds
        while not is_done():
            seconds_left = deadline - self._loop.time()
            if seconds_left <= 0:
                return False
            changed = self._loop.create_future()
            self._waiting[changed] = is_done
            try:
                await asyncio.wait([changed], timeout=seconds_left)
            finally:
                self._waiting.pop(changed, None)
        return True

    def release(self) -> None:
        """Lets those go who have what they wait for; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        for changed in [changed for changed, is_done in self._waiting.items() if _is_over(is_done)]:
            del self._waiting[changed]
            changed.set_result(None)


def _is_over(is_done: Callable[[], bool]) -> bool:
    """Also where it breaks: that is told to who waits."""
    try:
        return is_done()
    except PenstockError:
        return True
