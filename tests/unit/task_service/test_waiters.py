"""Stories of waiters: who has what it waits for goes on, all others sleep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.control.errors import Unavailable
from services.task_service.waiters import Waiters

LONG_SECONDS = 60.0


class Numbers:
    """A number that only grows, and how often it was looked at by whom."""

    def __init__(self) -> None:
        self.value = 0
        self.looks: list[int] = []

    def above(self, after: int) -> Callable[[], bool]:
        def is_above() -> bool:
            self.looks.append(after)
            return self.value > after

        return is_above


async def _turn() -> None:
    """Lets all others run once."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


async def _settle(numbers: Numbers, looks: int) -> None:
    while len(numbers.looks) < looks:
        await _turn()


def test_only_those_go_on_who_have_what_they_wait_for() -> None:
    """
    1. Two wait, one for a number above 0 and one for a number above 5.
    2. The number becomes 3, from another thread: the first goes on; the other is asked once, and waits.
    3. The number becomes 6: the other goes on.
    """

    async def story() -> None:
        waiters, numbers = Waiters(), Numbers()
        low = asyncio.create_task(waiters.wait(numbers.above(0), LONG_SECONDS))
        high = asyncio.create_task(waiters.wait(numbers.above(5), LONG_SECONDS))
        await _settle(numbers, 2)
        numbers.value = 3
        await asyncio.to_thread(waiters.release)
        assert await low
        assert numbers.looks.count(5) == 2
        assert not high.done()
        numbers.value = 6
        waiters.release()
        assert await high

    asyncio.run(story())


def test_what_is_there_is_not_waited_for_and_what_never_comes_only_so_long() -> None:
    async def story() -> None:
        waiters = Waiters()
        assert await waiters.wait(lambda: True, 0.0)
        assert not await waiters.wait(lambda: False, 0.01)

    asyncio.run(story())


def test_what_breaks_is_told_to_who_waits() -> None:
    async def story() -> None:
        waiters, answers = Waiters(), [False]

        def is_done() -> bool:
            if not answers:
                raise Unavailable("the job store was not read yet")
            return answers.pop()

        waiting = asyncio.create_task(waiters.wait(is_done, LONG_SECONDS))
        while answers:
            await _turn()
        waiters.release()
        with pytest.raises(Unavailable):
            await waiting

    asyncio.run(story())


def test_at_the_end_nobody_waits() -> None:
    """1. One waits for a number that never comes. 2. The end: it goes on without it. 3. Nobody waits any more."""

    async def story() -> None:
        waiters, numbers = Waiters(), Numbers()
        waiting = asyncio.create_task(waiters.wait(numbers.above(0), LONG_SECONDS))
        await _settle(numbers, 1)
        waiters.end()
        assert not await waiting
        assert not await waiters.wait(numbers.above(0), LONG_SECONDS)

    asyncio.run(story())
