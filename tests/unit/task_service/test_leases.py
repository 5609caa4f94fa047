"""Many containers that ask for their lease at the same time share few transactions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from penstock.control.errors import StatementTimedOut, Unavailable
from penstock.wire.cluster import LeaseAnswer, LeaseRequest
from services.task_service.leases import LeaseDesk

PATIENCE_S = 10.0


class Store:
    """Answers a batch once it is let go; remembers the sizes. Adoptions wait for a commit; one of them is `refused`."""

    def __init__(self) -> None:
        self.let_go, self.committed = threading.Event(), threading.Event()
        self.refused = ""
        self.batches: list[int] = []
        self.error: Exception | None = None

    def answer_one(self, request: LeaseRequest) -> LeaseAnswer:
        """Waits as an adoption does for a commit."""
        assert self.committed.wait(PATIENCE_S)
        if request.container == self.refused:
            raise StatementTimedOut("the commit took too long")
        return LeaseAnswer(known=True, version=-1)

    def renew_all(self, requests: Sequence[LeaseRequest]) -> list[LeaseAnswer]:
        self.batches.append(len(requests))
        assert self.let_go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return [LeaseAnswer(known=True, version=int(each.container[1:])) for each in requests]


async def _ask(desk: LeaseDesk, store: Store, count: int) -> list[LeaseAnswer | BaseException]:
    waiting = [
        asyncio.create_task(desk.answer(LeaseRequest(container=f"c{number}", incarnation="one")))
        for number in range(count)
    ]
    # After the first step of each of them: callbacks come in order.
    asyncio.get_running_loop().call_soon(store.let_go.set)
    return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S)


def test_each_gets_its_own_answer_and_all_share_a_few_batches() -> None:
    store = Store()
    answers = asyncio.run(_ask(LeaseDesk(store.renew_all, store.answer_one), store, 2_500))
    assert [each.version for each in answers if isinstance(each, LeaseAnswer)] == list(range(2_500))
    assert sum(store.batches) == 2_500
    assert len(store.batches) <= 4


def test_a_batch_that_fails_is_told_to_all_of_it_and_the_next_one_is_tried() -> None:
    store = Store()
    store.error = Unavailable("away")
    answers = asyncio.run(_ask(LeaseDesk(store.renew_all, store.answer_one), store, 1_500))
    assert {type(each) for each in answers} == {Unavailable}
    assert len(store.batches) >= 2


def test_renewals_wait_for_no_adoption_and_the_error_of_one_is_its_own() -> None:
    """1. Containers adopt their leases, which wait for a commit; so does a renewal of one of them. 2. Others renew:
    they are answered. 3. The commit ends: each that adopts gets its answer, or its own error."""
    store = Store()
    store.refused = "c7"

    async def run() -> None:
        desk = LeaseDesk(store.renew_all, store.answer_one)
        adopting = [
            asyncio.create_task(desk.answer(LeaseRequest(container=name, incarnation="two", former=former)))
            for name, former in (("c7", "one"), ("c8", "one"), ("c9", "one"), ("c8", None))
        ]
        renewed = await _ask(desk, store, 3)
        assert [each.version for each in renewed if isinstance(each, LeaseAnswer)] == [0, 1, 2]
        assert not any(each.done() for each in adopting)
        store.committed.set()
        failed, *adopted = await asyncio.wait_for(asyncio.gather(*adopting, return_exceptions=True), PATIENCE_S)
        assert isinstance(failed, StatementTimedOut)
        assert adopted == [LeaseAnswer(known=True, version=-1)] * 3
        assert (await desk.answer(LeaseRequest(container="c8", incarnation="two"))).version == 8, "in a batch again"

    try:
        asyncio.run(run())
    finally:
        store.committed.set()


@pytest.mark.parametrize("container", ["", "a\x00b", "../x"])
def test_a_name_that_is_none_is_refused_before_it_meets_others(container: str) -> None:
    with pytest.raises(ValueError, match="container"):
        LeaseRequest(container=container, incarnation="one")
