"""Calls that share a transaction: who has waited for too long is not served any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from penstock.control.errors import Unavailable
from services.task_service import batches
from services.task_service.batches import BatchDesk


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
