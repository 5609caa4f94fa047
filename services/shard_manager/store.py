"""The Shard Manager's port to the job store, and its Postgres form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, Engine

from penstock.store import leases, loads, resharding, shards
from penstock.store.alerts import replace_alerts
from penstock.store.cluster import ShardingFacts, read_facts, selectors_of_jobs
from penstock.store.engine import present_number, transaction
from penstock.store.running import RUNNING_COMMIT
from penstock.store.shards import Change
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member, Membership, Owner
from penstock.tasks.selectors import meets
from services.shard_manager.placement.alerts import KINDS, PlacementAlert

LEASE = "shard_manager"


class Cell(NamedTuple):
    """Containers by name, lost ones too, owners by shard, and the newest commit of the running table."""

    facts: ShardingFacts
    members: dict[str, Member]
    owners: dict[int, Owner]
    commit_number: int


class Changed(NamedTuple):
    """All containers by name, the owners of the shards that changed hands, and the newest commit."""

    facts: ShardingFacts
    members: dict[str, Member]
    owners: dict[int, Owner]
    commit_number: int


class FailedOver(NamedTuple):
    """The containers that are lost now, and the new owners of their shards."""

    lost: frozenset[str]
    owners: dict[int, Owner]


class Registered(NamedTuple):
    """What became of a container that asked to be registered, the owners of the shards that changed hands, and a commit
    of the running table: every later one finds the container registered."""

    membership: Membership
    owners: dict[int, Owner]
    commit_number: int
    facts: ShardingFacts


class ShardStore(Protocol):
    """What the Shard Manager needs of the job store. Every call is whole or nothing and raises Unavailable; those with
    a leader epoch raise Fenced once a newer leader was elected."""

    def take_over(self, leader_epoch: int) -> Cell:
        """Everything; shards that were never assigned are added first, without an owner."""
        ...

    def read(self, above: int) -> Changed:
        """What changed above an assignment epoch."""
        ...

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        """Writes a container's row as `penstock.tasks.ownership.membership` decides; what changed `above` an epoch.

        Its region gets a place among the selectors of the cell.
        """
        ...

    def fail_over(
        self,
        candidates: Mapping[str, str],
        heirs: Mapping[str, Mapping[int, Change]],
        interval_seconds: float,
        leader_epoch: int,
    ) -> FailedOver:
        """Declares containers (name to incarnation) lost, but for those that renewed their lease in the store during
        the last `interval_seconds`, and gives the shards of the lost ones to their `heirs`."""
        ...

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> dict[int, Owner]:
        """Gives shards new owners; those that were changed. One whose epoch has moved on is left alone."""
        ...

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        """Makes it `count` shards, a multiple or a divisor of the present number, if that is what is wanted now.

        The parts of a shard have its owner and epoch, shards that become one its greatest epoch. Raises Conflict when
        they have different owners.
        """
        ...

    def give_jobs_a_place(self, leader_epoch: int) -> None:
        """What running jobs ask for gets a place in the cell's list if a known container has it; the next `read`
        tells."""
        ...

    def save_heartbeats(self, heard_at: Mapping[str, datetime], leader_epoch: int) -> None:
        """Writes when containers were last heard of, for people."""
        ...

    def jobs(self) -> list[JobTasks]:
        """The jobs whose tasks should run."""
        ...

    def loads(self) -> list[TaskLoad]:
        """What tasks use, as it was told last."""
        ...

    def save_placement(
        self, placements: Mapping[str, Mapping[str, Any]], alerts: Sequence[PlacementAlert], leader_epoch: int
    ) -> None:
        """Writes what shards were placed by, by container, and makes `alerts` the open ones of placement: each is
        raised once, and cleared when it is not among them any more."""
        ...

    def leader_url(self) -> str | None:
        """Where the leader is; None when that is unknown."""
        ...


class PostgresShardStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take_over(self, leader_epoch: int) -> Cell:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            shards.ensure_shards(connection, read_facts(connection, hold=True).sharding.count)
            regions = {member.region for member in shards.read_members(connection).values() if member.live}
            resharding.give_a_place(connection, regions | _selectors_that_are_met(connection))
            return _cell(connection)

    def read(self, above: int) -> Changed:
        """See the port."""
        with transaction(self._engine) as connection:
            facts = read_facts(connection)
            members, owners = shards.read_members(connection), shards.read_owners(connection, above=above)
            return Changed(facts, members, owners, present_number(connection, RUNNING_COMMIT))

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            facts = resharding.give_a_place(connection, {member.region})
            decided = shards.register(connection, member, empty=empty)
            owners = shards.read_owners(connection, above=above)
            return Registered(decided, owners, present_number(connection, RUNNING_COMMIT, hold=True), facts)

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
            lost = shards.declare_lost(connection, candidates, interval_seconds)
            changes = {shard: change for name in lost for shard, change in heirs.get(name, {}).items()}
            return FailedOver(frozenset(lost), shards.record_owners(connection, changes))

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> dict[int, Owner]:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            return shards.record_owners(connection, changes)

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            resharding.reshard(connection, count)
            return _cell(connection)

    def give_jobs_a_place(self, leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            resharding.give_a_place(connection, _selectors_that_are_met(connection))

    def save_heartbeats(self, heard_at: Mapping[str, datetime], leader_epoch: int) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            shards.save_heartbeats(connection, heard_at)

    def jobs(self) -> list[JobTasks]:
        """See the port."""
        with transaction(self._engine) as connection:
            return loads.read_job_tasks(connection)

    def loads(self) -> list[TaskLoad]:
        """See the port."""
        with transaction(self._engine) as connection:
            return loads.read_loads(connection)

    def save_placement(
        self, placements: Mapping[str, Mapping[str, Any]], alerts: Sequence[PlacementAlert], leader_epoch: int
    ) -> None:
        """See the port."""
        found = {(alert.kind, alert.subject): (alert.message, alert.details) for alert in alerts}
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            shards.save_placements(connection, placements)
            replace_alerts(connection, KINDS, found)

    def leader_url(self) -> str | None:
        """See the port."""
        with transaction(self._engine) as connection:
            row = leases.read(connection, LEASE)
        return None if row is None or not row.url else row.url


def _cell(connection: Connection) -> Cell:
    """The facts first: owners that are read after them cannot be older."""
    facts = read_facts(connection)
    members, owners = shards.read_members(connection), shards.read_owners(connection)
    return Cell(facts, members, owners, present_number(connection, RUNNING_COMMIT))


def _selectors_that_are_met(connection: Connection) -> set[str]:
    """What running jobs ask for, without what no known container has: places are few, and never given back."""
    offers = {member.offers() for member in shards.read_members(connection).values()}
    return {each for each in selectors_of_jobs(connection) if any(meets(offer, each) for offer in offers)}
