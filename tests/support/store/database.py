"""Fresh databases for tests: the schema is made once per session, in a template that every test's database copies."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, Engine, text

from penstock.control.process import wait_until
from penstock.local.postgres import create_database
from penstock.store.address import libpq_url
from penstock.store.engine import transaction
from penstock.store.migrate import upgrade

TEMPLATE = "penstock_template"


def make_template(server_url: str) -> str:
    """Create the template database with the current schema and return its name."""
    url = create_database(server_url, TEMPLATE)
    upgrade(url)
    return TEMPLATE


@contextmanager
def fresh_database(server_url: str, template: str | None = None) -> Iterator[str]:
    """The address of a new database, dropped at the end; empty without a template."""
    url = create_database(server_url, new_name(), template)
    try:
        yield url
    finally:
        drop_database(server_url, url)


def new_name() -> str:
    """The name of a test's database."""
    return f"test_{uuid.uuid4().hex[:12]}"


def drop_database(server_url: str, url: str) -> None:
    """Drop the database of the address, whoever is connected to it."""
    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(libpq_url(server_url), autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def address_of(engine: Engine) -> str:
    """The address of the database that an engine leads to, without its password, and without the engine's name."""
    with transaction(engine) as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        return make_conninfo(driver.info.dsn, application_name="")


def wait_for_lock_waiters(engine: Engine, connections: int) -> None:
    """Returns once so many connections to this database wait for a lock."""
    wait_until(lambda: _lock_waiters(engine) >= connections, 30.0, "waiters for a lock")


def waits_for_a_lock(engine: Engine) -> bool:
    """Whether a connection to this database waits for a lock."""
    return bool(_lock_waiters(engine))


def _lock_waiters(engine: Engine) -> int:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with transaction(engine) as connection:
        return int(connection.execute(waiting).scalar_one())


def read_assignment(connection: Connection, container: str) -> dict[int, int]:
    """The shards that the store gives a container, with their assignment epochs."""
    rows = connection.execute(text("SELECT shard, epoch FROM assignment WHERE container = :name"), {"name": container})
    return {row.shard: row.epoch for row in rows}
