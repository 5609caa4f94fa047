"""The Postgres sink and tables that are the user's own: what is refused before a row is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import DataFrame, SparkSession

from penstock.config.model import PostgresOutput
from penstock.control.errors import BrokenTask
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import writer
from penstock.spark.sinks.postgres_connections import pool_of
from tests.support.spark.session import Feed, sink_task

OWN = PostgresOutput(table="own")


def settings_for(url: str) -> SparkSettings:
    return SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1", connections={"default": url})


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


@pytest.fixture
def url(empty_database_url: str) -> Iterator[str]:
    yield empty_database_url
    pool_of(empty_database_url).close()


@pytest.fixture
def times(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A moment, a local time and a day."""
    feed = Feed(tmp_path / "times", "at timestamp, local timestamp_ntz, day date")
    feed.add([{"at": "2020-01-01T00:00:00Z"}])
    return feed.frame(spark)


@pytest.mark.parametrize(("column", "found"), [("at", "timestamp"), ("local", "timestamptz"), ("day", "timestamptz")])
def test_a_column_that_would_shift_times_is_refused(times: DataFrame, url: str, column: str, found: str) -> None:
    """Postgres drops the offset of a moment without a word, and takes local times as those of the server's zone."""
    execute(url, f"CREATE TABLE own ({column} {found})")
    kind = "with" if found == "timestamptz" else "without"
    with pytest.raises(BrokenTask, match=f"the column {column} of the table own is timestamp {kind} time zone, and"):
        writer(times.select(column), sink_task(OWN), settings_for(url))


def test_an_account_that_may_not_write_markers_is_told(times: DataFrame, url: str) -> None:
    """The table is its own, but another account made the markers first."""
    writer(times, sink_task(OWN), settings_for(url))
    execute(url, "CREATE ROLE guest LOGIN; GRANT ALL ON own TO guest; GRANT SELECT ON penstock_batches TO guest")
    as_guest = make_conninfo(url, options="-c role=guest")
    try:
        with pytest.raises(BrokenTask, match="may not SELECT, INSERT and UPDATE the table penstock_batches"):
            writer(times, sink_task(OWN), settings_for(as_guest))
    finally:
        pool_of(as_guest).close()
        execute(url, "DROP OWNED BY guest; DROP ROLE guest")
