"""The lease while several addresses of each service are there and never answer: the store is asked in time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import httpx
import pytest

from penstock.control.errors import Unavailable
from penstock.identity.roles import Caller, Role
from penstock.wire.shard_client import ShardManagerClient
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.worker import Worker
from services.task_manager.membership.relayed_lease import RelayedLease, longest_call
from services.task_manager.specs.files import IncarnationFile
from tests.support.control.clock import FakeClock
from tests.unit.task_manager.loops.test_loops import BOTH, CONTAINER, SETTINGS, Loops

SHARD_MANAGERS, TASK_SERVICES = "http://s1,http://s2,http://s3", "http://t1,http://t2,http://t3"
LEASE = SETTINGS.container_lease_seconds


class Silent(httpx.BaseTransport):
    """Takes all the time there is: `connect` for a machine that is gone, `read` for a process that hangs."""

    caller = Caller(Role.TASK_MANAGER, CONTAINER)

    def __init__(self, clock: FakeClock, phase: str) -> None:
        self.asked: list[str] = []
        self._clock = clock
        self._phase = phase

    def credentials(self) -> tuple[httpx.Auth, httpx.BaseTransport]:
        return httpx.Auth(), self

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        self._clock.seconds += request.extensions["timeout"][self._phase]
        raise httpx.TimeoutException(f"no answer from {request.url}", request=request)


def with_silent_services(loops: Loops, folder: Path, phase: str) -> Worker:
    """The heartbeats of the container, as `services.task_manager.__main__` puts them together."""
    container, clock = loops.world.container, loops.world.clock
    silent = Silent(clock, phase)

    def seconds_left() -> float:
        return container.summary().lease_seconds_left

    longest, fields = partial(longest_call, lease_seconds=LEASE), {"identity": silent, "now": clock.monotonic}
    seconds = SETTINGS.heartbeat_timeout_seconds
    manager = ShardManagerClient(
        SHARD_MANAGERS, timeout_seconds=seconds, limit_seconds=lambda: longest(seconds_left(), calls=2), **fields
    )
    service = TaskServiceClient(
        TASK_SERVICES, timeout_seconds=seconds, limit_seconds=lambda: longest(seconds_left(), calls=1), **fields
    )
    leases = RelayedLease(CONTAINER, service, loops.store, seconds_left, clock, Random(1), spread_seconds=10.0)
    loop = HeartbeatLoop(container, manager, leases, IncarnationFile(folder), clock, SETTINGS)
    return Worker("heartbeats", loop.step, clock, SETTINGS.retry_pause_seconds)


@pytest.mark.parametrize("phase", ["connect", "read"])
def test_the_store_renews_the_lease_while_no_address_answers(tmp_path: Path, phase: str) -> None:
    """
    1. Tasks run. Three Shard Managers and three Task Services take connections and never answer, for an hour.
    2. The lease never ends, and the store has 5 s for its answer each time.
    """
    loops = Loops(tmp_path)
    loops.begin()
    heartbeats, clock, former = with_silent_services(loops, tmp_path, phase), loops.world.clock, -1.0
    until, longest = clock.seconds + 3600.0, 0.0
    renewed_at = clock.seconds
    while clock.seconds < until:
        pause_seconds = heartbeats.step()
        clock.seconds += pause_seconds
        former, renewed_at = renewed_at, loops.memory.renewed_at.get(CONTAINER, renewed_at)
        longest = max(longest, renewed_at - former)
        loops.world.settle()
        assert loops.world.running() == BOTH
    assert 10.0 < longest <= LEASE - SETTINGS.heartbeat_timeout_seconds


def test_each_address_is_asked_within_the_limit() -> None:
    """The first gets half, so that the others have their chance; the last all that is left."""
    clock = FakeClock()
    silent, began_at = Silent(clock, "read"), clock.seconds
    client = TaskServiceClient(TASK_SERVICES, identity=silent, limit_seconds=lambda: 9.0, now=clock.monotonic)
    with pytest.raises(Unavailable, match=r"t1.*t2.*t3"):
        client.full()
    assert silent.asked == ["t1", "t2", "t3"]
    assert 4.5 <= clock.seconds - began_at <= 9.0


@pytest.mark.parametrize(
    ("left", "calls", "seconds"),
    [(40.0, 2, 10.0), (30.0, 2, 10.0), (26.0, 2, 8.0), (26.0, 1, 10.0), (14.0, 1, 4.0), (5.0, 1, 0.5), (0.0, 2, 10.0)],
)
def test_the_longest_call_keeps_time_for_the_store(left: float, calls: int, seconds: float) -> None:
    assert longest_call(left, 40.0, calls=calls) == seconds
