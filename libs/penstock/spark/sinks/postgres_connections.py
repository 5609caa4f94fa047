"""Connections to the Postgres databases that sinks write to, shared by all tasks of a host.

A task needs a connection only for the few milliseconds of a batch, so a hundred tasks get by with a handful.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from penstock.control.errors import BrokenTask, Unavailable

# A statement, a wait for a lock and a transaction left open all end by themselves: Python's foreachBatch cannot be
# interrupted, and a stopped zombie must not hold a lock for ever. The URL's own `options` come later and win.
SERVER_OPTIONS = (
    "-c statement_timeout=60000 -c lock_timeout=20000 -c idle_in_transaction_session_timeout=20000 "
    "-c timezone=UTC -c datestyle=ISO -c default_transaction_isolation=read\\ committed"
)
CLIENT_OPTIONS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "client_encoding": "utf8",
    "application_name": "penstock",
}
MAX_IDLE = 8
MAX_AGE_SECONDS = 600.0


@dataclass
class Link:
    """A connection in autocommit mode, and the names of the temporary tables that were made on it."""

    connection: psycopg.Connection
    opened_at: float
    stages: set[str] = field(default_factory=set)


class ConnectionPool:
    """Idle connections to one database, newest first; `clock` gives seconds."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._conninfo = conninfo_of(url)
        self._clock = clock
        self._idle: list[Link] = []
        self._lock = threading.Lock()

    @contextmanager
    def link(self) -> Iterator[Link]:
        """A connection that answered just now; closed when the body raises.

        Raises Unavailable when the server cannot be reached or fails, BrokenTask when it refuses what it is told.
        """
        with translated_errors():
            link = self._idle_link() or self._open()
            try:
                yield link
            except BaseException:
                link.connection.close()
                raise
            self._give_back(link)

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            links, self._idle = self._idle, []
        for link in links:
            link.connection.close()

    def _open(self) -> Link:
        return Link(psycopg.connect(self._conninfo, autocommit=True), self._clock())

    def _idle_link(self) -> Link | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if self._clock() - link.opened_at < MAX_AGE_SECONDS and _answers(link.connection):
                return link
            link.connection.close()

    def _give_back(self, link: Link) -> None:
        healthy = link.connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if healthy and len(self._idle) < MAX_IDLE:
                self._idle.append(link)
                return
        link.connection.close()


def conninfo_of(url: str) -> str:
    """A libpq connection string with the sinks' time limits; what the URL sets itself wins.

    Raises BrokenTask, without the URL, when libpq cannot read it.
    """
    try:
        own = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise BrokenTask("the URL of the sink's connection, a setting of the container, is malformed") from None
    options = f"{SERVER_OPTIONS} {own.pop('options', None) or ''}".strip()
    return make_conninfo("", **{**CLIENT_OPTIONS, **own, "options": options})


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turns psycopg's errors into Unavailable (may work later) or BrokenTask (will not)."""
    try:
        yield
    except errors.CardinalityViolation as error:
        raise BrokenTask(
            "output.upsert_columns: two rows of one batch have the same key; the query must give one row a key, "
            "for example by an aggregation over the key in update mode"
        ) from error
    except errors.NotNullViolation as error:
        raise BrokenTask(
            f"the table takes no null there: {_words(error)}; replace it in the query, for example by coalesce"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        raise BrokenTask(f"postgres refuses: {_words(error)}") from error
    except psycopg.Error as error:
        raise Unavailable(f"postgres cannot serve the sink now: {_words(error)}") from error


def pool_of(url: str) -> ConnectionPool:
    """The process's pool for the database at `url`."""
    with _pools_lock:
        return _pools.setdefault(url, ConnectionPool(url))


def _answers(connection: psycopg.Connection) -> bool:
    try:
        connection.execute("")
    except psycopg.OperationalError:
        return False
    return True


def _words(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


_pools: dict[str, ConnectionPool] = {}
_pools_lock = threading.Lock()
