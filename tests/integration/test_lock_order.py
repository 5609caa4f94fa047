"""Who writes the rows of several containers locks them in order of name, whatever order they were written or named in,
and before the facts of the cell and any counter.

So two of them cannot deadlock. Each test keeps the row in the middle, and looks which of the others the writer has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, text

from penstock.control.process import wait_until
from penstock.store.election import StoreElection
from penstock.store.engine import transaction
from penstock.store.incarnation import begin_incarnation
from penstock.store.reports import want_full_reports
from penstock.store.shards import adopt_own_lease, renew_leases
from penstock.tasks.ownership import Member
from services.shard_manager.store.housekeeping import HousekeepingStore
from services.shard_manager.store.members import register
from services.shard_manager.store.port import LEASE, ShardStore
from tests.support.store.database import waits_for_a_lock

NAMES = ["z", "y", "m", "b", "a"]
_KEEP = "SELECT FROM {table} WHERE {key} = 'm' FOR UPDATE"
_ALL = "SELECT {key} FROM {table} ORDER BY 1"
_FREE = f"{_ALL} FOR NO KEY UPDATE SKIP LOCKED"
_LOCKED_LATER = {"cluster": "key", "counters": "name"}


def heartbeats(engine: Engine, epoch: int) -> None:
    ShardStore(engine).save_heartbeats(dict.fromkeys(NAMES, -3600.0), epoch)


def placement(engine: Engine, epoch: int) -> None:
    ShardStore(engine).save_placement({name: {"cpu": 1} for name in NAMES}, [], epoch)


def fail_over(engine: Engine, epoch: int) -> None:
    assert ShardStore(engine).fail_over(dict.fromkeys(NAMES, "one"), {}, 60.0, epoch).lost == set(NAMES)


def renewal(engine: Engine, _: int) -> None:
    with transaction(engine) as connection:
        assert len(renew_leases(connection, [(name, "one") for name in NAMES])) == len(NAMES)


def removal(engine: Engine, epoch: int) -> None:
    assert HousekeepingStore(engine).remove_lost(-60.0, epoch) == set(NAMES)


def restored(engine: Engine, _: int) -> None:
    with transaction(engine) as connection:
        assert begin_incarnation(connection, author="test", reason="test").containers == len(NAMES)


@pytest.mark.parametrize("write", [heartbeats, placement, fail_over, renewal, removal, restored])
def test_containers_are_locked_in_order_of_name(engine: Engine, write: Callable[[Engine, int], None]) -> None:
    with transaction(engine) as connection:
        for name in NAMES:
            register(connection, Member(name, "one", f"http://{name}", "local", 1.0, 1, 1), empty=True)
        if write is removal:
            connection.execute(text("UPDATE containers SET state = 'lost'"))
    found = free_while_it_waits(engine, write, table="containers", key="name", of={"containers": "name"})
    assert found == {"containers": ["y", "z"]}


def test_reports_are_locked_in_order_of_name(engine: Engine) -> None:
    def write(engine: Engine, _: int) -> None:
        with transaction(engine) as connection:
            want_full_reports(connection, containers=NAMES)

    with transaction(engine) as connection:
        for name in NAMES:
            values = {"name": name}
            insert = "INSERT INTO reports (container, incarnation, commit_number, version) VALUES (:name, '1', 2, 2)"
            connection.execute(text(insert), values)
    found = free_while_it_waits(engine, write, table="reports", key="container", of={"reports": "container"})
    assert found == {"reports": ["y", "z"]}


def registration(engine: Engine, epoch: int) -> None:
    member = Member("m", "two", "http://m", "a_new_region", 1.0, 1, 1)
    found = ShardStore(engine).register(member, empty=False, above=-1, leader_epoch=epoch)
    assert "a_new_region" in found.facts.sharding.selectors


def adoption(engine: Engine, _: int) -> None:
    with transaction(engine) as connection:
        adopt_own_lease(connection, "m", "one", "two")


@pytest.mark.parametrize("write", [registration, adoption, fail_over, restored])
def test_containers_are_locked_before_facts_and_counters(engine: Engine, write: Callable[[Engine, int], None]) -> None:
    with transaction(engine) as connection:
        for name in NAMES:
            register(connection, Member(name, "one", f"http://{name}", "local", 1.0, 1, 1), empty=True)
        rows = {
            table: list(connection.execute(text(_ALL.format(table=table, key=key))).scalars())
            for table, key in _LOCKED_LATER.items()
        }
    assert all(rows.values())
    assert free_while_it_waits(engine, write, table="containers", key="name", of=_LOCKED_LATER) == rows


def free_while_it_waits(
    engine: Engine, write: Callable[[Engine, int], None], *, table: str, key: str, of: Mapping[str, str]
) -> dict[str, list[str]]:
    """The rows that a writer has not locked when it waits for the row `m` of a table: those of tables and their keys.

    It succeeds once it has that row.
    """
    epoch = StoreElection(engine, LEASE, "me", url="", lease_seconds=60.0).take()
    assert epoch is not None
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            connection.execute(text(_KEEP.format(table=table, key=key)))
            writing = pool.submit(write, engine, epoch)
            wait_until(lambda: waits_for_a_lock(engine), 10, "the writer to wait")
            with transaction(engine) as other:
                free = {
                    each: list(other.execute(text(_FREE.format(table=each, key=name))).scalars())
                    for each, name in of.items()
                }
        writing.result(timeout=10)
    return free
