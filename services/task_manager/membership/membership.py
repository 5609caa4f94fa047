"""The container as a member of the cell: its incarnation, its lease, and the shards that it owns under the lease.

No I/O, no clock. Not thread-safe: `container.Container` guards it with its lock.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.control.errors import Conflict
from penstock.control.logs import logger
from penstock.wire.cluster import ShardOrders
from services.task_manager.membership.lease import Lease
from services.task_manager.membership.ownership import Epochs, Ownership, given_up, with_adds, with_drops, with_map
from services.task_manager.ports import StoredShards

log = logger(__name__)


class Membership:
    """One incarnation after another: each begins without lease and shards."""

    def __init__(self, container: str, new_incarnation: Callable[[], str]) -> None:
        self._container = container
        self._new_incarnation = new_incarnation
        self._leader_epoch = 0
        self._needs_commit = 0
        self.incarnation = new_incarnation()
        self.lease = Lease()
        self.ownership = Ownership()

    def expired_at(self, now: float) -> float | None:
        """When the lease ran out; None while it is good and when it was never granted."""
        return self.lease.good_until if self.lease.was_granted() and not self.lease.is_good(now) else None

    def grant(self, sent_at: float, seconds: float, owned: StoredShards, reported: Epochs, now: float) -> None:
        """Extends the lease to `seconds` after `sent_at` and applies the full map `owned` (see `ownership.with_map`).

        The first grant of an incarnation also sets from which commit on its specs may be used.
        """
        if not self.lease.was_granted():
            self._needs_commit = owned.commit_number
        lease = self.lease.extended(sent_at, seconds)
        if not lease.is_good(now):
            log.warning("lease granted too late", seconds=seconds)
            return
        before = self.ownership
        self.lease, self.ownership = lease, with_map(before, owned.shards, owned.version, reported, owned.sharding)
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

    def restart(self) -> None:
        """Begins a new incarnation without lease and shards. The known versions of the map stay valid."""
        self.incarnation = self._new_incarnation()
        self.lease = Lease()
        self.ownership = Ownership(version=self.ownership.version, sharding=self.ownership.sharding)

    def drop(self, order: ShardOrders) -> frozenset[int]:
        """Applies DROP_SHARD orders. Returns the shards given up; older orders are ignored. Raises Conflict."""
        self._check(order)
        self.ownership, applied = with_drops(self.ownership, order.shards, order.version)
        log.info("shards dropped", shards=sorted(applied), asked=len(order.shards), version=order.version)
        return applied

    def add(self, order: ShardOrders, now: float) -> frozenset[int]:
        """Applies ADD_SHARD orders. Returns the shards owned now. Raises Conflict, also without a lease."""
        self._check(order)
        if not self.lease.is_good(now):
            raise Conflict("this container has no lease", rule="lease")
        self.ownership, applied = with_adds(self.ownership, order.shards, order.version)
        log.info("shards added", shards=sorted(applied), asked=len(order.shards), version=order.version)
        return applied

    def give_up(self, shard: int, epoch: int) -> None:
        """The shard has an owner under a newer epoch than `epoch`, whatever the Shard Manager has said so far."""
        self.ownership = given_up(self.ownership, shard, epoch)

    def _check(self, order: ShardOrders) -> None:
        if (order.container, order.incarnation) != (self._container, self.incarnation):
            raise Conflict("the order is for another container or incarnation", rule="incarnation")
        if order.leader_epoch < self._leader_epoch:
            raise Conflict("the order is from a former leader", rule="leader_epoch")
        if order.shard_count != self.ownership.shard_count:
            known = self.ownership.shard_count
            raise Conflict(
                f"the order is for {order.shard_count} shards, this container has {known}", rule="shard_count"
            )
        self._leader_epoch = order.leader_epoch
