"""Calls that many make at a time, carried out together in one transaction.

So 3,000 containers need one connection. One batch is under way at a time; whoever asks meanwhile is in the next one.
So a call that comes alone waits for nobody. Calls that may wait are gathered for a moment before their batch begins.
Used by one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from penstock.control.errors import Unavailable
from penstock.wire.app import OwnThreads

_MOST_AT_ONCE = 1_000
PATIENCE_SECONDS = 20.0
"""Nobody waits longer for an answer. What such a caller asked for is not done any more: a report would count as news of
a container that may have ended long ago."""
_TOO_LATE = "the job store was away for too long"
Request = TypeVar("Request")
Answer = TypeVar("Answer")


class _Call(NamedTuple, Generic[Request, Answer]):
    """`asked_at`: by the clock of the event loop."""

    request: Request
    answer: asyncio.Future[Answer]
    asked_at: float


def _first(requests: Sequence[object]) -> Sequence[int]:
    return range(min(_MOST_AT_ONCE, len(requests)))


class BatchDesk(Generic[Request, Answer]):
    """`answer_all` answers many requests, in the same order.

    It has a thread of its own: while the store does not answer, other reports may occupy all others. `gather_seconds`:
    how long calls that may wait do so for others. `choose`: the positions of the requests that are the next batch, at
    least one, of those that wait, in their order; the others are in a later one.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[Request]], Sequence[Answer]],
        *,
        gather_seconds: float = 0.0,
        choose: Callable[[Sequence[Request]], Sequence[int]] = _first,
    ) -> None:
        self._answer_all = answer_all
        self._gather_seconds = gather_seconds
        self._choose = choose
        self._hurry = asyncio.Event()
        self._thread = OwnThreads(1)
        self._waiting: list[_Call[Request, Answer]] = []
        self._serving: asyncio.Task[None] | None = None

    async def answer(self, request: Request, *, may_wait: bool = False) -> Answer:
        """The answer to one request. Raises what `answer_all` raises, and Unavailable when its turn comes too late."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(_Call(request, answer, loop.time()))
        if not may_wait:
            self._hurry.set()
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await answer

    async def _serve(self) -> None:
        while self._waiting:
            await self._gather()
            asked = self._taken()
            if not self._waiting:
                self._hurry.clear()
            if not asked:
                continue
            try:
                found = await self._thread.run(self._answer_all, [call.request for call in asked])
            except Exception as error:  # noqa: BLE001 -- each caller raises it
                _fail(asked, error)
                continue
            for call, each in zip(asked, found, strict=True):
                if not call.answer.done():
                    call.answer.set_result(each)

    def _taken(self) -> list[_Call[Request, Answer]]:
        """The calls of the next batch, which wait no more. Whoever has waited for too long, or has gone, waits no more
        either, and is in none."""
        oldest = asyncio.get_running_loop().time() - PATIENCE_SECONDS
        _fail([call for call in self._waiting if call.asked_at < oldest], Unavailable(_TOO_LATE))
        waiting = [call for call in self._waiting if not call.answer.done()]
        try:
            chosen = set(self._choose([call.request for call in waiting])) if waiting else set()
        except Exception as error:  # noqa: BLE001 -- each caller raises it: nobody would serve them
            _fail(waiting, error)
            waiting, chosen = [], set()
        self._waiting = [call for position, call in enumerate(waiting) if position not in chosen]
        return [call for position, call in enumerate(waiting) if position in chosen]

    async def _gather(self) -> None:
        """Until a call comes that must not wait, or it is time."""
        if not self._hurry.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._gather_seconds)


def _fail(calls: Sequence[_Call[Request, Answer]], error: Exception) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(error)
