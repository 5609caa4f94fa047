"""What a round of the leader knows of the cell, as placement needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.tasks.ownership import OPEN, Member
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Moves
from services.shard_manager.moves.planner import present_of
from services.shard_manager.moves.resharding import together
from services.shard_manager.placement.controller import Situation


def situation_of(view: View, moves: Moves, live: Mapping[str, Member]) -> Situation:
    """The situation with these live containers. Shards that are to become one are placed as one."""
    sharding = view.sharding
    wanted = min(sharding.count, view.wanted_shard_count)

    def present() -> dict[int, str]:
        shards = present_of(view.owners, live, moves.destinations())
        if wanted == sharding.count:
            return shards
        takers = [name for name, member in live.items() if member.availability == OPEN]
        return together(shards, sharding.count, wanted, takers)

    return Situation(live, present, replace(sharding, count=wanted), view.commit_number)
