"""Who renews a lease while no Shard Manager answers: the Task Service, and the store only without it."""

from __future__ import annotations

from random import Random

import pytest

from penstock.control.errors import LeaseLost, TerminalError, Unavailable
from penstock.tasks.ownership import OwnedShards
from penstock.tasks.shards import Sharding
from penstock.wire.cluster import LeaseRequest
from services.task_manager.membership.relayed_lease import RelayedLease
from tests.support.control.clock import FakeClock

OWNED = OwnedShards({1: 7}, 7, Sharding(8), 1)


class Answers:
    """A Task Service, or the store. `error` is raised in place of an answer."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked: list[object] = []

    def renew_lease(self, request: LeaseRequest) -> OwnedShards:
        return self._answer(request)

    def renew(self, incarnation: str) -> OwnedShards:
        return self._answer(("renew", incarnation))

    def adopt(self, former: str, incarnation: str) -> OwnedShards:
        return self._answer(("adopt", former, incarnation))

    def _answer(self, asked: object) -> OwnedShards:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        return OWNED


class World:
    """A container whose lease ends at `lease_until`."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = FakeClock()
        self.lease_until = self.clock.seconds + 40.0
        self.service, self.store = Answers(), Answers()
        self.lease = RelayedLease(
            "c1",
            self.service,  # type: ignore[arg-type]
            self.store,
            lambda: max(0.0, self.lease_until - self.clock.seconds),
            self.clock,
            Random(seed),
            spread_seconds=10.0,
        )

    def first_renewal(self) -> float:
        """After how many seconds without a Task Service the store is asked."""
        self.service.error = Unavailable("away")
        for second in range(60):
            try:
                self.lease.renew("one")
            except Unavailable:
                self.clock.seconds += 1.0
            else:
                return float(second)
        raise AssertionError("the store is never asked")


def test_the_store_is_not_asked_while_the_task_service_answers() -> None:
    world = World()
    assert world.lease.renew("one") == world.lease.adopt("one", "two") == OWNED
    assert [(each.incarnation, each.former) for each in world.service.asked if isinstance(each, LeaseRequest)] == [
        ("one", None),
        ("two", "one"),
    ]
    assert world.store.asked == []


def test_a_lease_that_the_task_service_refuses_is_lost() -> None:
    """Its answer is that of the row: asking another way would not change it."""
    world = World()
    world.service.error = LeaseLost("replaced")
    with pytest.raises(LeaseLost):
        world.lease.renew("one")
    assert world.store.asked == []


@pytest.mark.parametrize("error", [TerminalError("certificate and key do not fit"), OSError("no file"), ValueError()])
def test_whatever_the_call_of_the_task_service_breaks_by_the_store_is_asked(error: Exception) -> None:
    world = World()
    world.service.error, world.lease_until = error, world.clock.seconds + 10.0
    assert world.lease.renew("one") == OWNED


def test_containers_turn_to_the_store_one_after_the_other() -> None:
    after = [World(seed).first_renewal() for seed in range(200)]
    assert min(after) <= 1.0
    assert max(after) <= 10.0
    assert all(abs(sum(each <= second for each in after) - 20 * second) <= 30 for second in range(1, 11))


@pytest.mark.parametrize("left", [20.0, 12.0, 1.0])
def test_a_lease_that_ends_soon_waits_for_nobody(left: float) -> None:
    for seed in range(20):
        world = World(seed)
        world.lease_until = world.clock.seconds + left
        assert world.first_renewal() == 0.0


def test_a_container_without_a_lease_waits_for_its_turn_too() -> None:
    world = World(seed=3)
    world.lease_until = float("-inf")
    assert 0.0 < world.first_renewal() <= 10.0


def test_once_it_asks_the_store_it_goes_on_until_the_task_service_is_back() -> None:
    """1. The store is asked. 2. And at once the next time. 3. The Task Service is back. 4. It goes away: a new turn."""
    world = World(seed=3)
    first = world.first_renewal()
    world.lease_until = world.clock.seconds + 40.0
    assert world.first_renewal() == 0.0
    world.service.error = None
    world.lease.renew("one")
    asked = len(world.store.asked)
    assert first > 0.0
    assert world.first_renewal() > 0.0
    assert len(world.store.asked) == asked + 1
