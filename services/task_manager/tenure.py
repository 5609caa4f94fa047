"""One life of the container after another: its incarnation, its lease, and the shards it owns under that lease.

No I/O, no clock. Not thread-safe: `container.Container` guards it.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.control.errors import Conflict
from penstock.control.logs import logger
from penstock.wire.cluster import ShardOrders
from services.task_manager.lease import Lease
from services.task_manager.ownership import Epochs, Ownership, given_up, with_adds, with_drops, with_map
from services.task_manager.ports import StoredShards

log = logger(__name__)


class Tenure:
    """What the container may do, and as whom."""

    def __init__(self, container: str, new_incarnation: Callable[[], str]) -> None:
        self._container = container
        self._new_incarnation = new_incarnation
        self._leader_epoch = 0
        self.incarnation = new_incarnation()
        self.lease = Lease()
        self.ownership = Ownership()
        self._joined_after_commit = 0

    def expired_at(self, now: float) -> float | None:
        """When the lease ran out; None while it is good, and when there never was one."""
        return self.lease.good_until if self.lease.was_granted() and not self.lease.is_good(now) else None

    def grant(self, sent_at: float, seconds: float, owned: StoredShards, told: Epochs, now: float) -> None:
        """The lease is good for `seconds` from `sent_at`; `owned` is a full map, see `ownership.with_map`."""
        lease = self.lease.extended(sent_at, seconds)
        if not lease.is_good(now):
            log.warning("lease came too late", seconds=seconds)
            return
        before = self.ownership
        self.lease, self.ownership = lease, with_map(before, owned.shards, owned.version, told, owned.sharding)
        if before.shards != self.ownership.shards:
            shards, version = len(self.ownership.shards), owned.version
            log.info("shards changed", shards=shards, before=len(before.shards), version=version)

    def joined(self, commit_number: int) -> None:
        """The first lease of this life was given at or after a commit of the running table; later ones say no more."""
        if not self.lease.was_granted():
            self._joined_after_commit = commit_number

    def may_start_from(self, commit_number: int) -> bool:
        """Whether specs of this commit are new enough: jobs that were stopped before this life are stopped in them.

        Once some are, all are: from then on those who stop a job ask this container first.
        """
        if commit_number >= self._joined_after_commit:
            self._joined_after_commit = 0
        return self._joined_after_commit == 0

    def begin_anew(self) -> None:
        """Another life, without lease and shards. What is known of versions stays true."""
        self.incarnation = self._new_incarnation()
        self.lease = Lease()
        self.ownership = Ownership(version=self.ownership.version, sharding=self.ownership.sharding)

    def obey_drop(self, order: ShardOrders) -> frozenset[int]:
        """Gives shards up; those that are. Raises Conflict."""
        self._check(order)
        self.ownership, obeyed = with_drops(self.ownership, order.shards, order.version)
        log.info("shards dropped", shards=sorted(obeyed), asked=len(order.shards), version=order.version)
        return obeyed

    def obey_add(self, order: ShardOrders, now: float) -> frozenset[int]:
        """Takes shards; those that it has now. Raises Conflict, also without a lease."""
        self._check(order)
        if not self.lease.is_good(now):
            raise Conflict("this container has no lease", rule="lease")
        self.ownership, obeyed = with_adds(self.ownership, order.shards, order.version)
        log.info("shards added", shards=sorted(obeyed), asked=len(order.shards), version=order.version)
        return obeyed

    def give_up(self, shard: int, epoch: int) -> None:
        """A newer owner than `epoch` exists: the shard is not ours, whatever we were told so far."""
        self.ownership = given_up(self.ownership, shard, epoch)

    def _check(self, order: ShardOrders) -> None:
        if (order.container, order.incarnation) != (self._container, self.incarnation):
            raise Conflict("the order is for another life of a container", rule="incarnation")
        if order.leader_epoch < self._leader_epoch:
            raise Conflict("the order is from a former leader", rule="leader_epoch")
        if order.shard_count != self.ownership.shard_count:
            known = self.ownership.shard_count
            raise Conflict(f"the order speaks of {order.shard_count} shards, not of {known}", rule="shard_count")
        self._leader_epoch = order.leader_epoch
