"""Renews the lease rows of containers that no Shard Manager answers: all that ask at a time, in one transaction.

So 3,000 containers need one connection. One batch is under way at a time; whoever asks meanwhile is in the next one. A
restarted container adopts its lease alone, which may wait for a commit of the State Syncer. No batch waits for that.
Used by one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from penstock.wire.app import OwnThreads
from penstock.wire.cluster import LeaseAnswer, LeaseRequest

_MOST_AT_ONCE = 1_000
_MOST_ALONE = 2
BatchAnswerer = Callable[[Sequence[LeaseRequest]], Sequence[LeaseAnswer]]
Answerer = Callable[[LeaseRequest], LeaseAnswer]


class LeaseDesk:
    """`renew_all` answers many renewals, in the same order; `answer_one` any request."""

    def __init__(self, renew_all: BatchAnswerer, answer_one: Answerer) -> None:
        self._renew_all = renew_all
        self._answer_one = answer_one
        # Threads of their own: while the store does not answer, reports may occupy all others.
        self._batches, self._singles = OwnThreads(1), OwnThreads(_MOST_ALONE)
        self._alone: Counter[str] = Counter()
        self._waiting: list[tuple[LeaseRequest, asyncio.Future[LeaseAnswer]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def answer(self, request: LeaseRequest) -> LeaseAnswer:
        """The answer to one request. Raises what the answerers raise."""
        # The row of a container that adopts is locked: its renewal would have a batch wait, too.
        if request.former is not None or self._alone[request.container]:
            return await self._by_itself(request)
        answer: asyncio.Future[LeaseAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await answer

    async def _by_itself(self, request: LeaseRequest) -> LeaseAnswer:
        self._alone[request.container] += 1
        try:
            return await self._singles.run(self._answer_one, request)
        finally:
            self._alone[request.container] -= 1
            self._alone += Counter()  # without those that are zero

    async def _serve(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            # Who does not wait any more counts no lease from the answer: none is taken for it.
            asked = [(request, answer) for request, answer in batch if not answer.done()]
            try:
                found = await self._batches.run(self._renew_all, [request for request, _ in asked])
            except Exception as error:  # noqa: BLE001 -- each caller raises it
                _fail([answer for _, answer in asked], error)
                continue
            for (_, answer), each in zip(asked, found, strict=True):
                if not answer.done():
                    answer.set_result(each)


def _fail(answers: Sequence[asyncio.Future[LeaseAnswer]], error: Exception) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(error)
