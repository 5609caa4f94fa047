"""Brings a database's schema to the newest version (Alembic; forward only)."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from penstock.control.errors import TerminalError, Unavailable
from penstock.control.logs import logger
from penstock.store.engine import sqlalchemy_url

log = logger(__name__)
_LOCK_KEY = 7_070_001
_CONNECT_TIMEOUT_SECONDS = 5
# As Postgres numbers its releases: 18.0. Older ones lack `RETURNING old`.
_OLDEST_SERVER = 180_000


def upgrade(url: str) -> None:
    """Brings the database at `url` to `head()`, in one transaction. Quick if the database is there already.

    Any number of processes may call this at once: an advisory lock lets one work, and the others find the work done.
    Raises Unavailable when the database cannot be reached or a table is in use for long, and TerminalError when its
    Postgres is too old.
    """
    engine = create_engine(
        sqlalchemy_url(url), poolclass=NullPool, connect_args={"connect_timeout": _CONNECT_TIMEOUT_SECONDS}
    )
    try:
        with engine.begin() as connection:
            _check_server(connection)
            if _current(connection) != head():
                _upgrade_under_lock(connection)
    except OperationalError as error:
        if isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise Unavailable("the schema is not upgraded: a table is in use for long. Start again") from error
        raise Unavailable("the job store cannot be reached") from error


@lru_cache(maxsize=1)
def head() -> str:
    """The newest schema version that this code knows."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    if newest is None:
        raise LookupError("no migrations were found")
    return newest


def _check_server(connection: Connection) -> None:
    number = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if number < _OLDEST_SERVER:
        oldest, present = _OLDEST_SERVER // 10_000, connection.execute(text("SHOW server_version")).scalar_one()
        raise TerminalError(f"the job store needs Postgres {oldest} or newer, and the server is {present}")


def _upgrade_under_lock(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    before = _current(connection)
    if before == head() or _is_newer_than_this_code(before):
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
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
