"""What tests rely on: a database that another test has used is as the migrations left it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import text

from penstock.store.engine import transaction
from tests.support.store.lent import Lender, LentDatabase

ROWS = "SELECT (SELECT count(*) FROM jobs), (SELECT array_agg(name ORDER BY rank) FROM layers)"
"""A table that is empty at first, and one that the migrations fill."""


@pytest.fixture
def own(postgres_url: str, template_database: str) -> Iterator[Lender]:
    """A lender for this test only: it lends the same database again, or a new one."""
    lender = Lender(postgres_url, template_database)
    yield lender
    lender.close()


def rows_of(database: LentDatabase) -> tuple[object, ...]:
    with transaction(database.engine) as connection:
        return tuple(connection.execute(text(ROWS)).one())


def execute(database: LentDatabase, statement: str) -> None:
    with transaction(database.engine) as connection:
        connection.execute(text(statement))


def test_rows_of_the_test_before_are_gone_and_those_of_the_migrations_are_back(own: Lender) -> None:
    with own.lend() as first:
        before = rows_of(first)
        execute(first, "DELETE FROM layers")
        execute(first, "INSERT INTO jobs (name, revision) VALUES ('j', 1)")
        assert rows_of(first) == (1, None)
    with own.lend() as second:
        assert second.url == first.url
        assert rows_of(second) == before


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (n integer)",
        "ALTER TABLE containers ADD COLUMN more integer",
        "ALTER TABLE containers ALTER COLUMN name SET DEFAULT 'c'",
        "CREATE TYPE mood AS ENUM ('good')",
        "GRANT SELECT ON containers TO PUBLIC",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''8MB''', current_database()); END $$",
    ],
)
def test_after_a_change_of_the_schema_another_database_is_lent(own: Lender, change: str) -> None:
    with own.lend() as first:
        execute(first, change)
    with own.lend() as second:
        assert second.url != first.url


def test_a_connection_that_is_left_keeps_the_database_from_the_next_test(own: Lender) -> None:
    with own.lend() as first:
        left = psycopg.connect(first.url)
    with own.lend() as second:
        assert second.url != first.url
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")


def test_a_connection_that_is_not_given_back_does_too(own: Lender) -> None:
    with own.lend() as first:
        kept = first.engine.connect()
    with own.lend() as second:
        assert second.url != first.url
    kept.invalidate()
    kept.close()
