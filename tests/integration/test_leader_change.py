"""The Shard Manager's leader goes away at each step of a move; the next one finishes it, on a real store and HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from penstock.control.process import wait_until
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import connect, transaction
from penstock.wire.cluster import ShardAnswers, ShardOrders
from tests.support.shard_manager.cell import RunningShardManager, SmallTaskManager, shard_manager
from tests.support.store.database import read_assignment

SHARDS = 6
# Long enough that no container is called lost on a busy machine: what moves is moved by orders and heartbeats.
PERIODS = {"fail_over_seconds": 60.0, "container_lease_seconds": 40.0}


class LastOrder:
    """The first order of a verb is `obeyed` or not, is never answered, and is the last that the leader sends."""

    def __init__(self, verb: str, *, obeyed: bool) -> None:
        self.verb = verb
        self.obeyed = obeyed
        self.came = threading.Event()


class InterruptedTaskManager(SmallTaskManager):
    """Heartbeats to whoever leads, by hand; `last` is the order that breaks off."""

    def __init__(self, name: str, last: LastOrder) -> None:
        super().__init__(name)
        self._last = last

    def _obey(self, verb: str, order: ShardOrders) -> ShardAnswers:
        if verb != self._last.verb or self._last.came.is_set():
            return super()._obey(verb, order)
        if self._last.obeyed:
            super()._obey(verb, order)
        self._last.came.set()
        raise ConnectionResetError("the answer is lost")


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    with transaction(engine) as connection:
        ask_for_shards(connection, SHARDS)
    yield engine
    engine.dispose()


def beat(manager: RunningShardManager, managers: list[InterruptedTaskManager]) -> None:
    for each in managers:
        each.heartbeat(manager)


def agree(engine: Engine, managers: list[InterruptedTaskManager]) -> bool:
    """Whether each holds exactly what the store says that it owns, and everybody has something."""
    with transaction(engine) as connection:
        owned = {each.name: read_assignment(connection, each.name) for each in managers}
    return all(owned.values()) and all(each.held == owned[each.name] for each in managers)


@pytest.mark.parametrize("obeyed", [False, True], ids=["not obeyed", "obeyed"])
@pytest.mark.parametrize("verb", ["drop", "add"])
def test_a_move_is_finished_by_the_next_leader(engine: Engine, database_url: str, verb: str, obeyed: bool) -> None:
    """
    1. One container owns all. 2. Another joins; the first DROP (or ADD) is obeyed or not, and not answered.
    3. The leader goes at that moment. 4. The next one brings every shard to one owner that holds it.
    """
    last = LastOrder(verb, obeyed=obeyed)
    first, second = managers = [InterruptedTaskManager(name, last) for name in ("a", "b")]
    try:
        if verb == "add":
            last.came.set()  # not the ADD of all shards to the first
        with shard_manager(database_url, **PERIODS) as leader:
            leader.lead()
            wait_until(lambda: first.heartbeat(leader) and len(first.held) == SHARDS, 30, "one to hold all")
            last.came.clear()
            second.heartbeat(leader)
            wait_until(last.came.is_set, 30, f"the {verb}")
        with shard_manager(database_url, **PERIODS) as leader:
            leader.lead()

            def is_settled() -> bool:
                beat(leader, managers)
                assert not first.held.keys() & second.held.keys()
                return agree(engine, managers) and len(first.held) + len(second.held) == SHARDS

            assert wait_until(is_settled, 30, "every shard to have one owner that holds it")
    finally:
        for each in managers:
            each.stop()
