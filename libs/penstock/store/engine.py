"""Connections to the job store.

`connect` gives a pooled engine; `next_number` hands out the numbers that must be seen in order; `notify` and `listen`
carry wake-ups. An error of the connection becomes `Unavailable`, which says nothing about what the store holds. A
statement that the server ended at its time limit becomes `StatementTimedOut`, and what it ended for another passing
reason `TransactionEnded`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import psycopg
from psycopg.abc import Buffer
from psycopg.types.string import StrDumper, StrDumperUnknown
from sqlalchemy import Connection, Engine, TextClause, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from penstock.control.errors import StatementTimedOut, TransactionEnded, Unavailable
from penstock.control.settings import CommonSettings
from penstock.control.texts import clean
from penstock.store import dialect
from penstock.store.address import connection_parameters, with_options
from penstock.store.json import as_json

CHANGED_EXPECTED = "penstock_expected"
CHANGED_RUNNING = "penstock_running"
CHANGED_ASSIGNMENT = "penstock_assignment"
# A container reported that it knows a newer commit, or that tasks ended: the plan of a rescale may wait for that.
REPORTED_STOP = "penstock_stop"

CONNECTIONS = 10
"""The most connections that a process opens, unless its settings say otherwise."""
STATEMENT_SECONDS = 30.0
"""The time limit of a statement, unless the settings say otherwise."""
_WAIT_FOR_A_CONNECTION_SECONDS = 10.0
_LIMIT = "statement_timeout_seconds"
_SHOWN_CHARACTERS = 160
_SESSION = "session_settings"
_ENDED: dict[type[psycopg.Error], str] = {
    psycopg.errors.DeadlockDetected: "it and another one waited for each other (deadlock)",
    psycopg.errors.LockNotAvailable: "another one kept a lock that it waited for",
    psycopg.errors.DiskFull: "the disk of its server is full",
}
# By its words: what refuses a connection tells no code.
_TOO_MANY = (
    "too many clients",
    "too many connections",
    "remaining connection slots",
    "no more connections allowed",
)
_NO_LOGIN = (
    "authentication failed",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    'FATAL:  database "',
    'FATAL:  role "',
)
_AS_OF_ONE_MOMENT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_PREPARE = text(
    """
    SELECT set_config('statement_timeout', :statement_timeout, true), set_config('timezone', :timezone, true),
        set_config('idle_in_transaction_session_timeout', :idle_in_transaction_session_timeout, true),
        pg_is_in_recovery() OR CAST(current_setting('default_transaction_read_only') AS bool) AS takes_no_writes
    """
)


def engine_of(settings: CommonSettings, *, connections: int | None = None) -> Engine:
    """The engine of a service, by its settings; `connections` in place of their limit."""
    return connect(
        settings.database_url,
        connections=connections or settings.database_connections,
        statement_timeout_seconds=settings.database_statement_seconds,
        pooled=settings.database_pooled,
    )


def connect(
    url: str,
    *,
    connections: int = CONNECTIONS,
    statement_timeout_seconds: float = STATEMENT_SECONDS,
    idle_transaction_timeout_seconds: float = 10.0,
    pooled: bool = False,
) -> Engine:
    """An engine with a pool of at most `connections`, which opens one when it is needed, to a server that takes writes.

    The server ends a statement that takes longer than its time-out. The server also ends a transaction whose client is
    silent for `idle_transaction_timeout_seconds`: a process that was stopped inside a transaction would otherwise keep
    its row locks, such as that of a lease, for ever. `pooled`: the URL leads to a pooler that gives each transaction
    another server connection (PgBouncer in transaction mode), so the limits are set in each transaction. Raises
    UserError for a URL that `connection_parameters` refuses.
    """
    session = {
        "statement_timeout": str(int(statement_timeout_seconds * 1000)),
        "idle_in_transaction_session_timeout": str(int(idle_transaction_timeout_seconds * 1000)),
        "timezone": "UTC",
    }
    parameters = connection_parameters(url)
    # A pooler refuses options, its servers do not know statements that another of them prepared, and it repeats what a
    # server said of itself long ago: each transaction asks whether its server takes writes.
    of_pool = {**parameters, "prepare_threshold": None, "target_session_attrs": "any"}
    engine = create_engine(
        dialect.URL,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=_WAIT_FOR_A_CONNECTION_SECONDS,
        pool_pre_ping=True,
        # The connection that was used last: its server knows the statements, and was just looked at.
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args=of_pool if pooled else with_options(parameters, session),
        execution_options={_LIMIT: statement_timeout_seconds, _SESSION: session if pooled else None},
        json_serializer=as_json,
        json_deserializer=orjson.loads,
    )
    event.listen(engine, "connect", _clean_texts)
    return engine


class _CleanText(StrDumperUnknown):
    """A text parameter, with U+FFFD in place of each NUL and lone surrogate. Postgres would refuse the statement, which
    often is about all jobs of a cell. JSON is cleaned by `as_json`."""

    def dump(self, obj: str) -> Buffer | None:
        """The text as the server takes it."""
        try:
            return super().dump(obj)
        except (psycopg.DataError, UnicodeEncodeError):
            return super().dump(clean(obj))


class _CleanElement(_CleanText, StrDumper):
    """The same for the elements of an array, which have a type."""


def _clean_texts(connection: psycopg.Connection, _: object) -> None:
    for kind in (_CleanElement, _CleanText):
        connection.adapters.register_dumper(str, kind)


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction.

    Raises Unavailable when the store cannot be reached, broke the connection or takes no writes, or no connection of
    the pool becomes free in time; StatementTimedOut when the server ended a statement at its time limit, and
    TransactionEnded when it did so because of a deadlock, a lock or a full disk.
    """
    with _begun(engine) as connection:
        yield connection


@contextmanager
def _begun(engine: Engine, *first: TextClause) -> Iterator[Connection]:
    """A transaction with these statements before all others."""
    with _told_apart(engine), engine.begin() as connection:
        for statement in first:
            connection.execute(statement)
        _prepare(connection)
        yield connection


@contextmanager
def _told_apart(engine: Engine) -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable("the job store's connections are all in use") from error
    except OperationalError as error:
        if isinstance(error.orig, psycopg.errors.QueryCanceled):
            raise _timed_out(error, engine) from error
        for kind, told in _ENDED.items():
            if isinstance(error.orig, kind):
                raise TransactionEnded(f"the job store ended a transaction: {told}") from error
        raise unreachable(error) from error
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.ReadOnlySqlTransaction):
            raise Unavailable("the job store takes no writes: its server became a replica or is read-only") from error
        if error.connection_invalidated:
            raise Unavailable("the job store broke the connection") from error
        raise


def _prepare(connection: Connection) -> None:
    """What a connection has from its start where no pooler is between: limits, and a server that takes writes."""
    session = connection.get_execution_options().get(_SESSION)
    if session is not None and connection.execute(_PREPARE, session).one().takes_no_writes:
        raise Unavailable("the pooler of the job store leads to a server that takes no writes")


def unreachable(error: OperationalError) -> Unavailable:
    """What an error of the connection is to callers. It says nothing about what the store holds."""
    told = str(error.orig)
    if "unsupported startup parameter" in told:
        return Unavailable("the job store is behind a pooler: set PENSTOCK_DATABASE_POOLED=true")
    if "session is read-only" in told:
        return Unavailable("the job store cannot be reached: no server of its address takes writes")
    if any(words in told for words in _TOO_MANY):
        return Unavailable("the job store takes no more connections: its server or pooler has as many as it may")
    if any(words in told for words in _NO_LOGIN):
        return Unavailable("the job store refuses the account, password or database of PENSTOCK_DATABASE_URL")
    return Unavailable("the job store cannot be reached")


def _timed_out(error: OperationalError, engine: Engine) -> StatementTimedOut:
    limit = engine.get_execution_options().get(_LIMIT)
    statement = " ".join((error.statement or "COMMIT").split())[:_SHOWN_CHARACTERS]
    return StatementTimedOut(
        f"the job store ended a statement at its limit of {limit:g} s: {statement}",
        statement=statement,
        limit_seconds=limit,
    )


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads, and whose statements all see the same moment. Raises what `transaction` raises."""
    with _begun(engine, _AS_OF_ONE_MOMENT) as connection:
        yield connection


def next_number(connection: Connection, counter: str) -> int:
    """The next number of a counter; the row stays locked until the transaction ends, so no number is seen late."""
    statement = text("UPDATE counters SET value = value + 1 WHERE name = :name RETURNING value")
    return int(connection.execute(statement, {"name": counter}).scalar_one())


def present_number(connection: Connection, counter: str, *, hold: bool = False) -> int:
    """The last number that a counter handed out. With `hold` there is no next one until the transaction ends."""
    statement = text(f"SELECT value FROM counters WHERE name = :name {'FOR SHARE' if hold else ''}")
    return int(connection.execute(statement, {"name": counter}).scalar_one())


def notify(connection: Connection, channel: str, payload: str = "") -> None:
    """Wakes the listeners of `channel` when the transaction commits."""
    connection.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": channel, "payload": payload})


def listen(url: str, channels: tuple[str, ...]) -> psycopg.Connection:
    """A connection of its own that listens; read it with `connection.notifies(timeout=...)`. Not through a pooler."""
    connection = psycopg.connect(autocommit=True, **connection_parameters(url))
    for channel in channels:
        connection.execute(f"LISTEN {channel}".encode())
    return connection
