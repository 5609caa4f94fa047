"""What the leader knows in memory, so that it answers heartbeats without the store.

The store is the truth: the view is read from it at take-over and again every round. What only the leader knows is when
it heard of whom, and what containers said last. `lock` guards all of it and is held for moments only, never over I/O;
`writes` is held by whoever changes the store, so that the view changes in the order in which the store does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from penstock.store.cluster import ShardingFacts
from penstock.tasks.ownership import Member, Owner, drain_is_over
from penstock.tasks.shards import Sharding
from penstock.wire.cluster import HeartbeatRequest
from services.shard_manager.failing import Untaken
from services.shard_manager.store import Cell


class Said(NamedTuple):
    """What a container said in its last heartbeat: shards to assignment epochs."""

    held: Mapping[int, int]
    dropped: Mapping[int, int]
    start_seconds: float | None


class View:
    """Members, owners, and who was heard when (seconds of the leader's monotonic clock)."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.writes = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Knows nothing; not ready to answer."""
        self.leader_epoch: int | None = None
        self.listening_since = float("inf")
        self.sharding = Sharding(0)
        self.wanted_shard_count = 0
        self.commit_number = 0
        self.members: dict[str, Member] = {}
        self.owners: dict[int, Owner] = {}
        self.version = 0
        self.read_up_to = -1
        self.heard_at: dict[str, float] = {}
        self.said: dict[str, Said] = {}
        self.untaken = Untaken()
        self.failing: frozenset[str] = frozenset()
        self.withheld: frozenset[int] = frozenset()
        self.joined_at: list[float] = []
        self._shards_of: dict[str, dict[int, int]] = {}

    def live(self) -> dict[str, Member]:
        """Containers that were not declared lost."""
        return {name: member for name, member in self.members.items() if member.live}

    def shards_of(self, container: str) -> dict[int, int]:
        """What a container owns: shard to assignment epoch."""
        return self._shards_of.get(container, {})

    def is_current(self, container: str, incarnation: str) -> bool:
        """Whether this life of the container is the one in the store, and live."""
        member = self.members.get(container)
        return member is not None and member.live and member.incarnation == incarnation

    def must_be_empty(self, container: str, now: datetime, grace: timedelta) -> bool:
        """Whether its lease is not renewed any more: its drain is over, and it owns shards."""
        member = self.members.get(container)
        return member is not None and drain_is_over(member, now, grace) and bool(self.shards_of(container))

    def hear(self, request: HeartbeatRequest, now: float) -> None:
        """Takes in a heartbeat of a current container. What it says of shards of another count means nothing here."""
        self.heard_at[request.container] = now
        speaks_of_these = request.shard_count == self.sharding.count
        held, dropped = (request.held, request.dropped) if speaks_of_these else ({}, {})
        said = self.said[request.container] = Said(held, dropped, request.start_seconds)
        self.untaken.hear(request.container, said.held, said.dropped, self._expected_of(request.container), now)

    def _expected_of(self, container: str) -> dict[int, int]:
        """What it owns and is told of."""
        return {shard: epoch for shard, epoch in self.shards_of(container).items() if shard not in self.withheld}

    def take_in_facts(self, facts: ShardingFacts) -> None:
        """Takes in what the store says of shards and selectors, of the same count; owners read after that, too, or the
        version would say too much."""
        self.sharding, self.wanted_shard_count = facts.sharding, facts.wanted
        self.version = max(self.version, facts.version)

    def take_in_cell(self, cell: Cell) -> None:
        """All that the store says, in place of what was known of it; the shards may be others."""
        self.members, self.commit_number = cell.members, cell.commit_number
        self.sharding, self.wanted_shard_count = cell.facts.sharding, cell.facts.wanted
        self.owners, self._shards_of, self.said, self.withheld = {}, {}, {}, frozenset()
        self.untaken = Untaken()
        self.take_in(cell.owners)
        self.version = max(self.version, cell.facts.version)

    def take_in(self, changed: Mapping[int, Owner]) -> None:
        """Takes in all owners that the store has above `read_up_to`."""
        self.apply(changed)
        self.read_up_to = max([self.read_up_to, *(owner.epoch for owner in changed.values())])

    def apply(self, changed: Mapping[int, Owner]) -> None:
        """Takes in new owners that this leader recorded; an older epoch than the known one changes nothing."""
        for shard, owner in changed.items():
            known = self.owners.get(shard)
            if known is not None and known.epoch >= owner.epoch:
                continue
            if known is not None and known.container is not None:
                self._shards_of[known.container].pop(shard, None)
            if owner.container is not None:
                self._shards_of.setdefault(owner.container, {})[shard] = owner.epoch
            self.owners[shard] = owner
            self.version = max(self.version, owner.epoch)

    def mark_lost(self, names: Iterable[str]) -> None:
        """Containers that the store has as lost now."""
        for name in names:
            self.members[name] = self.members[name]._replace(live=False)
            self.heard_at.pop(name, None)
            self.said.pop(name, None)
            self.untaken.forget(name)

    def given_up(self) -> set[int]:
        """Shards that their owner dropped under their present epoch: an order whose answer was lost."""
        return {
            shard
            for container, said in self.said.items()
            for shard, _ in said.dropped.items() & self.shards_of(container).items()
        }

    def confirms(self, shard: int, epoch: int) -> bool:
        """Whether the shard's owner said that it holds it under this epoch, the present one."""
        owner = self.owners.get(shard)
        if owner is None or owner.container is None or owner.epoch != epoch:
            return False
        said = self.said.get(owner.container)
        return said is not None and said.held.get(shard) == epoch
