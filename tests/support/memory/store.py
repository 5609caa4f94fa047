"""The job store in memory: what the ports' in-memory forms share, as the tables are what the real ones share.

Every write is whole or not at all: it is checked before anything is changed. Safe from any thread; no I/O, and time
is the caller's.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import orjson

from penstock.config.merge import overlay
from penstock.control.errors import Conflict, Fenced, Unavailable
from penstock.model.reports import TaskReport
from penstock.store.cluster import ShardingFacts
from penstock.store.running import CommitRow
from penstock.store.savepoints import SavepointRow
from penstock.tasks.loads import TaskLoad
from penstock.tasks.ownership import Avoidance, Member, Owner
from penstock.tasks.shards import Sharding
from services.shard_manager.store.owners import Change
from services.state_syncer.decide.progress import Restore
from services.state_syncer.decide.view import SyncRecord

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
RANKS = {"base": 0, "provisioner": 100, "scaler": 200, "oncall": 300, "rollback": 1000}


@dataclass
class LeaseEntry:
    """The lease of a loop."""

    holder: str
    epoch: int
    good_until: float
    url: str = ""


@dataclass
class JobEntry:
    """A job with its layers; one that was dropped is None and keeps its version."""

    revision: int
    restarts: int = 0
    deleting: bool = False
    layers: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    versions: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class RunningEntry:
    """A running row, and the commit that wrote it."""

    row: CommitRow
    commit_number: int
    newest_generation: int = 0
    rescale_seconds: Mapping[str, float] | None = None
    first_generation: int = 1

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The row's configuration, read once."""
        found: Mapping[str, Any] = orjson.loads(self.row.config)
        return found


@dataclass(frozen=True)
class ReportEntry:
    """The newest report of a container, without its tasks. `base`: the newest numbered one that had news of tasks.
    `reported_at`: of the store's clock; None: lately."""

    incarnation: str
    commit_number: int
    number: int | None = None
    base: int | None = None
    reported_at: float | None = None


@dataclass(frozen=True)
class AlertEntry:
    """An open alert, by kind and subject."""

    message: str
    details: Mapping[str, Any]
    times: int = 1


class MemoryStore:
    """The tables of one cell. `now` gives the store's own clock in seconds."""

    def __init__(self, now: Callable[[], float], shard_count: int) -> None:
        self.now = now
        self.news = threading.Condition(threading.RLock())
        self.incarnation = "first"
        self.counters: Counter[str] = Counter()
        self.leases: dict[str, LeaseEntry] = {}
        self.ranks = dict(RANKS)
        self.synced_ranks: dict[str, int] | None = None
        self.jobs: dict[str, JobEntry] = {}
        self.merged: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self.running: dict[str, RunningEntry] = {}
        self.forgotten: dict[str, tuple[int, int]] = {}
        self.sync_states: dict[str, SyncRecord] = {}
        self.plans: dict[str, Mapping[str, Any]] = {}
        self.savepoints: dict[int, SavepointRow] = {}
        self.restores: dict[str, Restore] = {}
        self.rejected: dict[str, Mapping[str, Any]] = {}
        self.rollout_orders: dict[str, Mapping[str, Any]] = {}
        self.rollouts_late: set[str] = set()
        self.rolled_back: set[str] = set()
        self.rollback_refused: set[str] = set()
        self.quarantined: set[str] = set()
        self.members: dict[str, Member] = {}
        self.registered_at: dict[str, float] = {}
        self.renewed_at: dict[str, float] = {}
        self.heard_at: dict[str, datetime] = {}
        self.facts = ShardingFacts(Sharding(shard_count), 0, shard_count)
        self.owners = dict.fromkeys(range(shard_count), Owner(None, 0))
        self.reports: dict[str, ReportEntry] = {}
        self.tasks: dict[str, tuple[TaskReport, ...]] = {}
        self.loads: dict[tuple[str, int], TaskLoad] = {}
        self.avoided: list[Avoidance] = []
        self.placements: dict[str, Mapping[str, Any]] = {}
        self.alerts: dict[tuple[str, str], AlertEntry] = {}
        self.set_aside: set[str] = set()
        self.transactions = 0

    def wall_time(self) -> datetime:
        """The store's own clock as people read it."""
        return BEGIN + timedelta(seconds=self.now())

    def next_number(self, counter: str) -> int:
        """The next number of a counter."""
        self.counters[counter] += 1
        return self.counters[counter]

    def check_epoch(self, loop: str, epoch: int) -> None:
        """Raises Fenced unless `epoch` is that of the loop's newest leader."""
        entry = self.leases.get(loop)
        if entry is None or entry.epoch != epoch:
            raise Fenced(f"the lease of {loop} has moved on from epoch {epoch}")

    def give(self, shards: Iterable[int], container: str | None) -> int:
        """Gives shards to a container under one new epoch, which is returned."""
        epoch = self.next_number("assignment")
        self.owners |= {shard: Owner(container, epoch) for shard in shards}
        return epoch

    def record_owners(self, changes: Mapping[int, Change]) -> dict[int, Owner]:
        """As `services.shard_manager.store.owners.record_owners`: a shard whose epoch has moved on is left alone."""
        if not changes:
            return {}
        epoch = self.next_number("assignment")
        due = {shard: change for shard, change in changes.items() if self.owners[shard].epoch == change.from_epoch}
        recorded = {shard: Owner(change.container, epoch) for shard, change in due.items()}
        self.owners |= recorded
        return recorded

    def shards_of(self, container: str) -> dict[int, int]:
        """What a container owns: shard to epoch."""
        return {shard: owner.epoch for shard, owner in self.owners.items() if owner.container == container}

    def reshard(self, count: int) -> None:
        """As `services.shard_manager.store.sharding.reshard`."""
        before, _, wanted, _ = self.facts
        if count == before.count or count != wanted:
            return
        if count % before.count == 0:
            self.owners = before.refined(self.owners, count)
        else:
            self.owners = {number: self._merged(number, count) for number in range(count)}
        self.facts = ShardingFacts(replace(before, count=count), self.next_number("assignment"), wanted)

    def _merged(self, number: int, count: int) -> Owner:
        owners = [self.owners[part] for part in range(number, len(self.owners), count)]
        if len({owner.container for owner in owners}) > 1:
            raise Conflict(f"shard {number} of {count} would have more than one owner")
        return max(owners, key=lambda owner: owner.epoch)

    def clear_rejected(self, job: str) -> None:
        """Closes the alerts about the rejected package of a job."""
        self.rolled_back.discard(job)
        self.rollback_refused.discard(job)

    def give_slots(self, selectors: set[str]) -> None:
        """As `services.shard_manager.store.sharding.give_slots`."""
        before, _, wanted, _ = self.facts
        sharding = before.with_selectors(selectors)
        if sharding != before:
            self.facts = ShardingFacts(sharding, self.next_number("assignment"), wanted)

    def silent(self, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
        """As `services.shard_manager.store.members.silent`: all but those that renewed their lease since."""
        return {name for name, life in candidates.items() if self._may_be_lost(name, life, interval_seconds)}

    def declare_lost(self, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
        """As `services.shard_manager.store.members.declare_lost`."""
        lost = self.silent(candidates, interval_seconds)
        for name in lost:
            self.members[name] = self.members[name]._replace(live=False)
            self.tasks.pop(name, None)
            self.want_full_report(name)
        return lost

    def want_full_report(self, container: str) -> None:
        """As `penstock.store.reports.want_full_reports`."""
        if container in self.reports:
            self.reports[container] = replace(self.reports[container], base=None)

    def remove_lost(self, older_than_seconds: float) -> set[str]:
        """As `services.shard_manager.store.members.remove_lost`."""
        owners = {owner.container for owner in self.owners.values()}
        gone = {
            name
            for name, member in self.members.items()
            if not member.live and name not in owners and self._heard_of(name) < self.now() - older_than_seconds
        }
        for name in gone:
            for table in (self.members, self.registered_at, self.renewed_at, self.heard_at, self.placements):
                table.pop(name, None)
            self.reports.pop(name, None)
            self.tasks.pop(name, None)
            self.set_aside.discard(name)
        return gone

    def _heard_of(self, name: str) -> float:
        heard_at = self.heard_at.get(name)
        by_leader = float("-inf") if heard_at is None else (heard_at - BEGIN).total_seconds()
        return max(by_leader, self.registered_at.get(name, 0.0), self.renewed_at.get(name, float("-inf")))

    def set_availability(self, container: str, availability: str, *, drain_until: datetime | None = None) -> None:
        """As `penstock.store.availability.set_availability`."""
        member = self.members[container]
        self.members[container] = member._replace(availability=availability, drain_until=drain_until)
        self.set_aside.discard(container)

    def _may_be_lost(self, name: str, incarnation: str, interval_seconds: float) -> bool:
        member = self.members.get(name)
        is_it = member is not None and member.live and member.incarnation == incarnation
        return is_it and self.renewed_at.get(name, float("-inf")) < self.now() - interval_seconds

    def configs(self, job: str) -> tuple[Mapping[str, Any], ...]:
        """A job's layers by rank, lowest first, without dropped ones."""
        layers = sorted(self.jobs[job].layers.items(), key=lambda layer: self.ranks[layer[0]])
        return tuple(config for _, config in layers if config is not None)

    def merged_config(self, job: str) -> Mapping[str, Any] | None:
        """What the layers merge to, where that was stored with the newest write in `merged`."""
        revision, config = self.merged.get(job, (None, None))
        return config if revision == self.jobs[job].revision else None

    def write_layer(self, job: str, layer: str, config: Mapping[str, Any] | None) -> int:
        """Writes a layer unchecked, of a job that is made when there is none; the revision."""
        revision = self.next_number("revision")
        entry = self.jobs.setdefault(job, JobEntry(revision))
        entry.revision, entry.layers[layer] = revision, None if config is None else overlay({}, config)
        entry.versions[layer] += 1
        return revision


class MemoryPort:
    """A port's connection to the store; `down` cuts this one off."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.down = False

    def _transaction(self) -> Transaction:
        """The store, for one caller at a time. Raises Unavailable."""
        if self.down:
            raise Unavailable("the job store cannot be reached")
        return Transaction(self._store)


class Transaction:
    """A block in which one caller has the store. Blocks are counted: between two of them ports change nothing."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __enter__(self) -> MemoryStore:
        self._store.news.__enter__()
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.transactions += 1
        self._store.news.__exit__(None, None, None)
