"""Many containers that ask for their lease at the same time share few transactions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from penstock.control.errors import Unavailable
from penstock.wire.cluster import LeaseAnswer, LeaseRequest
from services.task_service.leases import LeaseDesk

PATIENCE_S = 10.0


class Store:
    """Answers a batch once it is let go; remembers the sizes."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.batches: list[int] = []
        self.error: Exception | None = None

    def answer_all(self, requests: Sequence[LeaseRequest]) -> list[LeaseAnswer]:
        self.batches.append(len(requests))
        assert self.let_go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return [LeaseAnswer(known=True, version=int(each.container[1:])) for each in requests]


async def _ask(desk: LeaseDesk, store: Store, count: int) -> list[LeaseAnswer | BaseException]:
    waiting = [
        asyncio.create_task(desk.renew(LeaseRequest(container=f"c{number}", incarnation="one")))
        for number in range(count)
    ]
    # After the first step of each of them: callbacks come in order.
    asyncio.get_running_loop().call_soon(store.let_go.set)
    return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S)


def test_each_gets_its_own_answer_and_all_share_a_few_batches() -> None:
    store = Store()
    answers = asyncio.run(_ask(LeaseDesk(store.answer_all), store, 2_500))
    assert [each.version for each in answers if isinstance(each, LeaseAnswer)] == list(range(2_500))
    assert sum(store.batches) == 2_500
    assert len(store.batches) <= 4


def test_a_batch_that_fails_is_told_to_all_of_it_and_the_next_one_is_tried() -> None:
    store = Store()
    store.error = Unavailable("away")
    answers = asyncio.run(_ask(LeaseDesk(store.answer_all), store, 1_500))
    assert {type(each) for each in answers} == {Unavailable}
    assert len(store.batches) >= 2


@pytest.mark.parametrize("container", ["", "a\x00b", "../x"])
def test_a_name_that_is_none_is_refused_before_it_meets_others(container: str) -> None:
    with pytest.raises(ValueError, match="container"):
        LeaseRequest(container=container, incarnation="one")
