"""SQLAlchemy's psycopg dialect for a store that fails over: a connection is good while its server takes writes."""

from __future__ import annotations

import select
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

URL = "postgresql+penstock://"
"""An engine of this dialect gets all parameters of its connections as `connect_args`."""
# The server takes no writes, is ending, has crashed, or does not serve yet. The next server is found by a new connect.
_SERVER_CHANGED = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.AdminShutdown,
    psycopg.errors.CrashShutdown,
    psycopg.errors.CannotConnectNow,
)


TRUSTED_SECONDS = 1.0
"""So long after a look at its server a connection is used without another one, however often, unless the server has
closed it. When the server becomes read-only meanwhile, a write fails, and that drops all connections of the pool."""


class PrimaryDialect(PGDialect_psycopg):
    """Drops pooled connections to a server that became a replica, or that was made read-only, before they are used."""

    supports_statement_cache = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._looked_at: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the server takes writes, or did so just now. False drops all connections of the pool."""
        now = monotonic()
        seen = now - self._looked_at.get(dbapi_connection, float("-inf")) < TRUSTED_SECONDS
        if seen and _is_silent(dbapi_connection):
            return True
        if not _takes_writes(dbapi_connection):
            return False
        self._looked_at[dbapi_connection] = now
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether an error says that the connection is of no more use. It drops all connections of the pool."""
        if isinstance(e, _SERVER_CHANGED):
            return True
        return bool(super().is_disconnect(e, connection, cursor))  # type: ignore[no-untyped-call]


def _is_silent(connection: psycopg.Connection) -> bool:
    """Whether nothing came from the server since the last answer, such as its end. No round trip."""
    coming = select.poll()
    coming.register(connection.fileno(), select.POLLIN)
    return not coming.poll(0)


def _takes_writes(connection: psycopg.Connection) -> bool:
    """One round trip."""
    before = connection.autocommit
    connection.autocommit = True
    try:
        return connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
    finally:
        if not connection.closed:
            connection.autocommit = before


registry.register("postgresql.penstock", __name__, PrimaryDialect.__name__)
