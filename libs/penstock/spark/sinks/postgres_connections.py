"""Connections to the Postgres databases that sinks write to, shared by all tasks of a host (`psycopg_pool`).

A task needs a connection only for the few milliseconds of a batch, so a hundred tasks need only a handful.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg_pool
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.control.errors import BrokenTask, Unavailable

# The server ends a statement, a wait for a lock and an open transaction that take too long. Python's foreachBatch
# cannot be interrupted, and a stopped zombie must not keep a lock for ever. The URL's own `options` come later and win.
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
MOST_CONNECTIONS = 10
"""The most connections of a host to one database. A batch that finds none free waits."""
_MOST_AGE_SECONDS = 600.0
_MOST_IDLE_SECONDS = 60.0
_FIRST_WAIT_SECONDS = 2.0
_WAIT_SECONDS = 60.0


class Link(psycopg.Connection[tuple[Any, ...]]):
    """A connection in autocommit mode that knows the names of the temporary tables that were made on it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stages: set[str] = set()


class ConnectionPool:
    """At most `most` connections to one database; the first is opened when it is needed."""

    def __init__(self, url: str, *, most: int = MOST_CONNECTIONS, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._conninfo = conninfo_of(url)
        self._wait_seconds = wait_seconds
        self._pool = psycopg_pool.ConnectionPool(
            self._conninfo,
            connection_class=Link,
            kwargs={"autocommit": True},
            min_size=0,
            max_size=most,
            max_lifetime=_MOST_AGE_SECONDS,
            max_idle=_MOST_IDLE_SECONDS,
            check=psycopg_pool.ConnectionPool.check_connection,
            open=True,
        )

    @contextmanager
    def link(self) -> Iterator[Link]:
        """A connection that answered just now; closed when the body raises.

        Raises Unavailable when the server cannot be reached or fails, or no connection becomes free in time; BrokenTask
        when the server refuses a statement.
        """
        with translated_errors():
            link = self._take()
            try:
                yield link
            except BaseException:
                link.close()
                raise
            finally:
                self._pool.putconn(link)

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.close()

    def _take(self) -> Link:
        """A connection of the pool. The pool never says why it could not connect, so a connection of our own does."""
        try:
            return self._pool.getconn(timeout=min(_FIRST_WAIT_SECONDS, self._wait_seconds))
        except psycopg_pool.PoolTimeout:
            psycopg.connect(self._conninfo).close()
            return self._pool.getconn(timeout=self._wait_seconds)


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
    except (errors.CharacterNotInRepertoire, errors.UntranslatableCharacter) as error:
        raise BrokenTask(
            f"a text of a row has a character that the table cannot hold, such as NUL: {_words(error)}; replace it in "
            "the query, for example by replace(name, chr(0), '')"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise BrokenTask(
            f"postgres refuses: {error.diag.message_primary or _words(error)}. The account of the connection needs "
            "INSERT on the table, with upsert_columns also SELECT and UPDATE; TEMPORARY on the database; to make a "
            "table, CREATE on its schema",
            rule="table_writable",
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        raise BrokenTask(f"postgres refuses: {_words(error)}") from error
    except psycopg.Error as error:
        raise Unavailable(f"postgres cannot serve the sink now: {_words(error)}") from error


def pool_of(url: str) -> ConnectionPool:
    """The process's pool for the database at `url`."""
    with _pools_lock:
        if url not in _pools:
            _pools[url] = ConnectionPool(url)
        return _pools[url]


def _words(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


_pools: dict[str, ConnectionPool] = {}
_pools_lock = threading.Lock()
