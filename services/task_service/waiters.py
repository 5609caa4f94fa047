"""Thousands of requests that wait for a commit, each released when its own condition holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.control.errors import PenstockError


class Waiters:
    """All waiters belong to one event loop, the server's."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._has_ended = False

    async def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Waits up to `seconds` until `is_done()`, which every `release` checks again, or until the `end`. Returns
        whether it is done.

        The state that `is_done` reads must change before `release` is called. Errors of `is_done` are raised here.
        """
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + seconds
        while not is_done():
            seconds_left = deadline - self._loop.time()
            if seconds_left <= 0 or self._has_ended:
                return False
            changed = self._loop.create_future()
            self._waiting[changed] = is_done
            try:
                await asyncio.wait([changed], timeout=seconds_left)
            finally:
                self._waiting.pop(changed, None)
        return True

    def release(self) -> None:
        """Releases the requests that are done. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._release)

    def end(self) -> None:
        """From now on nobody waits. Called in the event loop."""
        self._has_ended = True
        for changed in self._waiting:
            changed.set_result(None)
        self._waiting.clear()

    def _release(self) -> None:
        for changed in [changed for changed, is_done in self._waiting.items() if _is_over(is_done)]:
            del self._waiting[changed]
            changed.set_result(None)


def _is_over(is_done: Callable[[], bool]) -> bool:
    """A condition that raises is over too: the waiting request raises the error."""
    try:
        return is_done()
    except PenstockError:
        return True
