"""How long starts took: told in heartbeats once there are enough of them, and not for ever."""

from __future__ import annotations

from services.task_manager.decide.model import Limits
from services.task_manager.observed.start_times import FEWEST, WINDOW_SECONDS, StartTimes
from tests.support.task_manager.world import World, all_shards, template


def test_the_median_of_enough_recent_starts() -> None:
    starts = StartTimes()
    for seconds in [9.0, *[2.0] * (FEWEST - 2)]:
        starts.add(seconds, 100.0)
    assert starts.typical_seconds(100.0) is None
    starts.add(3.0, 101.0)
    assert starts.typical_seconds(101.0) == 2.0
    assert starts.typical_seconds(100.0 + WINDOW_SECONDS) is None


def test_a_heartbeat_tells_of_starts_also_of_those_that_took_too_long() -> None:
    """1. Six tasks start within 4 s. 2. Eight more still start when their time is over: the median is theirs."""
    world = World(Limits(start_seconds=60.0))
    world.jobs(template(task_count=6))
    first = world.heartbeat(all_shards())
    assert first is not None
    assert first.start_seconds is None
    world.container.tick()
    (host,) = world.hosts.alive()
    host.become_ready()
    world.container.tick()
    world.clock.seconds += 4.0
    world.settle()
    told = world.heartbeat()
    assert told is not None
    assert told.start_seconds == 4.0
    host.stuck = True
    world.jobs(template(task_count=6), *(template(f"slow-{number}", task_count=1) for number in range(8)))
    world.container.tick()
    world.wait(65.0)
    told = world.heartbeat()
    assert told is not None
    assert told.start_seconds == 60.0
