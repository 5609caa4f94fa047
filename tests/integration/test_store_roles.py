"""The roles of the store: what a Task Manager's role can do, and everything else that it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from penstock.control.errors import LeaseLost
from penstock.store.address import libpq_url
from penstock.store.engine import connect, transaction
from penstock.store.roles import SERVICE, TASK_MANAGER, grant_roles, url_for
from penstock.store.shards import adopt_own_lease, renew_own_lease
from penstock.tasks.ownership import Member
from services.shard_manager.store.members import declare_lost, read_members, register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners

READABLE = {"assignment", "cluster", "counters"}
EXECUTABLE = {"take_leases", "reissue_own_shards"}
_FUNCTIONS = """
    SELECT proname, has_function_privilege(:role, oid, 'EXECUTE') AS allowed FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
"""


@pytest.fixture
def owner(engine: Engine) -> Engine:
    """A store with its roles, two containers, and four shards that `a` owns."""
    with transaction(engine) as connection:
        grant_roles(connection)
        grant_roles(connection)  # may be repeated
        for name in ("a", "b"):
            register(
                connection, Member(name, f"life-of-{name}", f"http://{name}", "local", 2.0, 2**31, 2**34), empty=True
            )
        ensure_shards(connection, 4)
        owners = read_owners(connection)
        record_owners(connection, {shard: Change("a", found.epoch) for shard, found in owners.items()})
    return engine


@pytest.fixture
def manager_url(owner: Engine, database_url: str) -> str:
    return url_for(TASK_MANAGER, database_url)


@pytest.fixture
def manager(manager_url: str) -> Iterator[Engine]:
    """Connected as a Task Manager."""
    engine = connect(manager_url, connections=1)
    yield engine
    engine.dispose()


def test_a_task_manager_renews_and_adopts_its_own_lease(owner: Engine, manager: Engine) -> None:
    """1. It renews, and reads its shards. 2. After a restart it adopts them under new epochs. 3. The former life is
    refused. 4. The Shard Manager sees the lease, so the container is not lost."""
    with transaction(manager) as connection:
        first = renew_own_lease(connection, "a", "life-of-a")
    with transaction(manager) as connection:
        second = adopt_own_lease(connection, "a", "life-of-a", "next-life-of-a")
    assert first.shards.keys() == second.shards.keys() == {0, 1, 2, 3}
    assert min(second.shards.values()) > max(first.shards.values())
    with pytest.raises(LeaseLost), transaction(manager) as connection:
        renew_own_lease(connection, "a", "life-of-a")
    with transaction(owner) as connection:
        assert declare_lost(connection, {"a": "next-life-of-a"}, 60.0) == set()
        assert set(read_members(connection)) == {"a", "b"}


def test_it_does_nothing_for_a_container_whose_incarnation_it_does_not_know(manager: Engine) -> None:
    with pytest.raises(LeaseLost), transaction(manager) as connection:
        renew_own_lease(connection, "b", "guessed")
    with pytest.raises(LeaseLost), transaction(manager) as connection:
        adopt_own_lease(connection, "b", "guessed", "mine")
    with pytest.raises(Exception, match="another incarnation"), transaction(manager) as connection:
        connection.execute(text("SELECT reissue_own_shards('b', 'guessed')"))


def _tables(owner: Engine) -> list[str]:
    with transaction(owner) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        return list(connection.execute(text(query)).scalars())


def test_every_other_right_on_every_table_is_refused(owner: Engine, manager_url: str) -> None:
    tables = _tables(owner)
    assert len(tables) > 20
    with psycopg.connect(libpq_url(manager_url), autocommit=True) as connection:
        for table in tables:
            name = sql.Identifier(table)
            tried: dict[str, sql.Composed] = {
                "SELECT": sql.SQL("SELECT * FROM {} LIMIT 1").format(name),
                "FOR UPDATE": sql.SQL("SELECT * FROM {} FOR UPDATE").format(name),
                "INSERT": sql.SQL("INSERT INTO {} DEFAULT VALUES").format(name),
                "UPDATE": sql.SQL("UPDATE {} SET {} = NULL").format(name, sql.Identifier(_column(owner, table))),
                "DELETE": sql.SQL("DELETE FROM {}").format(name),
                "TRUNCATE": sql.SQL("TRUNCATE {}").format(name),
                "ALTER": sql.SQL("ALTER TABLE {} ADD COLUMN x int").format(name),
                "DROP": sql.SQL("DROP TABLE {}").format(name),
            }
            allowed = {right for right, statement in tried.items() if _may(connection, statement)}
            assert allowed == ({"SELECT"} if table in READABLE else set()), table


def test_a_task_manager_executes_the_functions_of_its_lease_and_no_other(owner: Engine, manager_url: str) -> None:
    """Nor one that a later release makes, before the roles are made again; a service executes that."""
    with transaction(owner) as connection:
        connection.execute(text("CREATE FUNCTION later() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'"))
        functions = {row.proname: row.allowed for row in connection.execute(text(_FUNCTIONS), {"role": TASK_MANAGER})}
        of_service = {row.proname: row.allowed for row in connection.execute(text(_FUNCTIONS), {"role": SERVICE})}
    assert {name for name, allowed in functions.items() if allowed} == EXECUTABLE
    assert "drop_oldest_samples" in functions
    assert all(of_service.values())
    with psycopg.connect(libpq_url(manager_url), autocommit=True) as connection:
        assert not _may(connection, sql.SQL("SELECT drop_oldest_samples(1)"))


def test_without_the_roles_nobody_else_executes_what_acts_as_its_owner(engine: Engine) -> None:
    definers = "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    others = f"{definers} AND has_function_privilege('pg_monitor', oid, 'EXECUTE')"
    with transaction(engine) as connection:
        assert set(connection.execute(text(definers)).scalars()) > EXECUTABLE
        assert list(connection.execute(text(others)).scalars()) == []


@pytest.mark.parametrize("function", ["drop_oldest_samples", "drop_oldest_job_metrics"])
@pytest.mark.parametrize("days", ["-30", "0", "NULL"])
def test_samples_of_the_present_day_are_never_dropped(engine: Engine, function: str, days: str) -> None:
    with pytest.raises(IntegrityError, match="keep_days"), transaction(engine) as connection:
        connection.execute(text(f"SELECT {function}({days})"))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (a int)",
        "CREATE TEMPORARY TABLE containers (name text)",
        "CREATE SCHEMA mine",
        "CREATE ROLE other LOGIN",
        "SET ROLE postgres",
        f"SET ROLE {SERVICE}",
        f"ALTER ROLE {TASK_MANAGER} SUPERUSER",
        "COPY counters TO '/tmp/x'",
        "COPY counters TO PROGRAM 'true'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT * FROM pg_authid",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER FUNCTION take_leases SECURITY INVOKER",
    ],
)
def test_everything_around_the_tables_is_refused(manager_url: str, statement: str) -> None:
    with psycopg.connect(libpq_url(manager_url), autocommit=True) as connection:
        assert not _may(connection, sql.SQL(statement))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement", ["UPDATE history SET reason = ''", "DELETE FROM history_archive", "DROP TABLE jobs", "TRUNCATE jobs"]
)
def test_a_service_has_rows_but_neither_the_schema_nor_the_past(
    owner: Engine, database_url: str, statement: str
) -> None:
    with psycopg.connect(libpq_url(url_for(SERVICE, database_url)), autocommit=True) as connection:
        connection.execute("DELETE FROM jobs")
        assert not _may(connection, sql.SQL(statement))  # type: ignore[arg-type]


def _may(connection: psycopg.Connection, statement: sql.Composable) -> bool:
    """False when the right is missing. Other errors, as of a column that takes no null, show that it is there."""
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    except psycopg.Error:
        return True
    return True


def _column(owner: Engine, table: str) -> str:
    columns = "FROM pg_attribute WHERE attrelid = CAST(:table AS regclass) AND attnum > 0 AND attidentity = ''"
    query = f"SELECT attname {columns} LIMIT 1"
    with transaction(owner) as connection:
        return str(connection.execute(text(query), {"table": table}).scalar_one())
