"""A control loop whose wake-ups never end."""

from __future__ import annotations

import threading
import time

from penstock.control.clock import SystemClock
from penstock.control.loop import LeaderLoop, Leadership
from penstock.control.process import wait_until

ROUND_SECONDS = 0.05


class _Elected:
    def take(self) -> int | None:
        return 1

    def release(self) -> None:
        pass


def test_a_loop_that_gathers_rests_as_long_as_its_round_took_and_after_ten_rounds_longer() -> None:
    """Each round asks for another one, which begins no sooner after it than it took. After ten such rounds it begins
    no sooner than after three times as long."""
    begun: list[float] = []
    ended: list[float] = []

    def round_(_: int) -> None:
        begun.append(time.monotonic())
        loop.wake()
        threading.Event().wait(ROUND_SECONDS)
        ended.append(time.monotonic())

    leadership = Leadership("test", _Elected(), 10.0, time.monotonic)
    loop = LeaderLoop(
        "test", round_, leadership, SystemClock(), period_seconds=3600, renew_seconds=1, gather_seconds=0.001
    )
    loop.start()
    try:
        wait_until(lambda: len(ended) >= 14, 20, "fourteen rounds")
    finally:
        loop.stop()
    rests = [after - before for before, after in zip(ended, begun[1:], strict=False)]
    assert min(rests) > 0.9 * ROUND_SECONDS
    assert min(rests[:9]) < 2.9 * ROUND_SECONDS
    assert min(rests[11:]) > 2.9 * ROUND_SECONDS
