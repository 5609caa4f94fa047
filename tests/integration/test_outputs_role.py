"""The role by which jobs write to the embedded PostgreSQL: it has its database, and nothing of the job store."""

from __future__ import annotations

import psycopg
import pytest

from penstock.local.outputs import give_to_jobs, keep_from_jobs
from penstock.store.address import libpq_url
from penstock.store.engine import connect, transaction
from penstock.store.roles import TASK_MANAGER, grant_roles, url_for
from tests.support.store.database import fresh_database


def test_it_has_what_jobs_made_before_and_is_nobody(postgres_url: str) -> None:
    """1. Jobs of a release before have made tables as the superuser. 2. The role goes on writing them, and makes more.
    3. It is no superuser, and may make neither databases nor roles."""
    with fresh_database(postgres_url) as superuser:
        with psycopg.connect(libpq_url(superuser)) as connection:
            connection.execute("CREATE TABLE before (n serial PRIMARY KEY, word text)")
            connection.execute("CREATE SCHEMA team CREATE TABLE totals (n int)")
        url = libpq_url([give_to_jobs(superuser) for _ in range(2)][-1])
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO before (word) VALUES ('a')")
            connection.execute("ALTER TABLE team.totals ADD COLUMN word text")
            connection.execute("CREATE TABLE team.after AS SELECT * FROM before")
            rights = "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls FROM pg_roles"
            assert connection.execute(f"{rights} WHERE rolname = current_user").fetchone() == (False,)


def test_it_does_not_reach_the_store(postgres_url: str, database_url: str) -> None:
    with fresh_database(postgres_url) as outputs:
        jobs = give_to_jobs(outputs)
    engine = connect(database_url)
    with transaction(engine) as connection:
        grant_roles(connection)
    engine.dispose()
    keep_from_jobs(database_url)
    role = libpq_url(jobs).partition("@")[0]
    store = libpq_url(database_url).partition("@")[2]
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(f"{role}@{store}")
    with psycopg.connect(libpq_url(url_for(TASK_MANAGER, database_url))) as connection:
        assert connection.execute("SELECT count(*) FROM assignment").fetchone() == (0,)
