"""Replays that are asked for: how many at once, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from penstock.control.errors import NotFound, Unavailable
from penstock.wire.replays import ReplayCall, ReplayRequest
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.replays import Replays
from services.auto_scaler.store.port import Recorded, ScalingStore
from tests.support.auto_scaler import NOW

WAIT_SECONDS = 20.0


class Store:
    """A store that answers a replay with what a function says."""

    def __init__(self, answer: Callable[[], Recorded | None]) -> None:
        self._answer = answer

    def recorded(self, job: str, before: datetime, since: datetime, until: datetime, policy: Policy) -> Recorded | None:
        """What is recorded."""
        return self._answer()


def replays(answer: Callable[[], Recorded | None]) -> Replays:
    return Replays(cast(ScalingStore, Store(answer)), lambda: NOW, Policy())


def call(**policy: Any) -> ReplayCall:
    return ReplayCall(job="j", request=ReplayRequest(policy=policy, since=NOW - timedelta(hours=6)))


def test_another_replay_is_refused_at_once_and_the_next_one_is_let_in() -> None:
    """1. A replay waits for the store. 2. Another is refused while it does. 3. After its end the next one begins."""
    asked, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        assert may_end.wait(WAIT_SECONDS)

    asking = replays(wait)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(asking.replay, call())
        assert asked.wait(WAIT_SECONDS)
        second = threads.submit(asking.replay, call())
        try:
            with pytest.raises(Unavailable, match="another replay is under way"):
                second.result(timeout=WAIT_SECONDS / 2)
        finally:
            may_end.set()
        with pytest.raises(NotFound):
            first.result()
    with pytest.raises(NotFound):
        asking.replay(call())
