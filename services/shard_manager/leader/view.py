"""The leader's knowledge in memory, by which it answers heartbeats without the store.

The store is the truth. The leader reads the view from it when it takes over, and again every round. Only the leader
knows when it heard of which container, and what containers said last. `lock` guards the view; it is taken for moments,
never during I/O. `writes` is taken by whoever writes the store, so the view changes in the same order as the store.
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
from services.shard_manager.health.failing import UntakenShards
from services.shard_manager.store.port import Cell


class LastHeartbeat(NamedTuple):
    """The content of a container's last heartbeat; `held` and `dropped`: shards to assignment epochs."""

    held: Mapping[int, int]
    dropped: Mapping[int, int]
    start_seconds: float | None
    refuses: tuple[str, ...] = ()


class View:
    """Members, owners, and the last heartbeats. Times are seconds of the leader's monotonic clock."""

    def __init__(self, *, add_limit_seconds: float = 30.0) -> None:
        self.lock = threading.Lock()
        self.writes = threading.Lock()
        self._add_limit_seconds = add_limit_seconds
        self.read_at = float("-inf")
        self.clear()

    def clear(self) -> None:
        """Forgets everything. The leader does not answer heartbeats until it has read the store."""
        self.leader_epoch: int | None = None
        self.listening_since = float("inf")
        self.sharding = Sharding(0)
        self.wanted_shard_count = 0
        self.commit_number = 0
        self.incarnation = ""
        self.unasked_stop = 0
        self.members: dict[str, Member] = {}
        self.owners: dict[int, Owner] = {}
        self.version = 0
        self.read_up_to = -1
        self.heard_at: dict[str, float] = {}
        self.last_heartbeats: dict[str, LastHeartbeat] = {}
        self.untaken = UntakenShards(self._add_limit_seconds)
        self.failing_over: frozenset[str] = frozenset()
        self.withheld: frozenset[int] = frozenset()
        self.joined_at: list[float] = []
        self._shards_of: dict[str, dict[int, int]] = {}

    # ---- questions

    def live(self) -> dict[str, Member]:
        """The containers that were not declared lost."""
        return {name: member for name, member in self.members.items() if member.live}

    def shards_of(self, container: str) -> dict[int, int]:
        """The shards that a container owns, with their assignment epochs."""
        return self._shards_of.get(container, {})

    def epochs(self) -> dict[int, int]:
        """The assignment epoch of every shard."""
        return {shard: owner.epoch for shard, owner in self.owners.items()}

    def is_current(self, container: str, incarnation: str) -> bool:
        """Whether this incarnation of the container is the one in the store, and live."""
        member = self.members.get(container)
        return member is not None and member.live and member.incarnation == incarnation

    def is_past_drain(self, container: str, now: datetime, grace: timedelta) -> bool:
        """Whether a container still owns shards after its drain and the grace: its lease is not renewed any more."""
        member = self.members.get(container)
        return member is not None and drain_is_over(member, now, grace) and bool(self.shards_of(container))

    def dropped_by_owner(self) -> set[int]:
        """The shards that their owner dropped under their present epoch, so that nobody runs them."""
        return {
            shard
            for container, heartbeat in self.last_heartbeats.items()
            for shard, _ in heartbeat.dropped.items() & self.shards_of(container).items()
        }

    def confirms(self, shard: int, epoch: int) -> bool:
        """Whether the shard's owner said that it holds the shard under this epoch, the present one."""
        owner = self.owners.get(shard)
        if owner is None or owner.container is None or owner.epoch != epoch:
            return False
        heartbeat = self.last_heartbeats.get(owner.container)
        return heartbeat is not None and heartbeat.held.get(shard) == epoch

    # ---- heartbeats

    def apply_heartbeat(self, request: HeartbeatRequest, now: float) -> None:
        """Applies a heartbeat of a current container. Shards numbered under another count are ignored."""
        self.heard_at[request.container] = now
        is_same_count = request.shard_count == self.sharding.count
        held, dropped = (request.held, request.dropped) if is_same_count else ({}, {})
        self.last_heartbeats[request.container] = LastHeartbeat(held, dropped, request.start_seconds, request.refuses)
        self.untaken.hear(request.container, held, dropped, self.shards_in_answer(request.container), now)

    def shards_in_answer(self, container: str) -> dict[int, int]:
        """The shards in answers to a container's heartbeats: those that it owns, without the withheld ones."""
        return {shard: epoch for shard, epoch in self.shards_of(container).items() if shard not in self.withheld}

    # ---- the store

    def apply_facts(self, facts: ShardingFacts) -> None:
        """Applies facts of the same shard count. The caller also applies owners that were read after the facts:
        otherwise the version would be too high."""
        self.sharding, self.wanted_shard_count = facts.sharding, facts.wanted
        self.version = max(self.version, facts.version)

    def replace_cell(self, cell: Cell) -> None:
        """Replaces everything that comes from the store. The shards may be numbered under another count."""
        self.members, self.commit_number = cell.members, cell.commit_number
        self.sharding, self.wanted_shard_count = cell.facts.sharding, cell.facts.wanted
        self.incarnation = cell.facts.incarnation
        self.owners, self._shards_of, self.last_heartbeats, self.withheld = {}, {}, {}, frozenset()
        self.untaken = UntakenShards(self._add_limit_seconds)
        self.apply_read(cell.owners, cell.unasked_stop)
        self.version = max(self.version, cell.facts.version)

    def apply_read(self, changed: Mapping[int, Owner], unasked_stop: int) -> None:
        """Applies all owners that the store has above `read_up_to`."""
        self.apply_owners(changed, unasked_stop)
        self.read_up_to = max([self.read_up_to, *(owner.epoch for owner in changed.values())])

    def apply_owners(self, changed: Mapping[int, Owner], unasked_stop: int) -> None:
        """Applies owners that this leader recorded; one with an older epoch than the known owner changes nothing.

        `unasked_stop`: as the store has it, no older than these owners: whoever is told of them must know it.
        """
        self.unasked_stop = max(self.unasked_stop, unasked_stop)
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
        """Marks containers that the store declared lost."""
        for name in names:
            self.members[name] = self.members[name]._replace(live=False)
            self.heard_at.pop(name, None)
            self.last_heartbeats.pop(name, None)
            self.untaken.forget(name)
