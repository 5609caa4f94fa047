"""`ShardStore` on the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import orjson

from penstock.model.alerts import AlertKind
from penstock.store.running import UNASKED_STOP
from penstock.tasks.loads import JobTasks, TaskLoad, with_avoided
from penstock.tasks.ownership import Member, Owner
from penstock.tasks.selectors import meets, selector_of
from services.shard_manager.placement.alerts import KINDS, PlacementAlert
from services.shard_manager.store.owners import Change
from services.shard_manager.store.port import LEASE, Cell, FailedOver, NewOwners, Registered
from tests.support.memory.ownership import register
from tests.support.memory.store import AlertEntry, MemoryPort, MemoryStore


class MemoryShardStore(MemoryPort):
    """As `services.shard_manager.store.port.ShardStore`."""

    def take_over(self, leader_epoch: int) -> Cell:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            regions = {member.region for member in store.members.values() if member.live}
            _give_slots_to_jobs(store, regions)
            return _cell(store)

    def read(self, above: int) -> Cell:
        with self._transaction() as store:
            return Cell(store.facts, dict(store.members), _owners(store, above), _commit(store), _unasked(store))

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.give_slots({member.region})
            decided = register(store, member, empty=empty)
            return Registered(decided, _owners(store, above), _commit(store), store.facts, _unasked(store))

    def silent(self, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
        with self._transaction() as store:
            return store.silent(candidates, interval_seconds)

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
            return FailedOver(frozenset(lost), store.record_owners(changes), _unasked(store))

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> NewOwners:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            return NewOwners(store.record_owners(changes), _unasked(store))

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.reshard(count)
            return _cell(store)

    def give_slots_to_jobs(self, leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            _give_slots_to_jobs(store, set())

    def save_heartbeats(self, seconds_ago: Mapping[str, float], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            for name in seconds_ago.keys() & store.members.keys():
                at = store.wall_time() - timedelta(seconds=seconds_ago[name])
                store.heard_at[name] = max(at, store.heard_at.get(name, at))

    def jobs(self) -> list[JobTasks]:
        with self._transaction() as store:
            rows = [(entry.row, orjson.loads(entry.row.config)) for entry in store.running.values()]
            avoided = list(store.avoided)
        jobs = [
            JobTasks(
                row.job,
                config["task_count"],
                row.generation,
                config.get("isolation") == "process",
                config.get("resources", {}),
                selector_of(config),
                config.get("priority", 0),
            )
            for row, config in rows
            if not row.stopping and config.get("desired_state") != "stopped"
        ]
        return with_avoided(jobs, avoided)

    def loads(self) -> list[TaskLoad]:
        with self._transaction() as store:
            return list(store.loads.values())

    def save_placement(
        self, placements: Mapping[str, Mapping[str, Any]], alerts: Sequence[PlacementAlert], leader_epoch: int
    ) -> None:
        with self._transaction() as store:
            store.check_epoch(LEASE, leader_epoch)
            store.placements |= {name: each for name, each in placements.items() if name in store.members}
            others = {key: alert for key, alert in store.alerts.items() if key[0] not in KINDS}
            store.alerts = others | {(alert.kind, alert.subject): _raised(store, alert) for alert in alerts}

    def leader_url(self) -> str | None:
        with self._transaction() as store:
            held = store.leases.get(LEASE)
            return None if held is None or not held.url else held.url


def _cell(store: MemoryStore) -> Cell:
    return Cell(store.facts, dict(store.members), dict(store.owners), _commit(store), _unasked(store))


def _give_slots_to_jobs(store: MemoryStore, regions: set[str]) -> None:
    asked = _selectors_that_are_met(store)
    store.give_slots(regions | asked)
    kind = AlertKind.SELECTOR_WITHOUT_SLOT
    without = {(kind.value, each) for each in asked - set(store.facts.sharding.selectors)}
    others = {key: alert for key, alert in store.alerts.items() if key[0] != kind or key in without}
    store.alerts = {key: AlertEntry("no slot", {}) for key in without} | others


def _selectors_that_are_met(store: MemoryStore) -> set[str]:
    selectors = {selector_of(orjson.loads(entry.row.config)) for entry in store.running.values()}
    offers = {member.offers() for member in store.members.values()}
    return {each for each in selectors if each is not None and any(meets(offer, each) for offer in offers)}


def _commit(store: MemoryStore) -> int:
    return store.counters["running_commit"]


def _unasked(store: MemoryStore) -> int:
    return store.counters[UNASKED_STOP]


def _owners(store: MemoryStore, above: int) -> dict[int, Owner]:
    if above >= store.counters["assignment"]:
        return {}
    return {shard: owner for shard, owner in store.owners.items() if owner.epoch > above}


def _raised(store: MemoryStore, alert: PlacementAlert) -> AlertEntry:
    """As `penstock.store.alerts.replace_alerts`: one that says the same is left alone."""
    known = store.alerts.get((alert.kind, alert.subject))
    if known is None:
        return AlertEntry(alert.message, alert.details)
    if (known.message, known.details) == (alert.message, alert.details):
        return known
    return AlertEntry(alert.message, alert.details, known.times + 1)
