"""`LeaseStore` and `ShardAuthority` on the in-memory store."""

from __future__ import annotations

from penstock.control.errors import LeaseLost
from penstock.store.running import RUNNING_COMMIT, UNASKED_STOP
from penstock.tasks.ownership import Member, Membership, OwnedShards, drain_is_over, joined, membership
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest
from tests.support.memory.store import MemoryPort, MemoryStore


class MemoryLeaseStore(MemoryPort):
    """As `services.task_manager.membership.stored_lease.StoredLease`."""

    def __init__(self, store: MemoryStore, container: str) -> None:
        super().__init__(store)
        self._container = container

    def renew(self, incarnation: str) -> OwnedShards:
        with self._transaction() as store:
            self._take(store, (incarnation,), incarnation)
            return self._stored(store)

    def adopt(self, former: str, incarnation: str) -> OwnedShards:
        with self._transaction() as store:
            self._take(store, (former, incarnation), incarnation)
            reissue(store, self._container)
            return self._stored(store)

    def _take(self, store: MemoryStore, lives: tuple[str, ...], incarnation: str) -> None:
        member = store.members.get(self._container)
        if member is None or not member.live or member.incarnation not in lives:
            raise LeaseLost(f"{self._container} was declared lost or replaced, or was never registered")
        if drain_is_over(member, store.wall_time()):
            raise LeaseLost(f"{self._container} had to be empty by {member.drain_until}")
        store.members[self._container] = member._replace(incarnation=incarnation)
        store.renewed_at[self._container] = store.now()

    def _stored(self, store: MemoryStore) -> OwnedShards:
        counters = store.counters
        shards = store.shards_of(self._container)
        numbers = (counters[RUNNING_COMMIT], counters[UNASKED_STOP])
        return OwnedShards(shards, counters["assignment"], store.facts.sharding, *numbers)


def renewed(store: MemoryLeaseStore, request: LeaseRequest) -> LeaseAnswer:
    """As `services.task_service.store.leases.answer_one`."""
    former, incarnation = request.former, request.incarnation
    try:
        return LeaseAnswer.of(store.renew(incarnation) if former is None else store.adopt(former, incarnation))
    except LeaseLost:
        return LeaseAnswer(known=False)


class MemoryShardAuthority(MemoryPort):
    """A Shard Manager that assigns every free shard to the container that sends a heartbeat."""

    def __init__(self, store: MemoryStore, *, lease_seconds: float) -> None:
        super().__init__(store)
        self._lease_seconds = lease_seconds

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        with self._transaction() as store:
            empty = not request.held and not request.dropped
            known = register(store, member_of(request), empty=empty) is not Membership.REFUSED
            free = [shard for shard, owner in store.owners.items() if owner.container is None]
            if known and free:
                store.give(free, request.container)
            return HeartbeatAnswer(
                known=known,
                version=store.counters["assignment"],
                shard_count=store.facts.sharding.count,
                selectors=store.facts.sharding.selectors,
                lease_seconds=self._lease_seconds,
                shards=store.shards_of(request.container) if known else {},
                unasked_stop=store.counters[UNASKED_STOP],
            )


def member_of(request: HeartbeatRequest) -> Member:
    """The row of a container that asks to be registered."""
    capacity = request.capacity
    return Member(
        request.container,
        request.incarnation,
        request.url,
        request.region,
        capacity.cpu_cores,
        capacity.memory_bytes,
        capacity.disk_bytes,
        further_capacity=capacity.further,
        labels=request.labels,
    )


def register(store: MemoryStore, member: Member, *, empty: bool) -> Membership:
    """As `services.shard_manager.store.members.register`."""
    decided = membership(store.members.get(member.name), member.incarnation, empty=empty)
    if decided in (Membership.NEW, Membership.RESTARTED):
        store.members[member.name] = joined(store.members.get(member.name), member)
        store.registered_at[member.name] = store.now()
        store.renewed_at.pop(member.name, None)
    if decided is Membership.RESTARTED:
        reissue(store, member.name)
    return decided


def reissue(store: MemoryStore, container: str) -> None:
    """Assigns a container's shards to it under new epochs, which fences the tasks of its former incarnation."""
    owned = store.shards_of(container)
    if owned:
        store.give(owned, container)
