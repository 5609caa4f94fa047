"""The Shard Manager's port to the job store. Every call is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.store import leases
from penstock.store.alerts import replace_alerts
from penstock.store.avoided import read_avoided
from penstock.store.cluster import ShardingFacts, read_facts
from penstock.store.engine import present_number, transaction
from penstock.store.json import as_json
from penstock.store.loads import read_loads
from penstock.store.running import RUNNING_COMMIT, UNASKED_STOP
from penstock.store.shards import lock_containers
from penstock.tasks.loads import JobTasks, TaskLoad, with_avoided
from penstock.tasks.ownership import Member, Membership, Owner
from penstock.tasks.selectors import meets
from services.shard_manager.placement.alerts import KINDS, PlacementAlert
from services.shard_manager.store import members, owners, sharding
from services.shard_manager.store.jobs import RunningJobs
from services.shard_manager.store.owners import Change

LEASE = leases.SHARD_MANAGER

# The store's own clock: whoever compares the times with those of reports would be misled by any other.
_SAVE_HEARTBEATS = text(
    """
    UPDATE containers SET heartbeat_at = heard.at
    FROM (
        SELECT name, now() - make_interval(secs => seconds) AS at
        FROM unnest(CAST(:names AS text[]), CAST(:seconds AS double precision[])) AS ago (name, seconds)
    ) heard
    WHERE containers.name = heard.name AND containers.heartbeat_at < heard.at
    """
)
_SAVE_PLACEMENTS = text(
    """
    UPDATE containers SET placement = placed.placement
    FROM json_to_recordset(CAST(:rows AS json)) AS placed (name text, placement jsonb)
    WHERE containers.name = placed.name
    """
)


class Cell(NamedTuple):
    """A cell at one moment: all containers by name, lost ones too; owners by shard, all or only those that changed; and
    the newest commit of the running table. `unasked_stop`: as of every call that tells owners, no older than they."""

    facts: ShardingFacts
    members: dict[str, Member]
    owners: dict[int, Owner]
    commit_number: int
    unasked_stop: int = 0


class NewOwners(NamedTuple):
    """The shards that were given to others, and the newest stop that was taken as done before. Later stops find the
    new owners."""

    owners: dict[int, Owner]
    unasked_stop: int = 0


class FailedOver(NamedTuple):
    """The containers that are lost now, and the new owners of their shards. `unasked_stop`: as of `NewOwners`."""

    lost: frozenset[str]
    owners: dict[int, Owner]
    unasked_stop: int = 0


class Registered(NamedTuple):
    """The answer to a container that asked to be registered.

    `owners`: the shards that changed hands. `commit_number`: a commit of the running table; every later commit finds
    the container registered.
    """

    membership: Membership
    owners: dict[int, Owner]
    commit_number: int
    facts: ShardingFacts
    unasked_stop: int = 0


class ShardStore:
    """The Shard Manager's calls to the job store.

    Every call is atomic and raises Unavailable. Calls with a leader epoch raise Fenced once a newer leader was elected.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs = RunningJobs()

    def take_over(self, leader_epoch: int) -> Cell:
        """Reads everything. Shards that were never assigned are added first, without an owner."""
        self._jobs.forget()
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            owners.ensure_shards(connection, read_facts(connection, hold=True).sharding.count)
            regions = {member.region for member in members.read_members(connection).values() if member.live}
            self._give_slots_to_jobs(connection, regions)
            return _cell(connection)

    def read(self, above: int) -> Cell:
        """Reads the cell, and the owners of the shards that changed above an assignment epoch."""
        with transaction(self._engine) as connection:
            return _cell(connection, above=above)

    def register(self, member: Member, *, empty: bool, above: int, leader_epoch: int) -> Registered:
        """Writes a container's row as `penstock.tasks.ownership.membership` decides; reads owners `above` an epoch.

        The container's region gets a selector slot.
        """
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            # Before the facts and the counter: a container that adopts its lease in the store locks them in this order.
            lock_containers(connection, [member.name])
            facts = sharding.give_slots(connection, {member.region})
            decided = members.register(connection, member, empty=empty)
            changed = owners.read_owners(connection, above=above)
            commit = present_number(connection, RUNNING_COMMIT, hold=True)
            return Registered(decided, changed, commit, facts, _unasked_stop(connection))

    def silent(self, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
        """The candidates (name to incarnation) that `fail_over` would declare lost now. The others renewed their own
        lease in the store, or are another incarnation by now: nobody needs to choose heirs for them."""
        with transaction(self._engine) as connection:
            return members.silent(connection, candidates, interval_seconds)

    def fail_over(
        self,
        candidates: Mapping[str, str],
        heirs: Mapping[str, Mapping[int, Change]],
        interval_seconds: float,
        leader_epoch: int,
    ) -> FailedOver:
        """Declares containers (name to incarnation) lost and gives their shards to their `heirs`.

        A container that renewed its own lease in the store during the last `interval_seconds` stays live.
        """
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            lost = members.declare_lost(connection, candidates, interval_seconds)
            changes = {shard: change for name in lost for shard, change in heirs.get(name, {}).items()}
            return FailedOver(frozenset(lost), *_record(connection, changes))

    def record(self, changes: Mapping[int, Change], leader_epoch: int) -> NewOwners:
        """Gives shards new owners; returns those that were changed. A shard with a newer epoch is left alone."""
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            return _record(connection, changes)

    def reshard(self, count: int, leader_epoch: int) -> Cell:
        """Changes the number of shards to `count`, a multiple or a divisor, if that is what is wanted now.

        The parts of a shard have its owner and epoch. Shards that become one have the greatest epoch of them. Raises
        Conflict when they have different owners.
        """
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            sharding.reshard(connection, count)
            return _cell(connection)

    def give_slots_to_jobs(self, leader_epoch: int) -> None:
        """Gives the selectors of running jobs a slot, if a known container meets them; the next `read` shows it. Those
        that get none have an alert for as long as a job asks for them."""
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            self._give_slots_to_jobs(connection)

    def save_heartbeats(self, seconds_ago: Mapping[str, float], leader_epoch: int) -> None:
        """Writes when the containers' last heartbeats came."""
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            lock_containers(connection, seconds_ago)
            connection.execute(_SAVE_HEARTBEATS, {"names": list(seconds_ago), "seconds": list(seconds_ago.values())})

    def jobs(self) -> list[JobTasks]:
        """The jobs whose tasks should run, by name, with the containers that some of their tasks avoid."""
        with transaction(self._engine) as connection:
            return with_avoided(self._jobs.with_tasks(connection), read_avoided(connection))

    def loads(self) -> list[TaskLoad]:
        """The loads of tasks as last reported."""
        with transaction(self._engine) as connection:
            return read_loads(connection)

    def save_placement(
        self, placements: Mapping[str, Mapping[str, Any]], alerts: Sequence[PlacementAlert], leader_epoch: int
    ) -> None:
        """Writes the placement figures by container, for people, and makes `alerts` the open alerts of placement."""
        rows = [{"name": name, "placement": placement} for name, placement in placements.items()]
        found = {(alert.kind, alert.subject): (alert.message, alert.details) for alert in alerts}
        with leases.fenced(self._engine, LEASE, leader_epoch) as connection:
            lock_containers(connection, placements)
            connection.execute(_SAVE_PLACEMENTS, {"rows": as_json(rows)})
            replace_alerts(connection, KINDS, found, refresh=True)

    def _give_slots_to_jobs(self, connection: Connection, regions: Collection[str] = ()) -> None:
        asked = self._selectors_that_are_met(connection)
        sharding.give_slots(connection, asked | set(regions))
        sharding.sync_alerts_of_slots(connection, asked)

    def _selectors_that_are_met(self, connection: Connection) -> set[str]:
        """The selectors of running jobs that a known container meets. Others get no slot: slots are few and never
        freed."""
        offers = {member.offers() for member in members.read_members(connection).values()}
        selectors = self._jobs.selectors(connection)
        return {each for each in selectors if any(meets(offer, each) for offer in offers)}

    def leader_url(self) -> str | None:
        """The URL of the leader; None when it is unknown."""
        with transaction(self._engine) as connection:
            row = leases.read(connection, LEASE)
        return None if row is None or not row.url else row.url


def _cell(connection: Connection, *, above: int = -1) -> Cell:
    """Reads the facts first, so that the owners are not older than the facts."""
    facts = read_facts(connection)
    known, changed = members.read_members(connection), owners.read_owners(connection, above=above)
    commit = present_number(connection, RUNNING_COMMIT)
    return Cell(facts, known, changed, commit, present_number(connection, UNASKED_STOP))


def _record(connection: Connection, changes: Mapping[int, Change]) -> NewOwners:
    return NewOwners(owners.record_owners(connection, changes), _unasked_stop(connection))


def _unasked_stop(connection: Connection) -> int:
    """A stop that is taken as done later waits until this transaction has ended, and so sees its owners."""
    return present_number(connection, UNASKED_STOP, hold=True)
