"""`ShardStore` on the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import orjson

from penstock.store.shards import Change
from penstock.tasks.ownership import Member, Owner
from services.shard_manager.store import LEASE, Cell, Changed, FailedOver, Registered
from tests.support.memory.ownership import register
from tests.support.memory.store import MemoryPort, MemoryStore


class MemoryShardStore(MemoryPort):
    """As `services.shard_manager.store.PostgresShardStore`."""

    def take_over(self, leader_epoch: int) -> Cell:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            regions = {member.region for member in store.members.values() if member.live}
            store.give_regions_a_place(regions | _regions_of_jobs(store))
            return _cell(store)

    def read(self, above: int) -> Changed:
        with self._transaction() as store:
            return Changed(store.facts, dict(store.members), _owners(store, above), _commit(store))

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.give_regions_a_place({member.region})
            decided = register(store, member, empty=empty)
            return Registered(decided, _owners(store, above), _commit(store), store.facts)

    def fail_over(
        self,
        candidates: Mapping[str, str],
        heirs: Mapping[str, Mapping[int, Change]],
        interval_seconds: float,
        leader_epoch: int,
    ) -> FailedOver:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            lost = store.declare_lost(candidates, interval_seconds)
            changes = {shard: change for name in sorted(lost) for shard, change in heirs.get(name, {}).items()}
            return FailedOver(frozenset(lost), store.record_owners(changes))

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> dict[int, Owner]:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            return store.record_owners(changes)

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.reshard(count)
            return _cell(store)

    def give_jobs_regions_a_place(self, leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.give_regions_a_place(_regions_of_jobs(store))

    def save_heartbeats(self, heard_at: Mapping[str, datetime], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.heard_at |= {name: at for name, at in heard_at.items() if name in store.members}

    def leader_url(self) -> str | None:
        with self._transaction() as store:
            held = store.leases.get(LEASE)
            return None if held is None or not held.url else held.url


def _cell(store: MemoryStore) -> Cell:
    return Cell(store.facts, dict(store.members), dict(store.owners), _commit(store))


def _regions_of_jobs(store: MemoryStore) -> set[str]:
    configs = (orjson.loads(entry.row.config) for entry in store.running.values())
    return {config["region"] for config in configs if config.get("region") is not None}


def _commit(store: MemoryStore) -> int:
    return store.counters["running_commit"]


def _owners(store: MemoryStore, above: int) -> dict[int, Owner]:
    return {shard: owner for shard, owner in store.owners.items() if owner.epoch > above}
