"""SQLAlchemy's psycopg dialect for a store that fails over: a connection is good while its server takes writes."""

from __future__ import annotations

from typing import Any

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


class PrimaryDialect(PGDialect_psycopg):
    """Drops pooled connections to a server that became a replica, or that was made read-only, before they are used."""

    supports_statement_cache = True

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the server takes writes. False drops all connections of the pool; one round trip."""
        before = dbapi_connection.autocommit
        dbapi_connection.autocommit = True
        try:
            return bool(dbapi_connection.execute("SHOW transaction_read_only").fetchone() == ("off",))
        finally:
            if not dbapi_connection.closed:
                dbapi_connection.autocommit = before

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether an error says that the connection is of no more use. It drops all connections of the pool."""
        if isinstance(e, _SERVER_CHANGED):
            return True
        return bool(super().is_disconnect(e, connection, cursor))  # type: ignore[no-untyped-call]


registry.register("postgresql.penstock", __name__, PrimaryDialect.__name__)
