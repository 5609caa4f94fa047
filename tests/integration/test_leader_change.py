"""The Shard Manager's leader goes away at each step of a move; the next one finishes it, on a real store and HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from penstock.control.process import wait_until
from penstock.wire.cluster import ShardAnswers, ShardOrders
from tests.support.shard_manager.cell import ShardCell, shard_cell
from tests.support.shard_manager.small_task_manager import SmallTaskManager

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
def cell(engine: Engine, database_url: str) -> Iterator[ShardCell]:
    with shard_cell(engine, database_url, shards=SHARDS) as cell:
        yield cell


@pytest.mark.parametrize("obeyed", [False, True], ids=["not obeyed", "obeyed"])
@pytest.mark.parametrize("verb", ["drop", "add"])
def test_a_move_is_finished_by_the_next_leader(cell: ShardCell, verb: str, obeyed: bool) -> None:
    """
    1. One container owns all. 2. Another joins; the first DROP (or ADD) is obeyed or not, and not answered.
    3. The leader goes at that moment. 4. The next one brings every shard to one owner that holds it.
    """
    last = LastOrder(verb, obeyed=obeyed)
    first, second = (cell.add(InterruptedTaskManager(name, last)) for name in ("a", "b"))
    if verb == "add":
        last.came.set()  # not the ADD of all shards to the first
    with cell.leading(**PERIODS) as leader:
        wait_until(lambda: first.heartbeat(leader) and len(first.held) == SHARDS, 30, "one to hold all")
        last.came.clear()
        wait_until(lambda: second.heartbeat(leader), 30, "the leader to hear of the other")
        wait_until(last.came.is_set, 30, f"the {verb}")
    with cell.leading(**PERIODS) as leader:

        def is_settled() -> bool:
            for each in (first, second):
                each.heartbeat(leader)
            assert not first.held.keys() & second.held.keys()
            return cell.is_placed()

        assert wait_until(is_settled, 30, "every shard to have one owner that holds it")
