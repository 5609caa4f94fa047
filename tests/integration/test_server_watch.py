"""Embedded Postgres and Kafka that are killed while others use them: started again, with the same data and address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.postgres import EmbeddedPostgres
from penstock.local.server_watch import ServerWatch
from tests.support.local.told import Told

WAIT_S = 60.0


@pytest.fixture
def told() -> Told:
    return Told(WAIT_S)


@pytest.fixture
def data_dir(servers_dir: Path, request: pytest.FixtureRequest) -> Path:
    """Not below pytest's own folder: each start of pytest closes that folder to Postgres's account."""
    return servers_dir / str(request.node.name)


@pytest.fixture
def postgres(data_dir: Path, told: Told) -> Iterator[EmbeddedPostgres]:
    """A server under watch, with a table t."""
    with EmbeddedPostgres(data_dir) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE t (n int)")
        watch = ServerWatch(server, told)
        watch.start()
        yield server
        watch.stop()


def _write(server: EmbeddedPostgres, number: int) -> bool:
    try:
        with psycopg.connect(server.url, connect_timeout=2) as connection:
            connection.execute("INSERT INTO t VALUES (%s)", (number,))
    except psycopg.OperationalError:
        return False
    return True


def _pid(server: EmbeddedPostgres) -> int:
    assert server.pid is not None
    return server.pid


def test_a_killed_postmaster_is_started_again_on_its_data(postgres: EmbeddedPostgres, told: Told) -> None:
    assert _write(postgres, 1)
    psutil.Process(_pid(postgres)).kill()
    told.wait_for("postgres started again")
    assert told.lines == ["postgres ended (signal 9)", f"postgres started again (pid {postgres.pid})"]
    assert _write(postgres, 2)
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT array_agg(n ORDER BY n) FROM t").fetchone() == ([1, 2],)


def test_a_postgres_that_restarts_itself_is_told(postgres: EmbeddedPostgres, told: Told) -> None:
    """One backend is killed: the postmaster ends all others and begins again. Its own process stays."""
    before = postgres.pid
    for times in (1, 2):
        with psycopg.connect(postgres.url) as connection:
            psutil.Process(connection.info.backend_pid).kill()
        told.wait_for("postgres started again by itself", times)
        wait_until(lambda n=times: _write(postgres, n), WAIT_S, "a write")  # type: ignore[misc]
    assert postgres.pid == before
    assert len(told.lines) == 2


@pytest.mark.long
def test_a_killed_broker_is_started_again_on_its_port(data_dir: Path, told: Told) -> None:
    """1. Killed and started again. 2. Taken down: it stays down until it is brought up. 3. Its port is taken meanwhile:
    that is told once, with its log. 4. The port is free: it starts."""
    with EmbeddedKafka(data_dir) as server:
        bootstrap = server.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
        watch = ServerWatch(server, told)
        watch.start()
        assert server.pid is not None
        psutil.Process(server.pid).kill()
        told.wait_for("kafka started again")
        assert told.lines == ["kafka ended (signal 9)", f"kafka started again (pid {server.pid})"]
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("t", b"again")
        assert producer.flush(WAIT_S) == 0

        host, port = bootstrap.split(":")
        watch.take_down()
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((host, int(port)))
            taken.listen()
            watch.bring_up()
            told.wait_for(f"(see {server.log_path})")
        told.wait_for("kafka started again", 2)
        assert sum("cannot start" in line for line in told.lines) == 1
        assert "port" in next(line for line in told.lines if "cannot start" in line)
        watch.stop()
    assert len(told.lines) == 5, told.lines
