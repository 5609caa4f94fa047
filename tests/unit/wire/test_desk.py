"""Calls that share a transaction: who may wait does so for others, and who has waited for too long is not served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from penstock.control.errors import Unavailable
from penstock.wire import desk as batches
from penstock.wire.desk import BatchDesk


def test_a_call_whose_turn_comes_too_late_is_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. The store is slow with the first call. 2. A second waits longer than anybody waits. 3. A third is new."""
    let_go, done = threading.Event(), list[str]()

    def answer_all(requests: Sequence[str]) -> Sequence[str]:
        assert let_go.wait(10.0)
        done.extend(requests)
        return requests

    async def run() -> list[str | BaseException]:
        desk, loop = BatchDesk(answer_all), asyncio.get_running_loop()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)
        asked = [asyncio.create_task(desk.answer("first"))]
        # Callbacks come in order: each after the first step of the call before it.
        loop.call_soon(lambda: asked.append(asyncio.create_task(desk.answer("late"))))
        passed = asyncio.Event()
        loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(passed.set)))
        await passed.wait()
        monkeypatch.setattr(loop, "time", lambda: now + batches.PATIENCE_SECONDS + 1.0)
        asked.append(asyncio.create_task(desk.answer("new")))
        loop.call_soon(lambda: loop.call_soon(let_go.set))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, late, new = asyncio.run(run())
    assert (first, new, done) == ("first", "new", ["first", "new"])
    assert isinstance(late, Unavailable)


@pytest.mark.parametrize(
    ("gather_seconds", "calls", "batches_"),
    [
        pytest.param(0.05, {"a": True, "b": True}, [["a", "b"]], id="until it is time"),
        pytest.param(3600.0, {"a": True, "b": True, "c": False}, [["a", "b", "c"]], id="until one must not wait"),
        pytest.param(3600.0, {"c": False}, [["c"]], id="one that must not wait"),
        pytest.param(0.0, {"a": True}, [["a"]], id="nobody gathers"),
    ],
)
def test_calls_that_may_wait_are_gathered(
    gather_seconds: float, calls: dict[str, bool], batches_: list[list[str]]
) -> None:
    done = list[list[str]]()

    def answer_all(requests: Sequence[str]) -> Sequence[str]:
        done.append(list(requests))
        return requests

    async def run() -> list[str]:
        desk = BatchDesk(answer_all, gather_seconds=gather_seconds)
        asked = (desk.answer(name, may_wait=may_wait) for name, may_wait in calls.items())
        return await asyncio.wait_for(asyncio.gather(*asked), 10.0)

    assert asyncio.run(run()) == list(calls)
    assert done == batches_


def test_a_call_that_must_not_wait_hurries_no_later_batch() -> None:
    """1. One must not wait. 2. Two that may come afterwards, and are gathered."""
    done = list[list[str]]()

    def answer_all(requests: Sequence[str]) -> Sequence[str]:
        done.append(list(requests))
        return requests

    async def run() -> None:
        desk = BatchDesk(answer_all, gather_seconds=0.05)
        await desk.answer("now")
        await asyncio.gather(desk.answer("a", may_wait=True), desk.answer("b", may_wait=True))

    asyncio.run(run())
    assert done == [["now"], ["a", "b"]]


def test_calls_that_are_not_chosen_are_in_a_later_batch_in_their_order() -> None:
    """1. The first goes alone. 2. Those that come meanwhile follow, one of each letter at a time."""
    let_go, done = threading.Event(), list[list[str]]()

    def answer_all(requests: Sequence[str]) -> Sequence[str]:
        done.append(list(requests))
        assert let_go.wait(10.0)
        return [request.upper() for request in requests]

    def choose(requests: Sequence[str]) -> Sequence[int]:
        return list({request[0]: at for at, request in reversed(list(enumerate(requests)))}.values())

    async def run() -> list[str]:
        desk, loop = BatchDesk(answer_all, choose=choose), asyncio.get_running_loop()
        asked = [asyncio.create_task(desk.answer("a0"))]
        # Callbacks come in order: these after the first step of the call before them.
        later = ("a1", "b1", "a2", "c1", "a3", "b2")
        loop.call_soon(lambda: asked.extend(asyncio.create_task(desk.answer(name)) for name in later))
        all_asked = asyncio.Event()
        loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(all_asked.set)))
        await all_asked.wait()
        let_go.set()
        return await asyncio.wait_for(asyncio.gather(*asked), 10.0)

    assert asyncio.run(run()) == ["A0", "A1", "B1", "A2", "C1", "A3", "B2"]
    assert done == [["a0"], ["a1", "b1", "c1"], ["a2", "b2"], ["a3"]]


def test_all_who_have_waited_for_too_long_are_told_at_once_and_who_has_gone_is_not_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. The first call is under way. 2. Three wait, one batch each; one of them is cancelled. 3. Time passes."""
    let_go, done = threading.Event(), list[list[str]]()

    async def run() -> list[str | BaseException]:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def answer_all(requests: Sequence[str]) -> Sequence[str]:
            done.append(list(requests))
            loop.call_soon_threadsafe(begun.set)
            assert let_go.wait(10.0)
            return requests

        desk = BatchDesk(answer_all, choose=lambda requests: [0])
        asked = [asyncio.create_task(desk.answer(name)) for name in ("first", "gone", "late", "later")]
        await begun.wait()
        asked[1].cancel()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now + batches.PATIENCE_SECONDS + 1.0)
        loop.call_soon(let_go.set)
        return await asyncio.gather(*asked, return_exceptions=True)

    first, gone, late, later = asyncio.run(run())
    assert (first, done) == ("first", [["first"]])
    assert isinstance(gone, asyncio.CancelledError)
    assert (type(late), type(later)) == (Unavailable, Unavailable)


def test_an_error_of_the_choice_is_told_to_all_who_wait() -> None:
    def choose(requests: Sequence[str]) -> Sequence[int]:
        raise KeyError(requests[0])

    async def run() -> list[str | BaseException]:
        desk = BatchDesk(lambda requests: requests, choose=choose)
        asked = (desk.answer(name) for name in "ab")
        return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10.0)

    assert [type(each) for each in asyncio.run(run())] == [KeyError, KeyError]
