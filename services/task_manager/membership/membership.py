"""The container as a member of the cell: its incarnation, its lease, and the shards that it owns under the lease.

No I/O, no clock. Not thread-safe: `container.Container` guards it with its lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from penstock.control.errors import Conflict
from penstock.control.logs import logger
from penstock.tasks.ownership import OwnedShards
from penstock.wire.cluster import ShardOrders
from services.task_manager.decide.model import DesiredTask
from services.task_manager.membership.heard_leader import HeardLeader
from services.task_manager.membership.ownership import (
    Epochs,
    Ownership,
    given_up,
    needs,
    with_adds,
    with_drops,
    with_map,
)

log = logger(__name__)


class Membership:
    """One incarnation after another: each begins without lease and shards.

    Tasks may run until `lease_until`, which counts from when the last answered heartbeat (or store renewal) was *sent*.
    The answering side waits for a longer interval, and counts it from when it received the heartbeat, which is later.
    So this lease ends first, whatever the two clocks show.
    """

    def __init__(self, container: str, new_incarnation: Callable[[], str]) -> None:
        self._container = container
        self._new_incarnation = new_incarnation
        self.leader = HeardLeader("shard_manager")
        self._needs_commit = 0
        self._needs_of_shards: dict[int, int] = {}
        self.incarnation = new_incarnation()
        self.lease_until = -math.inf
        self.ownership = Ownership()

    def has_lease(self, now: float) -> bool:
        """Whether tasks may run at `now`."""
        return now < self.lease_until

    def was_granted(self) -> bool:
        """Whether this incarnation was ever granted a lease: only then can it have expired."""
        return self.lease_until > -math.inf

    def grant(self, sent_at: float, seconds: float, owned: OwnedShards, reported: Epochs, now: float) -> None:
        """Extends the lease to `seconds` after `sent_at` and applies the full map `owned` (see `ownership.with_map`).

        Answers that come out of order never shorten the lease. The first grant of an incarnation also sets from which
        commit on its specs may be used.
        """
        if not self.was_granted():
            self._needs_commit = owned.commit_number
        if now >= max(self.lease_until, sent_at + seconds):
            log.warning("lease granted too late", seconds=seconds)
            return
        self.lease_until = max(self.lease_until, sent_at + seconds)
        before = self.ownership
        self.ownership = with_map(before, owned.shards, owned.version, reported, owned.sharding)
        self._needs_of_shards = needs(self._needs_of_shards, before, self.ownership, owned.unasked_stop)
        if before.shards != self.ownership.shards:
            shards, version = len(self.ownership.shards), owned.version
            log.info("shards changed", shards=shards, before=len(before.shards), version=version)

    def may_start_from(self, commit_number: int) -> bool:
        """Whether specs of this commit are new enough to start tasks from.

        Jobs that were stopped before this incarnation joined were stopped without asking it, so its specs must be at
        least as new as its first map. Once they are, they stay so: later stops wait for this container's report.
        """
        if commit_number >= self._needs_commit:
            self._needs_commit = 0
        return self._needs_commit == 0

    def ready(self, owned: Mapping[str, DesiredTask], commit_number: int) -> Mapping[str, DesiredTask]:
        """Those of the owned tasks that specs of this commit are new enough for."""
        if not self.may_start_from(commit_number):
            return {}
        early = self.too_early(commit_number)
        return {name: task for name, task in owned.items() if task.shard not in early} if early else owned

    def too_early(self, commit_number: int) -> frozenset[int]:
        """The shards of which specs of this commit start no task, since they may be older than a stop.

        Such a stop was taken as done while the shard was another container's, so this one was not asked.
        """
        return frozenset(shard for shard, needed in self._needs_of_shards.items() if needed > commit_number)

    def restart(self) -> None:
        """Begins a new incarnation without lease and shards. The known versions of the map stay valid."""
        self._needs_of_shards = {}
        self.incarnation = self._new_incarnation()
        self.lease_until = -math.inf
        self.ownership = Ownership(version=self.ownership.version, sharding=self.ownership.sharding)

    def forget(self) -> None:
        """Forgets all versions too: those of another incarnation of the job store say nothing here.

        The leader epoch stays, so that late orders of former leaders are refused: `penstock restored` raises it.
        """
        self.ownership = Ownership()

    def drop(self, order: ShardOrders, now: float) -> frozenset[int]:
        """Applies DROP_SHARD orders. Returns the shards given up; older orders are ignored. Raises Conflict."""
        self._check(order, now)
        before = self.ownership
        self.ownership, applied = with_drops(before, order.shards, order.version)
        self._needs_of_shards = needs(self._needs_of_shards, before, self.ownership, order.unasked_stop)
        log.info("shards dropped", shards=sorted(applied), asked=len(order.shards), version=order.version)
        return applied

    def add(self, order: ShardOrders, now: float) -> frozenset[int]:
        """Applies ADD_SHARD orders. Returns the shards owned now. Raises Conflict, also without a lease."""
        self._check(order, now)
        if not self.has_lease(now):
            raise Conflict("this container has no lease", rule="lease")
        before = self.ownership
        self.ownership, applied = with_adds(before, order.shards, order.version)
        self._needs_of_shards = needs(self._needs_of_shards, before, self.ownership, order.unasked_stop)
        log.info("shards added", shards=sorted(applied), asked=len(order.shards), version=order.version)
        return applied

    def give_up(self, shard: int, epoch: int) -> None:
        """The shard has an owner under a newer epoch than `epoch`, whatever the Shard Manager has said so far."""
        self.ownership = given_up(self.ownership, shard, epoch)

    def _check(self, order: ShardOrders, now: float) -> None:
        if (order.container, order.incarnation) != (self._container, self.incarnation):
            raise Conflict("the order is for another container or incarnation", rule="incarnation")
        if not self.leader.allows(order.leader_epoch, now):
            raise Conflict("the order is from a former leader", rule="leader_epoch")
        if order.shard_count != self.ownership.shard_count:
            known = self.ownership.shard_count
            raise Conflict(
                f"the order is for {order.shard_count} shards, this container has {known}", rule="shard_count"
            )
        if max(order.shards.values(), default=0) > order.version:
            raise Conflict("an assignment epoch is above the version of the order", rule="version")
        self.leader.follow(order.leader_epoch)
