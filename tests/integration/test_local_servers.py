"""Embedded PostgreSQL and Kafka: data survive, nothing outlives its owner, however the owner ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.control.errors import TerminalError
from penstock.control.process import kill_group, start_child, wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.postgres import EmbeddedPostgres, create_database
from penstock.store.address import libpq_url
from tests.support.store.database import fresh_database

OWNER = """
    import signal, sys
    from pathlib import Path
    from penstock.local.{module} import {kind}
    {kind}(Path(sys.argv[1])).start()
    print("ready", flush=True)
    signal.pause()
"""


@pytest.fixture
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one server; the server itself makes it."""
    return tmp_path_factory.mktemp("server") / "data"


@pytest.fixture
def owner(data_dir: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that owns a server of kind (module, class) on `data_dir`."""
    module, kind = request.param
    script = textwrap.dedent(OWNER).format(module=module, kind=kind)
    process = start_child([sys.executable, "-c", script, data_dir], stdout=subprocess.PIPE)
    assert process.stdout is not None
    wait_until(lambda: process.stdout is not None and b"ready" in process.stdout.readline(), 60, "the owner's server")
    yield process
    kill_group(process)


def servers_on(folder: Path) -> list[psutil.Process]:
    """Processes whose command line names the folder as data of a server; a child just forked is not one yet."""
    marks = {str(folder), str(folder / "server.properties")}
    found = {pid: process for pid, process in _running() if marks & set(process[1]) and process[1][1:2] != ["-c"]}
    return [process for process, _, parent in found.values() if parent not in found]


def _running() -> Iterator[tuple[int, tuple[psutil.Process, list[str], int]]]:
    """Every process with its words and its parent, each looked at once: any may end meanwhile."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words, parent = process.cmdline(), process.ppid()
            yield process.pid, (process, words, parent)


def test_a_server_learns_no_setting_of_penstock(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SCALER_TOKEN", "pst_secret")
    with EmbeddedPostgres(data_dir) as server:
        assert server.pid is not None
        known = psutil.Process(server.pid).environ()
    assert [name for name in known if name.startswith("PENSTOCK_")] == []
    assert "PATH" in known


def test_rows_survive_a_restart_of_postgres(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE t AS SELECT 42 AS n")
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (42,)
    assert servers_on(data_dir) == []


def test_a_killed_postmaster_recovers_with_what_was_committed(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE t AS SELECT 42 AS n")
        [postmaster] = servers_on(data_dir)
        postmaster.kill()
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (42,)


@pytest.mark.parametrize("owner", [("postgres", "EmbeddedPostgres")], indirect=True)
def test_a_second_owner_of_a_folder_is_refused(data_dir: Path, owner: subprocess.Popen[bytes]) -> None:
    with pytest.raises(TerminalError, match="in use by another process"):
        EmbeddedPostgres(data_dir).start()
    assert len(servers_on(data_dir)) == 1


@pytest.mark.parametrize("owner", [("postgres", "EmbeddedPostgres")], indirect=True)
def test_postgres_ends_with_an_owner_that_was_killed(data_dir: Path, owner: subprocess.Popen[bytes]) -> None:
    assert len(servers_on(data_dir)) == 1
    owner.kill()
    owner.wait()
    with EmbeddedPostgres(data_dir) as server:
        assert len(servers_on(data_dir)) == 1
        assert server.start() == server.url
    assert servers_on(data_dir) == []


@pytest.mark.long
@pytest.mark.parametrize("owner", [("kafka", "EmbeddedKafka")], indirect=True)
def test_kafka_ends_with_an_owner_that_was_killed(data_dir: Path, owner: subprocess.Popen[bytes]) -> None:
    [broker] = servers_on(data_dir)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until(lambda: broker not in servers_on(data_dir), 20, "the broker to end")
    assert servers_on(data_dir) == []


def test_a_copy_of_a_template_has_its_tables_and_is_separate(postgres_url: str) -> None:
    with fresh_database(postgres_url) as template_url:
        with psycopg.connect(template_url) as connection:
            connection.execute("CREATE TABLE t (n int)")
        template = template_url.split("/")[3].split("?")[0]
        with fresh_database(postgres_url, template) as url, psycopg.connect(url) as connection:
            connection.execute("INSERT INTO t VALUES (1)")
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)
        with psycopg.connect(template_url) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_creating_a_database_twice_is_an_error(database_url: str) -> None:
    name = database_url.split("/")[3].split("?")[0]
    with pytest.raises(psycopg.errors.DuplicateDatabase):
        create_database(database_url, name)


def test_an_address_for_sqlalchemy_is_one_for_libpq(database_url: str) -> None:
    assert libpq_url(database_url.replace("postgresql://", "postgresql+psycopg://")) == database_url


@pytest.mark.long  # e2e/test_servers.py kills Kafka under a running stack
def test_records_survive_a_restart_of_kafka(data_dir: Path) -> None:
    server = EmbeddedKafka(data_dir)
    with server:
        _make_topic(server.bootstrap, "kept", partitions=2)
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce("kept", b"a value", partition=1, timestamp=1_000)
        assert producer.flush(10) == 0
    with server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("kept", 1, 0)])
        message = wait_until(lambda: consumer.poll(1), 20, "the record")
        consumer.close()
    assert message.value() == b"a value"
    assert servers_on(data_dir) == []


def test_kafka_makes_no_topic_by_itself(kafka: EmbeddedKafka) -> None:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.list_topics("never-made", timeout=10)
    assert "never-made" not in client.list_topics(timeout=10).topics


def _make_topic(bootstrap: str, name: str, partitions: int) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    for made in client.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(10)
