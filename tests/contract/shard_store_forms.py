"""The job store of the Shard Manager's contract suite, with the hands of its other writers: on Postgres, in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Engine, text

from penstock.model.reports import TaskReportBatch
from penstock.store.availability import set_availability
from penstock.store.avoided import avoid
from penstock.store.cluster import ask_for_shards
from penstock.store.election import StoreElection
from penstock.store.engine import transaction
from penstock.store.running import RUNNING_COMMIT, UNASKED_STOP, CommitRow
from penstock.tasks.ownership import DRAINING, Avoidance, OwnedShards
from services.job_service.store.overview import alerts_page
from services.shard_manager.store.port import LEASE, ShardStore
from services.task_manager.membership.stored_lease import StoredLease
from services.task_service.store.reports import save_report
from tests.support.memory.election import MemoryElection
from tests.support.memory.ownership import MemoryLeaseStore
from tests.support.memory.shards import MemoryShardStore
from tests.support.memory.specs import MemoryTaskService
from tests.support.memory.store import MemoryStore, RunningEntry
from tests.support.store.jobs import make_config
from tests.support.store.running import commit_job
from tests.support.store.unreachable import unreachable_engine

DRAIN_UNTIL = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
URL = "http://leader"


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store: ShardStore = ShardStore(engine)
        self.away: ShardStore = ShardStore(unreachable_engine())

    def elect(self, holder: str) -> int:
        with transaction(self.engine) as connection:
            connection.execute(text("UPDATE leases SET expires_at = '-infinity'"))
        epoch = StoreElection(self.engine, LEASE, holder, url=URL, lease_seconds=60.0).take()
        assert epoch is not None
        return epoch

    def commit(self, number: int) -> None:
        with transaction(self.engine) as connection:
            values = {"number": number, "name": RUNNING_COMMIT}
            connection.execute(text("UPDATE counters SET value = :number WHERE name = :name"), values)

    def unasked_stop(self, number: int) -> None:
        with transaction(self.engine) as connection:
            values = {"number": number, "name": UNASKED_STOP}
            connection.execute(text("UPDATE counters SET value = :number WHERE name = :name"), values)

    def renew_by_itself(self, container: str, incarnation: str) -> OwnedShards:
        return StoredLease(self.engine, container).renew(incarnation)

    def want(self, count: int) -> None:
        with transaction(self.engine) as connection:
            ask_for_shards(connection, count)

    def run(self, job: str, **fields: Any) -> None:
        commit_job(self.engine, job, **fields)

    def report(self, batch: TaskReportBatch) -> None:
        with transaction(self.engine) as connection:
            save_report(connection, batch)

    def never_heard(self, container: str) -> None:
        with transaction(self.engine) as connection:
            statement = "UPDATE containers SET heartbeat_at = '2000-01-01' WHERE name = :name"
            connection.execute(text(statement), {"name": container})

    def now_and_heard_at(self, container: str) -> tuple[datetime, datetime]:
        with transaction(self.engine) as connection:
            statement = "SELECT clock_timestamp(), heartbeat_at FROM containers WHERE name = :name"
            now, heard_at = connection.execute(text(statement), {"name": container}).one()
            return now, heard_at

    def placements(self) -> dict[str, Any]:
        with transaction(self.engine) as connection:
            rows = connection.execute(text("SELECT name, placement FROM containers WHERE placement IS NOT NULL"))
            return {row.name: row.placement for row in rows}

    def open_alerts(self) -> dict[tuple[str, str], tuple[Any, int]]:
        with transaction(self.engine) as connection:
            return {(row.kind, row.subject): (row.details, row.times) for row in alerts_page(connection, limit=9)}

    def avoid(self, task: Avoidance, time: timedelta) -> None:
        with transaction(self.engine) as connection:
            avoid(connection, task, time, author="ann", reason="slow")

    def drain(self, container: str) -> None:
        with transaction(self.engine) as connection:
            set_availability(connection, container, DRAINING, reason="repair", drain_until=DRAIN_UNTIL)


class MemoryForm:
    def __init__(self, memory: MemoryStore) -> None:
        self.memory = memory
        self.store: ShardStore = MemoryShardStore(memory)
        away = MemoryShardStore(memory)
        away.down = True
        self.away: ShardStore = away

    def elect(self, holder: str) -> int:
        for held in self.memory.leases.values():
            held.good_until = float("-inf")
        epoch = MemoryElection(self.memory, LEASE, holder, lease_seconds=60.0, url=URL).take()
        assert epoch is not None
        return epoch

    def commit(self, number: int) -> None:
        self.memory.counters[RUNNING_COMMIT] = number

    def unasked_stop(self, number: int) -> None:
        self.memory.counters[UNASKED_STOP] = number

    def renew_by_itself(self, container: str, incarnation: str) -> OwnedShards:
        return MemoryLeaseStore(self.memory, container).renew(incarnation)

    def never_heard(self, container: str) -> None:
        self.memory.heard_at[container] = datetime(2000, 1, 1, tzinfo=UTC)

    def now_and_heard_at(self, container: str) -> tuple[datetime, datetime]:
        return self.memory.wall_time(), self.memory.heard_at[container]

    def want(self, count: int) -> None:
        self.memory.facts = self.memory.facts._replace(wanted=count)

    def run(self, job: str, *, stopping: bool = False, **fields: Any) -> None:
        config = orjson.dumps(make_config(**fields))
        self.memory.running[job] = RunningEntry(CommitRow(job, config, 1, 1, 0, stopping, True), 1)

    def report(self, batch: TaskReportBatch) -> None:
        MemoryTaskService(self.memory).report(batch)

    def placements(self) -> dict[str, Any]:
        return dict(self.memory.placements)

    def open_alerts(self) -> dict[tuple[str, str], tuple[Any, int]]:
        return {key: (alert.details, alert.times) for key, alert in self.memory.alerts.items()}

    def avoid(self, task: Avoidance, time: timedelta) -> None:
        if time > timedelta():
            self.memory.avoided.append(task)

    def drain(self, container: str) -> None:
        self.memory.set_availability(container, DRAINING, drain_until=DRAIN_UNTIL)
