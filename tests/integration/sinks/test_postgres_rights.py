"""Rights on its table that an account lacks: told before the first batch, by a rule of their own. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from penstock.config.model import PostgresOutput
from penstock.control.errors import BrokenTask
from penstock.spark.analysis.problem_of import problem_of
from penstock.spark.sinks.postgres import check_target
from penstock.spark.sinks.postgres_connections import pool_of
from penstock.spark.sinks.postgres_target import Target
from tests.support.store.granted import TABLE, Lent, lent_database

COLUMNS = {"dest": "text", "carrier": "text"}


@pytest.fixture
def lent(postgres_url: str) -> Iterator[Lent]:
    with lent_database(postgres_url) as found:
        yield found


@pytest.mark.parametrize(
    ("rights", "lacks", "subject", "output"),
    [
        ("SELECT, UPDATE", "INSERT", f"table {TABLE}", PostgresOutput(type="postgres", table=TABLE)),
        (
            "SELECT, INSERT",
            "UPDATE",
            f"table {TABLE}",
            PostgresOutput(type="postgres", table=TABLE, upsert_columns=("dest",)),
        ),
        (
            "INSERT, UPDATE",
            "SELECT",
            f"table {TABLE}",
            PostgresOutput(type="postgres", table=TABLE, upsert_columns=("dest",)),
        ),
        ("SELECT", "CREATE", "schema public", PostgresOutput(type="postgres", table="not_made")),
    ],
    ids=["insert", "update", "select", "create"],
)
def test_a_right_that_is_missing_is_told(
    lent: Lent, rights: str, lacks: str, subject: str, output: PostgresOutput
) -> None:
    """1. All but one: told with all that the account needs. 2. With that one nothing is told, and nothing was left."""
    lent.grant(rights, f"TABLE {TABLE}")
    target = Target(output.table, COLUMNS, output.upsert_columns)
    with pytest.raises(BrokenTask) as told:
        check_target(pool_of(lent.guest), target, "job", output)
    problem = problem_of(told.value, "output", "can_run", "query.sql")
    assert (problem.field, problem.rule) == ("output", "table_writable")
    assert f"permission denied for {subject}. The account of the connection needs INSERT on the table, with " in (
        problem.detail
    )
    lent.grant(lacks, subject)
    check_target(pool_of(lent.guest), target, "job", output)
    with psycopg.connect(lent.owner) as connection:
        assert connection.execute("SELECT to_regclass('not_made')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM penstock_writers").fetchone() == (0,)
