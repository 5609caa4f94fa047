"""Migrations of a store that is in use: they give locks up soon, say who keeps one, and rewrite no table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text

from penstock.control.errors import Unavailable
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from tests.integration.test_migrations import SEED
from tests.support.store.schema import add_migration, upgrade_to, versions

CHANGE = "ALTER TABLE running ADD COLUMN extra INT"
FILES = """
    SELECT oid::regclass::text AS name, pg_relation_filenode(oid) AS file FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'm') AND relname <> 'alembic_version'
"""
NEEDED = """
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
"""
_CONFIGURATION = """
    INSERT INTO expected_configs (job, config, revision, basis) VALUES ('a', '{}', 5, 'b');
    INSERT INTO flows (job, reads) VALUES ('a', '{}');
"""
_CONFIGURATIONS_READ = """
    SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'expected_configs'
"""
# The schema of a release with cells. Every migration after it meets tables that are full and in use.
FILLED_AT = "0007"


@pytest.fixture
def filled(empty_database_url: str) -> Iterator[Engine]:
    """A store of the version `FILLED_AT`, with rows."""
    engine = connect(empty_database_url)
    with transaction(engine) as connection:
        upgrade_to(connection, FILLED_AT)
        connection.exec_driver_sql(SEED)
    yield engine
    engine.dispose()


def rewritten(connection: Connection, change: Callable[[], object]) -> list[str]:
    """The tables whose rows a change writes anew, all under its lock."""
    before = {row.name: row.file for row in connection.execute(text(FILES))}
    change()
    after = {row.name: row.file for row in connection.execute(text(FILES))}
    return sorted(table for table, file in before.items() if after.get(table, file) != file)


def columns(connection: Connection) -> set[tuple[str, str]]:
    """The columns that a writer must name, by table and name."""
    return {(row.table_name, row.column_name) for row in connection.execute(text(NEEDED))}


def test_no_migration_rewrites_a_table_or_breaks_writers_of_the_release_before(filled: Engine) -> None:
    """Such a writer does not name a new column of a table that it knows."""
    with transaction(filled) as connection:
        for version in versions()[versions().index(FILLED_AT) + 1 :]:
            known = {row.name for row in connection.execute(text(FILES))}
            needed = columns(connection)
            assert rewritten(connection, lambda to=version: upgrade_to(connection, to)) == [], version
            assert {each for each in columns(connection) - needed if each[0] in known} == set(), version


def test_the_migrations_of_this_release_read_no_configuration(filled: Engine) -> None:
    """There may be a hundred thousand of them, and what a migration has locked stays locked until its end."""
    with transaction(filled) as connection:
        upgrade_to(connection, "0014")
        connection.exec_driver_sql(_CONFIGURATION)
    with transaction(filled) as connection:
        upgrade_to(connection, versions()[-1])
        assert connection.execute(text(_CONFIGURATIONS_READ)).scalar_one() == 0


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE running ALTER COLUMN level_ms TYPE NUMERIC",
        "ALTER TABLE running ADD COLUMN at TIMESTAMPTZ DEFAULT clock_timestamp()",
        "TRUNCATE tasks",
    ],
)
def test_a_rewrite_is_found(filled: Engine, change: str) -> None:
    with transaction(filled) as connection:
        assert rewritten(connection, lambda: connection.exec_driver_sql(change)) in (["running"], ["tasks"])
        assert rewritten(connection, lambda: connection.exec_driver_sql(CHANGE)) == []
        needed = columns(connection)
        connection.exec_driver_sql("ALTER TABLE counters ADD COLUMN must TEXT NOT NULL DEFAULT ''")
        connection.exec_driver_sql("ALTER TABLE counters ALTER COLUMN must DROP DEFAULT")
        assert columns(connection) - needed == {("counters", "must")}


def test_a_migration_that_gets_no_lock_says_who_has_it_and_can_be_repeated(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Somebody keeps a table. 2. A migration that says nothing of locks gives up soon, and names both. 3. Nothing
    has changed. 4. The table is free: the same call succeeds."""
    add_migration(monkeypatch, tmp_path, f"CREATE TABLE before_it (n INT); {CHANGE}")
    monkeypatch.setattr("penstock.store.migrate.LOCK_TIMEOUT_SECONDS", 2)
    with psycopg.connect(database_url, application_name="report") as other:
        other.execute("SELECT count(*) FROM running")
        pid = other.info.backend_pid
        with pytest.raises(
            Unavailable, match=rf"running is locked by process {pid} \(report, account postgres, idle in"
        ):
            upgrade(database_url)
        assert other.execute("SELECT to_regclass('before_it')").fetchone() == (None,)
    upgrade(database_url)
    with psycopg.connect(database_url) as other:
        assert other.execute("SELECT extra FROM running").fetchall() == []


def test_no_migration_waits_longer_for_a_lock_than_the_runner_lets_it() -> None:
    scripts = Path(__file__).parents[2] / "migrations" / "versions"
    longer = [
        path.name
        for path in scripts.glob("*.sql")
        for line in path.read_text().splitlines()
        if "lock_timeout" in line and line != "SET LOCAL lock_timeout = '5s';"
    ]
    assert longer == []
