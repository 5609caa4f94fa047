"""What the steps of the leader's round share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.control.clock import Clock
from penstock.tasks.ownership import OPEN, Member
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Moves
from services.shard_manager.moves.planner import present_of
from services.shard_manager.moves.resharding import together
from services.shard_manager.placement.controller import PlacementController, Situation
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import ShardStore


class Parts(NamedTuple):
    """The leader's loop uses them, one thread at a time."""

    store: ShardStore
    view: View
    moves: Moves
    placement: PlacementController
    settings: ShardManagerSettings
    clock: Clock

    def situation(self, live: Mapping[str, Member]) -> Situation:
        """What placement needs to know, with these live containers. Shards that are to become one are placed as one."""
        sharding = self.view.sharding
        wanted = min(sharding.count, self.view.wanted_shard_count)

        def present() -> dict[int, str]:
            shards = present_of(self.view.owners, live, self.moves.destinations())
            if wanted == sharding.count:
                return shards
            takers = [name for name, member in live.items() if member.availability == OPEN]
            return together(shards, sharding.count, wanted, takers)

        return Situation(live, present, replace(sharding, count=wanted), self.view.commit_number)
