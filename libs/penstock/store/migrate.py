"""Brings a database's schema to the newest version (Alembic; forward only)."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from penstock.control.errors import TerminalError, Unavailable
from penstock.control.logs import logger
from penstock.store import dialect
from penstock.store.address import connection_parameters
from penstock.store.engine import unreachable
from penstock.store.lock_waits import watched

log = logger(__name__)
_LOCK_KEY = 7_070_001
LOCK_TIMEOUT_SECONDS = 5
"""How long a migration waits for the lock of a table before it gives up and changes nothing."""
# As Postgres numbers its releases: 18.0. Older ones lack `RETURNING old`.
_OLDEST_SERVER = 180_000


class StoreFacts(NamedTuple):
    """A Postgres server and the schema of its database. `schema` None: no Penstock has been there. `is_newer`: the
    schema is of a release after this one. `now`: its clock."""

    server: str
    is_too_old: bool
    schema: str | None
    is_newer: bool
    now: datetime


def store_facts(url: str) -> StoreFacts:
    """What is at `url`; changes nothing. Raises Unavailable, and UserError for an address that is none."""
    engine = create_engine(dialect.URL, poolclass=NullPool, connect_args=connection_parameters(url))
    try:
        with engine.connect() as connection:
            server = str(connection.execute(text("SHOW server_version")).scalar_one())
            now = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            schema = _current(connection)
            newer = _is_newer_than_this_code(schema)
            return StoreFacts(server, _number_of(connection) < _OLDEST_SERVER, schema, newer, now)
    except OperationalError as error:
        raise unreachable(error) from error


def upgrade(url: str) -> None:
    """Brings the database at `url` to `head()`, in one transaction. Quick if the database is there already.

    Any number of processes may call this at once: an advisory lock lets one work, and the others find the work done.
    Raises Unavailable when the database cannot be reached, or when a table is in use for longer than
    `LOCK_TIMEOUT_SECONDS` (the error says by whom): nothing has changed then, and the call may be repeated. Raises
    UserError for an address that is none, and TerminalError when its Postgres is too old or its database not of UTF8.
    """
    parameters = connection_parameters(url)
    engine = create_engine(dialect.URL, poolclass=NullPool, connect_args={**parameters, "prepare_threshold": None})
    try:
        with engine.begin() as connection:
            _check_server(connection)
            if _current(connection) != head():
                _upgrade_under_lock(connection, parameters)
    except OperationalError as error:
        raise unreachable(error) from error


@lru_cache(maxsize=1)
def head() -> str:
    """The newest schema version that this code knows."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    if newest is None:
        raise LookupError("no migrations were found")
    return newest


def _check_server(connection: Connection) -> None:
    if _number_of(connection) < _OLDEST_SERVER:
        oldest, present = _OLDEST_SERVER // 10_000, connection.execute(text("SHOW server_version")).scalar_one()
        raise TerminalError(f"the job store needs Postgres {oldest} or newer, and the server is {present}")
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise TerminalError(
            f"the job store needs a database of UTF8, and this one is of {encoding}: create it with ENCODING 'UTF8' "
            "TEMPLATE template0"
        )


def _number_of(connection: Connection) -> int:
    return int(connection.execute(text("SHOW server_version_num")).scalar_one())


def _upgrade_under_lock(connection: Connection, parameters: dict[str, Any]) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    before = _current(connection)
    if before == head() or _is_newer_than_this_code(before):
        return
    # For all migrations: whoever waits for the lock of a table holds up all who come after. The transaction ends it.
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))
    config = _config()
    config.attributes["connection"] = connection
    with watched(connection, parameters) as wait:
        try:
            command.upgrade(config, "head")
        except OperationalError as error:
            if isinstance(error.orig, psycopg.errors.LockNotAvailable):
                why = wait.words or "a table is in use for long"
                raise Unavailable(f"the schema is not upgraded: {why}. Start again") from error
            raise
    log.info("schema upgraded", before=before, after=head())


def _is_newer_than_this_code(version: str | None) -> bool:
    """Whether a newer release has migrated the database; its migration is safe beside this release."""
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    return version is not None and version not in known


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    return config
