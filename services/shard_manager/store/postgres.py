"""`ShardStore` on Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine

from penstock.store import leases
from penstock.store.alerts import replace_alerts
from penstock.store.cluster import read_facts
from penstock.store.engine import present_number, transaction
from penstock.store.loads import read_loads
from penstock.store.running import RUNNING_COMMIT
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member, Owner
from penstock.tasks.selectors import meets
from services.shard_manager.placement.alerts import KINDS, PlacementAlert
from services.shard_manager.store import members, owners, sharding
from services.shard_manager.store.jobs import read_job_tasks
from services.shard_manager.store.owners import Change
from services.shard_manager.store.port import LEASE, Cell, FailedOver, Registered


class PostgresShardStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take_over(self, leader_epoch: int) -> Cell:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            owners.ensure_shards(connection, read_facts(connection, hold=True).sharding.count)
            regions = {member.region for member in members.read_members(connection).values() if member.live}
            sharding.give_slots(connection, regions | _selectors_that_are_met(connection))
            return _cell(connection)

    def read(self, above: int) -> Cell:
        """See the port."""
        with transaction(self._engine) as connection:
            return _cell(connection, above=above)

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            facts = sharding.give_slots(connection, {member.region})
            decided = members.register(connection, member, empty=empty)
            changed = owners.read_owners(connection, above=above)
            return Registered(decided, changed, present_number(connection, RUNNING_COMMIT, hold=True), facts)

    def fail_over(
        self,
        candidates: Mapping[str, str],
        heirs: Mapping[str, Mapping[int, Change]],
        interval_seconds: float,
        leader_epoch: int,
    ) -> FailedOver:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            lost = members.declare_lost(connection, candidates, interval_seconds)
            changes = {shard: change for name in lost for shard, change in heirs.get(name, {}).items()}
            return FailedOver(frozenset(lost), owners.record_owners(connection, changes))

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> dict[int, Owner]:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            return owners.record_owners(connection, changes)

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            sharding.reshard(connection, count)
            return _cell(connection)

    def give_slots_to_jobs(self, leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            sharding.give_slots(connection, _selectors_that_are_met(connection))

    def save_heartbeats(self, heard_at: Mapping[str, datetime], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            members.save_heartbeats(connection, heard_at)

    def jobs(self) -> list[JobTasks]:
        """See the port."""
        with transaction(self._engine) as connection:
            return read_job_tasks(connection)

    def loads(self) -> list[TaskLoad]:
        """See the port."""
        with transaction(self._engine) as connection:
            return read_loads(connection)

    def save_placement(
        self, placements: Mapping[str, Mapping[str, Any]], alerts: Sequence[PlacementAlert], leader_epoch: int
    ) -> None:
        """See the port."""
        found = {(alert.kind, alert.subject): (alert.message, alert.details) for alert in alerts}
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            members.save_placements(connection, placements)
            replace_alerts(connection, KINDS, found)

    def leader_url(self) -> str | None:
        """See the port."""
        with transaction(self._engine) as connection:
            row = leases.read(connection, LEASE)
        return None if row is None or not row.url else row.url


def _cell(connection: Connection, *, above: int = -1) -> Cell:
    """Reads the facts first, so that the owners are not older than the facts."""
    facts = read_facts(connection)
    known, changed = members.read_members(connection), owners.read_owners(connection, above=above)
    return Cell(facts, known, changed, present_number(connection, RUNNING_COMMIT))


def _selectors_that_are_met(connection: Connection) -> set[str]:
    """The selectors of running jobs that a known container meets. Others get no slot: slots are few and never freed."""
    offers = {member.offers() for member in members.read_members(connection).values()}
    selectors = sharding.selectors_of_jobs(connection)
    return {each for each in selectors if any(meets(offer, each) for offer in offers)}
