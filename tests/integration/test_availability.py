"""Cordon and drain in the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import IntegrityError

from penstock.control.errors import NotFound
from penstock.store.availability import set_availability
from penstock.store.engine import connect, transaction
from penstock.store.shards import declare_lost, read_members, register
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member

LIMIT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    with transaction(engine) as connection:
        register(connection, Member("a", "1", "http://a", "local", 1.0, 1, 1), empty=True)
    yield engine
    engine.dispose()


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
