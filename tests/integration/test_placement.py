"""The Shard Manager places by load, capacity and region on a real store: stories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskReport, TaskState
from penstock.store.availability import set_availability
from penstock.store.cluster import read_facts
from penstock.store.engine import transaction
from penstock.tasks.dimensions import CPU
from penstock.tasks.ownership import CORDONED, DRAINING
from services.job_service.store.overview import alerts_page
from services.task_service.store.reports import save_loads
from tests.support.shard_manager.cell import ShardCell, shard_cell
from tests.support.shard_manager.facts import jobs_in
from tests.support.store.running import commit_job, forget_job

SHARDS = 15
"""Odd, so that tasks of any region may hash into each of them (`shards.SLOTS` is even)."""
LITTLE = {"cpu_cores": 0.05, "memory_bytes": 64 * 2**20, "disk_bytes": 0}
EVERY_ROUND = {"load_check_seconds": 0.01, "job_check_seconds": 0.0}


@contextmanager
def cell(
    engine: Engine, database_url: str, regions: Mapping[str, str], labels: str = "", **settings: Any
) -> Iterator[ShardCell]:
    """A Shard Manager and containers, by name to region, over which all shards are spread. `labels`: the one that has
    the label `disk=ssd`."""
    with shard_cell(engine, database_url, shards=SHARDS) as found:
        found.start(**EVERY_ROUND | settings)
        for name, region in regions.items():
            found.join(name, region=region, labels={"disk": "ssd"} if name == labels else None)
        wait_until(found.is_placed, 20, "a first placement")
        yield found


def tell(engine: Engine, loads: Mapping[str, float]) -> None:
    """Loads of the CPU of jobs' task 0."""
    tasks = [
        TaskReport(
            job=job, index=0, state=TaskState.RUNNING, revision=1, generation=1, restarts=0, epoch=1, load={CPU: cpu}
        )
        for job, cpu in loads.items()
    ]
    with transaction(engine) as connection:
        save_loads(connection, tasks)


def region_alerts(engine: Engine) -> dict[str, str]:
    with transaction(engine) as connection:
        return {
            alert.subject: alert.message for alert in alerts_page(connection, kind=AlertKind.SELECTOR_UNMET, limit=9)
        }


def test_shards_move_off_a_container_that_turns_out_to_be_hot(engine, database_url):
    """1. Jobs whose loads are unknown: nothing moves. 2. Two tasks of one container use nearly all of it: one of them
    moves to the other. 3. Nothing changes any more: nothing moves."""
    with cell(engine, database_url, {"a": "local", "b": "local"}) as found:
        names = {shard: names[0] for shard, names in jobs_in(dict.fromkeys(range(SHARDS), 1), SHARDS).items()}
        for name in names.values():
            commit_job(engine, name, task_count=1, resources=LITTLE)
        before = found.owners()
        found.rounds_pass()
        assert found.owners() == before
        hot = [shard for shard in range(SHARDS) if before[shard] == "a"][:2]
        tell(engine, {name: 0.85 if shard in hot else 0.05 for shard, name in names.items()})
        wait_until(lambda: {found.owners()[shard] for shard in hot} == {"a", "b"}, 10, "a hot shard to move")
        wait_until(lambda: found.agrees(), 10, "containers to know")
        after = found.owners()
        found.rounds_pass()
        assert found.owners() == after


def test_a_shard_follows_what_its_job_asks_for_and_an_impossible_one_hurts_nobody(engine, database_url):
    """1. A job runs in a shard in region east. 2. One in it asks for west and a label: the shard goes there. 3. It
    asks for the label in east, where nobody has it: the shard stays owned, and an alert says who asks for what. 4. The
    job goes, and so does the alert."""
    labels = {"disk": "ssd"}
    with cell(engine, database_url, {"a": "east", "b": "west"}, labels="b") as found:
        with transaction(engine) as connection:
            sharding, held = read_facts(connection).sharding.with_selectors({"west,disk=ssd"}), found.owners()
        asks, shard = next(
            (name, shard)
            for name in map("asks{}".format, count())
            if (shard := sharding.shard_of(f"{name}/0", "west,disk=ssd")) is not None and held[shard] == "a"
        )
        [[other]] = jobs_in({shard: 1}, SHARDS).values()
        commit_job(engine, other, task_count=1)
        commit_job(engine, asks, task_count=1, region="west", container_labels=labels)
        wait_until(lambda: found.owners()[shard] == "b" and found.agrees(), 10, "the shard to go west")
        commit_job(engine, asks, task_count=1, region="east", container_labels=labels)
        wait_until(lambda: region_alerts(engine), 10, "an alert")
        [(subject, message)] = region_alerts(engine).items()
        assert subject == asks
        words = "region east and label disk=ssd"
        assert f"job {asks} asks for {words}: no container has {words}" in message
        found.rounds_pass()
        assert found.agrees()
        forget_job(engine, asks)
        wait_until(lambda: not region_alerts(engine), 10, "the alert to be cleared")


@pytest.mark.long
def test_the_move_budget_is_honoured(engine, database_url):
    """Of two containers, one gets a third of the shards late: by two moves, until the next look goes on."""
    with cell(engine, database_url, {"a": "local", "b": "local"}, move_budget=2, load_check_seconds=3600.0) as found:
        before = found.owners()
        found.join("c")
        wait_until(lambda: found.counts()["c"] == 2, 10, "two shards to move")
        found.rounds_pass()
        moved = {shard for shard, name in found.owners().items() if name != before[shard]}
        assert len(moved) == found.counts()["c"] == 2


def test_a_cordoned_container_gets_nothing_and_a_draining_one_is_emptied(engine, database_url):
    with cell(engine, database_url, {"a": "local", "b": "local", "c": "local"}) as found:
        with transaction(engine) as connection:
            set_availability(connection, "a", CORDONED, reason="test")
            set_availability(connection, "b", DRAINING, reason="test")
        held = {shard for shard, name in found.owners().items() if name == "a"}
        wait_until(lambda: found.counts()["b"] == 0 and found.agrees(), 10, "b to be empty")
        assert {shard for shard, name in found.owners().items() if name == "a"} == held


def test_the_store_has_what_containers_were_given_by(engine, database_url):
    with cell(engine, database_url, {"a": "local", "b": "local"}):
        wait_until(lambda: len(placements(engine)) == 2, 10, "placements")
        for placement in placements(engine).values():
            assert placement.keys() == {"at", "load", "usable", "deviation"}
            assert placement["usable"][CPU] == pytest.approx(2.0 * 0.9)
            assert abs(placement["deviation"][CPU]) < 0.1


def placements(engine: Engine) -> dict[str, Any]:
    statement = text("SELECT name, placement FROM containers WHERE placement IS NOT NULL")
    with transaction(engine) as connection:
        return {row.name: row.placement for row in connection.execute(statement)}
