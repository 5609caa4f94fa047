"""The migrations: they may be run by many at once, know the values that the code knows, and keep the invariants."""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from penstock.config.declare import ChangeKind
from penstock.control.errors import Conflict, TerminalError, Unavailable
from penstock.model.cell import CellAction
from penstock.model.jobs import ROLES, SYNC_STATES, Action
from penstock.model.reports import TaskState
from penstock.store import cluster, profiles
from penstock.store.address import libpq_url
from penstock.store.engine import connect, transaction
from penstock.store.migrate import head, upgrade
from penstock.store.savepoints import ASKED, DELETING, FAILED, READY
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN
from penstock.tasks.rollout import RolloutOrder
from services.job_service.store.layers import all_layers
from tests.support.store.database import drop_database, new_name

# The closed lists of values: a column, or an expression over it, and the values that the code knows.
CLOSED: dict[tuple[str, str], Collection[str]] = {
    ("cell_history", "action"): CellAction,
    ("containers", "availability"): (OPEN, CORDONED, DRAINING),
    ("containers", "state"): ("live", "lost"),
    ("history", "action"): Action,
    ("profiles", "state"): (profiles.ASKED, profiles.DONE, profiles.FAILED),
    ("savepoints", "state"): (ASKED, READY, FAILED, DELETING),
    ("sync_state", "change_kind"): [kind.name.lower() for kind in ChangeKind],
    ("sync_state", "plan"): ("rescale", "rollout"),
    ("sync_state", "rollout_order"): RolloutOrder,
    ("sync_state", "state"): SYNC_STATES,
    ("tasks", "state"): TaskState,
    ("tokens", "role"): ROLES,
}
CHECKS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%ARRAY[%'
"""
TABLES = """
    SELECT tablename, obj_description(format('%I', tablename)::regclass) FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'alembic_version'
"""


def test_many_processes_may_upgrade_an_empty_database_at_once(empty_database_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(upgrade, [empty_database_url] * 8))
    engine = connect(empty_database_url)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [head()]
        assert list(all_layers(connection)) == ["base", "provisioner", "scaler", "oncall", "rollback"]
        assert cluster.read_facts(connection).sharding.count == 1024
    engine.dispose()


def test_a_newer_schema_is_left_alone(engine: Engine, database_url: str) -> None:
    with transaction(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    upgrade(database_url)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"


def test_a_store_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        upgrade(f"postgresql://postgres@/postgres?host={tmp_path}")


def test_a_server_that_is_too_old_is_refused_and_left_as_it_is(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a newer server has migrated it."""
    with monkeypatch.context() as later:
        later.setattr("penstock.store.migrate._OLDEST_SERVER", 990_000)
        with pytest.raises(TerminalError, match="needs Postgres 99 or newer, and the server is 1"):
            upgrade(empty_database_url)
    engine = connect(empty_database_url)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")).scalar_one() == 0
    engine.dispose()
    upgrade(empty_database_url)
    monkeypatch.setattr("penstock.store.migrate._OLDEST_SERVER", 990_000)
    with pytest.raises(TerminalError):
        upgrade(empty_database_url)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_have_every_text_is_refused(postgres_url: str, encoding: str) -> None:
    name = new_name()
    with psycopg.connect(libpq_url(postgres_url), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    url = postgres_url.replace("/postgres?", f"/{name}?")
    try:
        with pytest.raises(TerminalError, match=f"a database of UTF8, and this one is of {encoding}: create it with"):
            upgrade(url)
    finally:
        drop_database(postgres_url, url)


def test_every_closed_list_of_values_is_the_one_of_the_code(engine: Engine) -> None:
    with transaction(engine) as connection:
        found = {
            (table, name.removeprefix(f"{table}_").removesuffix("_check")): re.findall(r"'([^']*)'::text", check)
            for table, name, check in connection.execute(text(CHECKS))
        }
    assert found["sync_state", "plan"].pop(0) == "kind"
    assert found["sync_state", "rollout_order"].pop(0) == "action"
    assert {place: sorted(values) for place, values in found.items()} == {
        place: sorted(values) for place, values in CLOSED.items()
    }


def test_every_table_has_a_comment(engine: Engine) -> None:
    with transaction(engine) as connection:
        comments = {row.tablename: row.obj_description for row in connection.execute(text(TABLES))}
    assert comments
    assert [table for table, comment in comments.items() if not comment] == []


SEED = """
    INSERT INTO jobs (name, revision) VALUES ('a', 5);
    INSERT INTO history (job, layer, version, revision, action, author) VALUES ('a', 'base', 3, 5, 'put', 'ann');
    INSERT INTO expected_layers (job, layer, config, version, revision, author) VALUES ('a', 'base', '{}', 4, 6, 'ann');
    INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)
        VALUES ('a', '{}', 5, 2, 0, 7, 1);
    INSERT INTO leases (name, holder, epoch, expires_at) VALUES ('l', 'h', 3, now());
    INSERT INTO assignment (shard, epoch) VALUES (1, 3);
    INSERT INTO alerts (kind, subject, message) VALUES ('k', 's', 'm');
    INSERT INTO sync_state (job, state, revision) VALUES ('a', 'synced', 5);
    INSERT INTO savepoints (job, name, author) VALUES ('a', 's', 'ann');
    INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)
        VALUES ('c', 'i', 'u', 'r', 1, 1, 1, 'live');
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)
        VALUES ('a', 0, 'c', 'running', 5, 2, 0, 3);
"""


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE history SET author = 'eve'",
        "DELETE FROM history",
        "TRUNCATE history",
        "UPDATE cell_history SET author = 'eve'",
        "DELETE FROM cell_history",
        "TRUNCATE cell_history",
        "INSERT INTO cell_history (author, action, subject) VALUES ('ann', 'guess', 'x')",
        "INSERT INTO history_archive SELECT * FROM history; DELETE FROM history",
        """INSERT INTO history (job, layer, version, revision, action, author) VALUES ('a', 'base', 4, 6, 'put', 'ann');
        INSERT INTO history_archive SELECT * FROM history; UPDATE history_archive SET author = 'eve'""",
        """INSERT INTO history (job, layer, version, revision, action, author) VALUES ('a', 'base', 4, 6, 'put', 'ann');
        INSERT INTO history_archive (id, job, layer, version, revision, action, author, reason, at)
            SELECT id, job, layer, version, revision, action, 'eve', reason, at FROM history;
        DELETE FROM history WHERE version = 3""",
        "INSERT INTO history_archive SELECT * FROM history; DELETE FROM history_archive",
        "UPDATE expected_layers SET version = 4, author = 'eve'",
        "UPDATE expected_layers SET version = 3",
        "INSERT INTO expected_layers (job, layer, version, revision, author) VALUES ('a', 'nowhere', 1, 1, 'x')",
        "INSERT INTO expected_layers (job, layer, version, revision, author) VALUES ('b', 'base', 1, 1, 'x')",
        "INSERT INTO expected_layers (job, layer, version, revision, author) VALUES ('a', 'base', 9, 1, 'x')",
        "DELETE FROM expected_layers; "
        "INSERT INTO expected_layers (job, layer, version, revision, author) VALUES ('a', 'base', 3, 9, 'x')",
        "UPDATE running SET generation = 1",
        "UPDATE running SET generation = 0",
        "UPDATE running SET newest_generation = 4; UPDATE running SET newest_generation = 3",
        "UPDATE running SET commit_number = 6",
        "UPDATE leases SET epoch = 2",
        "UPDATE assignment SET epoch = 2",
        "UPDATE jobs SET revision = 4",
        "UPDATE jobs SET restarts = -1",
        "UPDATE counters SET value = -1",
        "INSERT INTO layers (name, rank) VALUES ('twin', 100)",
        "INSERT INTO alerts (kind, subject, message) VALUES ('k', 's', 'again')",
        "INSERT INTO tokens (name, hash, role, layers) VALUES ('t', 'h', 'king', '{}')",
        "INSERT INTO history (job, revision, action, author) VALUES ('a', 6, 'guess', 'ann')",
        "UPDATE layers SET default_expiry_seconds = 0",
        "UPDATE sync_state SET state = 'stopped'",
        "UPDATE sync_state SET change_kind = 'big'",
        """UPDATE sync_state SET plan = '{"kind": "nap"}'""",
        "UPDATE savepoints SET state = 'lost'",
        "UPDATE tasks SET state = 'lost'",
        "UPDATE containers SET state = 'unsure'",
        "UPDATE containers SET availability = 'shut'",
        "UPDATE containers SET drain_until = now()",
    ],
)
def test_what_must_not_be_is_refused(engine: Engine, statement: str) -> None:
    with transaction(engine) as connection:
        connection.exec_driver_sql(SEED)
    with pytest.raises(IntegrityError), transaction(engine) as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE expected_layers SET version = 5",
        "UPDATE running SET generation = 3, commit_number = 8",
        "UPDATE running SET stopping = true",
        "UPDATE leases SET epoch = 3",
        "UPDATE assignment SET epoch = 4",
        """UPDATE sync_state SET state = 'rolling', plan = '{"kind": "rollout"}'""",
        "UPDATE tasks SET state = 'crashed'",
        "UPDATE containers SET availability = 'draining', drain_until = now()",
        "DELETE FROM jobs",
        """INSERT INTO history (job, layer, version, revision, action, author) VALUES ('a', 'base', 4, 6, 'put', 'ann');
        INSERT INTO history_archive SELECT * FROM history; DELETE FROM history WHERE version = 3""",
    ],
)
def test_what_may_be_is_not_refused(engine: Engine, statement: str) -> None:
    with transaction(engine) as connection:
        connection.exec_driver_sql(SEED)
    *first, last = statement.split(";")
    with transaction(engine) as connection:
        for each in first:
            connection.exec_driver_sql(each)
        assert connection.exec_driver_sql(last).rowcount == 1


def test_the_shard_count_waits_once_shards_are_assigned(engine: Engine) -> None:
    with transaction(engine) as connection:
        assert cluster.ask_for_shards(connection, 64).sharding.count == 64
        connection.execute(text("INSERT INTO assignment (shard, epoch) VALUES (0, 1)"))
        asked = cluster.ask_for_shards(connection, 128)
        assert (asked.sharding.count, asked.wanted) == (64, 128)
        with pytest.raises(Conflict):
            cluster.ask_for_shards(connection, 100)


def test_the_archive_has_the_columns_of_the_history(engine: Engine) -> None:
    """A migration that adds a column to one adds it to the other, in the same place."""
    statement = text(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :name"
        " ORDER BY ordinal_position"
    )
    with transaction(engine) as connection:
        history, archive = (
            [tuple(row) for row in connection.execute(statement, {"name": name})]
            for name in ("history", "history_archive")
        )
    assert history == archive
