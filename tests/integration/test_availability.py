"""Cordon and drain in the store, and the removal of containers that are gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import IntegrityError

from penstock.control.errors import NotFound
from penstock.control.process import wait_until
from penstock.store.availability import set_availability
from penstock.store.engine import transaction
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member
from services.shard_manager.store.members import declare_lost, read_members, register, remove_lost
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from tests.support.store.database import waits_for_a_lock

LIMIT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
WEEK_SECONDS = 7 * 86_400.0


@pytest.fixture
def engine(engine: Engine) -> Engine:
    with transaction(engine) as connection:
        register(connection, Member("a", "1", "http://a", "local", 1.0, 1, 1), empty=True)
    return engine


def told(connection: Connection) -> Row[tuple[object, ...]]:
    statement = "SELECT availability_reason, availability_by, availability_at FROM containers WHERE name = 'a'"
    return connection.execute(text(statement)).one()


def test_said_again_it_keeps_the_moment_since_when(engine: Engine) -> None:
    with transaction(engine) as connection:
        assert set_availability(connection, "a", DRAINING, reason="one", drain_until=LIMIT, author="ann")
        first = told(connection)
        assert (first.availability_reason, first.availability_by) == ("one", "ann")
    with transaction(engine) as connection:
        assert set_availability(connection, "a", DRAINING, reason="two", author="bob")
        assert tuple(told(connection)) == ("two", "bob", first.availability_at)
        assert read_members(connection)["a"].drain_until is None
        set_availability(connection, "a", OPEN, reason="", author="bob")
        assert told(connection).availability_at > first.availability_at


def test_only_if_it_is_still_open(engine: Engine) -> None:
    with transaction(engine) as connection:
        assert set_availability(connection, "a", CORDONED, reason="fails", only_if=OPEN)
        assert not set_availability(connection, "a", DRAINING, reason="fails", only_if=OPEN)
        assert read_members(connection)["a"].availability == CORDONED


def test_a_lost_container_can_be_cordoned_before_it_is_back(engine: Engine) -> None:
    with transaction(engine) as connection:
        assert declare_lost(connection, {"a": "1"}, 60.0) == {"a"}
        assert set_availability(connection, "a", CORDONED, reason="broken disk")


def test_an_unknown_container_is_not_found(engine: Engine) -> None:
    with transaction(engine) as connection, pytest.raises(NotFound, match="no container b"):
        set_availability(connection, "b", CORDONED, reason="")


@pytest.mark.parametrize(("availability", "limit"), [("asleep", None), (CORDONED, LIMIT)])
def test_what_must_not_be_is_refused(engine: Engine, availability: str, limit: datetime | None) -> None:
    with pytest.raises(IntegrityError), transaction(engine) as connection:
        set_availability(connection, "a", availability, reason="", drain_until=limit)


def silent_for(connection: Connection, name: str, interval: str) -> None:
    moment = "clock_timestamp() - CAST(:interval AS interval)"
    statement = f"UPDATE containers SET heartbeat_at = {moment}, registered_at = {moment} WHERE name = :name"
    connection.execute(text(statement), {"name": name, "interval": interval})


def report(connection: Connection, name: str) -> None:
    statement = "INSERT INTO reports (container, incarnation, commit_number, version) VALUES (:name, '1', 1, 1)"
    connection.execute(text(statement), {"name": name})


def reporting(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT container FROM reports ORDER BY container")).scalars())


def test_lost_containers_are_forgotten_after_a_week(engine: Engine) -> None:
    """Not a live one, however silent; not one that owns shards; not one that was heard of since; with its report."""
    names = ("gone", "live", "owner", "recent", "renewed")
    with transaction(engine) as connection:
        for name in names:
            register(connection, Member(name, "1", f"http://{name}", "local", 1.0, 1, 1), empty=True)
            report(connection, name)
            silent_for(connection, name, "6 days" if name == "recent" else "8 days")
        lost = dict.fromkeys(("gone", "owner", "recent", "renewed"), "1")
        assert declare_lost(connection, lost, 60.0) == lost.keys()
        connection.execute(text("UPDATE containers SET lease_renewed_at = now() WHERE name = 'renewed'"))
        ensure_shards(connection, 1)
        record_owners(connection, {0: Change("owner", read_owners(connection)[0].epoch)})
    with transaction(engine) as connection:
        assert remove_lost(connection, WEEK_SECONDS) == {"gone"}
        assert remove_lost(connection, WEEK_SECONDS) == set()
        assert read_members(connection).keys() == {"a", *names} - {"gone"}
        assert reporting(connection) == ["live", "owner", "recent", "renewed"]


def test_a_container_that_comes_back_meanwhile_is_not_forgotten(engine: Engine) -> None:
    """1. It registers, not committed yet. 2. The removal waits for it. 3. Committed: it is live, and stays."""
    with transaction(engine) as connection:
        declare_lost(connection, {"a": "1"}, 60.0)
        silent_for(connection, "a", "8 days")
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            register(connection, Member("a", "2", "http://a", "local", 1.0, 1, 1), empty=True)
            removing = pool.submit(removed_in_a_transaction, engine)
            wait_until(lambda: waits_for_a_lock(engine), 10, "the removal to wait")
        assert removing.result(timeout=10) == set()
    with transaction(engine) as connection:
        assert read_members(connection)["a"].live


def removed_in_a_transaction(engine: Engine) -> set[str]:
    with transaction(engine) as connection:
        return remove_lost(connection, WEEK_SECONDS)
