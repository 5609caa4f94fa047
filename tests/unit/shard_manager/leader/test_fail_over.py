"""Who is failed over, on a store in memory."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.tasks.ownership import Member
from services.shard_manager.leader.fail_over import fail_over
from services.shard_manager.leader.parts import Parts
from services.shard_manager.leader.reader import read_cell
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Moves
from services.shard_manager.placement.controller import PlacementController
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import LEASE
from tests.support.memory.election import MemoryElection
from tests.support.memory.shards import MemoryShardStore
from tests.support.memory.store import MemoryStore

SETTINGS = ShardManagerSettings(shard_manager_lease_seconds=1000.0)


class Clock:
    """That of the leader and of the store."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


class Leader:
    """A leader of two shards and the containers a and b, one of which has both; it has heard of none."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.memory = MemoryStore(self.clock.monotonic, 2)
        store = MemoryShardStore(self.memory)
        self.view = View()
        placement = PlacementController(store, SETTINGS, self.clock)  # type: ignore[arg-type]
        moves = Moves(drop_retry_seconds=15.0, add_limit_seconds=30.0)
        self.parts = Parts(store, self.view, moves, placement, SETTINGS, self.clock)  # type: ignore[arg-type]
        taken = MemoryElection(self.memory, LEASE, "leader", lease_seconds=1e6, url="").take()
        assert taken is not None
        self.epoch = taken
        for name in "ab":
            member = Member(name, "life", f"http://{name}", "r", 4.0, 2**32, 2**32)
            store.register(member, empty=True, above=-1, leader_epoch=self.epoch)
        self.memory.give([0, 1], "a")
        self.round()

    def round(self) -> None:
        """With a heartbeat of b."""
        read_cell(self.parts, self.epoch)
        self.view.heard_at["b"] = self.clock.seconds
        fail_over(self.parts, self.epoch)


def test_nothing_is_placed_for_a_container_that_renews_its_own_lease() -> None:
    """1. The leader hears nothing of a, which renews its row: no heirs are chosen, and its heartbeats are answered.
    2. It ends to do so: its shards go to b."""
    leader = Leader()
    leader.memory.renewed_at["a"] = leader.clock.seconds = 100.0
    leader.round()
    assert leader.parts.placement.target is None
    assert leader.view.failing_over == frozenset()
    leader.clock.seconds = 200.0
    leader.round()
    assert {owner.container for owner in leader.memory.owners.values()} == {"b"}
    assert not leader.memory.members["a"].live
