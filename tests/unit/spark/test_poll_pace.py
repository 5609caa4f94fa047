"""When a host polls its queries, by a clock of the test that goes on by a tick for each question."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.spark.host.poll_pace import PollPace


def polls(pace: PollPace, seconds: float, awaits_quiet: Callable[[float], bool]) -> list[float]:
    """The moments of the polls, of a host that asks from the second 0 on."""
    ticks = (round(number * pace.tick_seconds, 3) for number in range(round(seconds / pace.tick_seconds) + 1))
    return [now for now in ticks if pace.is_due(now, awaits_quiet=awaits_quiet(now))]


@pytest.mark.parametrize("interval", [0.05, 0.1, 0.25, 1.0])
def test_a_host_polls_each_interval(interval: float) -> None:
    found = polls(PollPace(interval), 20 * interval, lambda _: False)
    gaps = [later - former for former, later in pairwise(found)]
    assert sum(gaps) / len(gaps) == pytest.approx(interval, rel=0.25)
    assert found[0] == 0.0


def test_it_polls_often_while_a_task_is_to_be_quiet_and_soon_after_the_order() -> None:
    found = polls(PollPace(1.0), 3.0, lambda now: 1.2 <= now < 1.6)
    assert found == [0.0, 1.0, 1.2, 1.3, 1.4, 1.5, 2.5]


def test_a_batch_that_lasts_is_polled_as_seldom_as_ever() -> None:
    found = polls(PollPace(1.0), 30.0, lambda _: True)
    assert len([now for now in found if now < 10]) == 100
    assert len([now for now in found if now >= 10]) <= 21


def test_each_order_is_hurried_anew() -> None:
    found = polls(PollPace(1.0), 40.0, lambda now: not 19.95 < now < 20.05)
    assert len([now for now in found if 20.1 <= now < 30]) >= 99
