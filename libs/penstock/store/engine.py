"""Connections to the job store.

`connect` gives a pooled engine; `next_number` hands out the numbers that must be seen in order;
`notify`/`listen` carry wake-ups. Errors of the connection become `Unavailable`: that says nothing about what
the store holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import psycopg
from sqlalchemy import Connection, Engine, create_engine, select, text, update
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from penstock.control.errors import Unavailable
from penstock.store.tables import counters

CHANGED_EXPECTED = "penstock_expected"
CHANGED_RUNNING = "penstock_running"
CHANGED_ASSIGNMENT = "penstock_assignment"
# A machine that vanishes closes no connection, which would be waited on for hours: it is given up after about 15 s.
_VANISHED: dict[str, Any] = {
    "keepalives_idle": 6,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
# A container reported what the plan of a rescale may wait for: that it knows a newer commit, or that tasks ended.
REPORTED_STOP = "penstock_stop"


def sqlalchemy_url(url: str) -> str:
    """Any `postgres://` or `postgresql://` URL with the psycopg 3 driver named."""
    scheme, _, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}" if scheme.split("+")[0] in ("postgres", "postgresql") else url


def libpq_url(url: str) -> str:
    """The same URL in the plain form that libpq takes."""
    scheme, _, rest = url.partition("://")
    return f"postgresql://{rest}" if scheme.split("+")[0] in ("postgres", "postgresql") else url


def connect(
    url: str,
    *,
    pool_size: int = 5,
    statement_timeout_seconds: float = 30.0,
    idle_transaction_timeout_seconds: float = 10.0,
) -> Engine:
    """A pooled engine; statements that take longer than the time-out are ended by the server.

    So are transactions whose client says nothing for `idle_transaction_timeout_seconds`: a process that is stopped
    in the middle of one would otherwise hold its row locks, such as that of its lease, for ever.
    """
    options = " ".join(
        (
            f"-c statement_timeout={int(statement_timeout_seconds * 1000)}",
            f"-c idle_in_transaction_session_timeout={int(idle_transaction_timeout_seconds * 1000)}",
            "-c timezone=UTC",
        )
    )
    return create_engine(
        sqlalchemy_url(url),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=10,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 5, "options": options, **_VANISHED},
        json_serializer=lambda value: orjson.dumps(value).decode(),
        json_deserializer=orjson.loads,
    )


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction; raises Unavailable when the store cannot be reached or broke the connection."""
    try:
        with engine.begin() as connection:
            yield connection
    except PoolTimeout as error:
        raise Unavailable("the job store's connections are all in use") from error
    except OperationalError as error:
        raise Unavailable("the job store cannot be reached") from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unavailable("the job store broke the connection") from error
        raise


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads, and whose statements all see the same moment. Raises Unavailable."""
    with transaction(engine) as connection:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        yield connection


def next_number(connection: Connection, counter: str) -> int:
    """The next number of a counter; the row stays locked until the transaction ends, so no number is seen late."""
    statement = (
        update(counters)
        .where(counters.c.name == counter)
        .values(value=counters.c.value + 1)
        .returning(counters.c.value)
    )
    return int(connection.execute(statement).scalar_one())


def present_number(connection: Connection, counter: str, *, hold: bool = False) -> int:
    """The last number that a counter handed out. With `hold` there is no next one until the transaction ends."""
    statement = select(counters.c.value).where(counters.c.name == counter)
    return int(connection.execute(statement.with_for_update(read=True) if hold else statement).scalar_one())


def notify(connection: Connection, channel: str, payload: str = "") -> None:
    """Wakes the listeners of `channel` when the transaction commits."""
    connection.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": channel, "payload": payload})


def listen(url: str, channels: tuple[str, ...]) -> psycopg.Connection:
    """A connection of its own that listens; read it with `connection.notifies(timeout=...)`."""
    connection = psycopg.connect(libpq_url(url), autocommit=True, connect_timeout=5, **_VANISHED)
    for channel in channels:
        connection.execute(f"LISTEN {channel}".encode())
    return connection
