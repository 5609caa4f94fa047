"""Renews the lease rows of containers that no Shard Manager answers: all that ask at a time, in one transaction.

A restarted container adopts its lease alone, which may wait for a commit of the State Syncer. No batch waits for that.
Used by one event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from penstock.wire.app import OwnThreads
from penstock.wire.cluster import LeaseAnswer, LeaseRequest
from penstock.wire.desk import BatchDesk

_MOST_ALONE = 2
BatchAnswerer = Callable[[Sequence[LeaseRequest]], Sequence[LeaseAnswer]]
Answerer = Callable[[LeaseRequest], LeaseAnswer]


class LeaseDesk:
    """`renew_all` answers many renewals, in the same order; `answer_one` any request."""

    def __init__(self, renew_all: BatchAnswerer, answer_one: Answerer) -> None:
        self._answer_one = answer_one
        self._together = BatchDesk(renew_all)
        self._singles = OwnThreads(_MOST_ALONE)
        self._alone: Counter[str] = Counter()

    async def answer(self, request: LeaseRequest) -> LeaseAnswer:
        """The answer to one request. Raises what the answerers raise."""
        # The row of a container that adopts is locked: its renewal would have a batch wait, too.
        if request.former is not None or self._alone[request.container]:
            return await self._by_itself(request)
        return await self._together.answer(request)

    async def _by_itself(self, request: LeaseRequest) -> LeaseAnswer:
        self._alone[request.container] += 1
        try:
            return await self._singles.run(self._answer_one, request)
        finally:
            self._alone[request.container] -= 1
            self._alone += Counter()  # without those that are zero
