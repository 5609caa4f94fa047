"""Calls that many containers make at a time, carried out together in one transaction.

So 3,000 containers need one connection. One batch is under way at a time; whoever asks meanwhile is in the next one.
Used by one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from penstock.wire.app import OwnThreads

_MOST_AT_ONCE = 1_000
Request = TypeVar("Request")
Answer = TypeVar("Answer")


class BatchDesk(Generic[Request, Answer]):
    """`answer_all` answers many requests, in the same order.

    It has a thread of its own: while the store does not answer, other reports may occupy all others.
    """

    def __init__(self, answer_all: Callable[[Sequence[Request]], Sequence[Answer]]) -> None:
        self._answer_all = answer_all
        self._thread = OwnThreads(1)
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def answer(self, request: Request) -> Answer:
        """The answer to one request. Raises what `answer_all` raises."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await answer

    async def _serve(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            # Who does not wait any more learns no answer: nothing is done for it.
            asked = [(request, answer) for request, answer in batch if not answer.done()]
            try:
                found = await self._thread.run(self._answer_all, [request for request, _ in asked])
            except Exception as error:  # noqa: BLE001 -- each caller raises it
                _fail([answer for _, answer in asked], error)
                continue
            for (_, answer), each in zip(asked, found, strict=True):
                if not answer.done():
                    answer.set_result(each)


def _fail(answers: Sequence[asyncio.Future[Answer]], error: Exception) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(error)
