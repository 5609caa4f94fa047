"""The job store fails over between two real servers while services write; a server that became a replica is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.store.engine import connect, transaction
from tests.support.shard_manager.cell import ShardCell
from tests.support.stack.loops import working
from tests.support.store.confirmed import Writer, lost
from tests.support.store.database import address_of
from tests.support.store.replicas import Pair, replicated

BACK_S = 60.0
_BEHIND = """
    SELECT 1 FROM jobs j LEFT JOIN running r ON r.job = j.name WHERE r.revision IS DISTINCT FROM j.revision
"""
_NUMBERS = "SELECT name, value FROM counters"


class Services(NamedTuple):
    """What `working` gives, on a pair."""

    pair: Pair
    engine: Engine
    writer: Writer
    shards: ShardCell

    def rows(self, statement: str) -> list[Any]:
        with transaction(self.engine) as connection:
            return list(connection.execute(text(statement)))

    def numbers(self) -> dict[str, int]:
        return {row.name: row.value for row in self.rows(_NUMBERS)}

    def catch_up(self) -> None:
        """Waits until writes go on and all that is expected runs."""
        self.writer.goes_on(10, BACK_S)
        self.writer.stop()
        wait_until(lambda: not self.rows(_BEHIND), BACK_S, "the State Syncer to commit all jobs")


@contextmanager
def services_on(pair: Pair) -> Iterator[Services]:
    with working(pair.url) as (engine, writer, shards):
        yield Services(pair, engine, writer, shards)


def test_a_confirmed_write_survives_the_death_of_the_primary(servers_dir: Path) -> None:
    """1. Services work. 2. The primary is killed, the replica promoted. 3. They go on; nothing confirmed is lost."""
    with replicated(_folder(servers_dir, "kill")) as pair, services_on(pair) as cell:
        cell.writer.goes_on(10, BACK_S)
        before, owners = cell.numbers(), cell.shards.owners()
        pair.primary.kill()
        pair.promote()
        cell.catch_up()
        assert lost(cell.engine, cell.writer.confirmed) == []
        assert {name: number for name, number in cell.numbers().items() if number < before[name]} == {}
        assert cell.shards.owners() == owners
        wait_until(cell.shards.agrees, BACK_S, "containers that hold what the store says")


@pytest.mark.long
def test_two_servers_change_places_again_and_again(servers_dir: Path) -> None:
    """Three times: 1. the primary dies and the replica is promoted, 2. services go on, 3. the old primary comes back on
    its old address as a replica, and the next commits wait for it."""
    with replicated(_folder(servers_dir, "turns")) as pair, services_on(pair) as cell:
        for _ in range(3):
            cell.writer.goes_on(50, BACK_S)
            before = cell.numbers()
            pair.primary.kill()
            pair.promote()
            cell.writer.goes_on(20, BACK_S)
            pair.return_old()
            cell.writer.goes_on(50, BACK_S)
            assert lost(cell.engine, list(cell.writer.confirmed)) == []
            assert {name: number for name, number in cell.numbers().items() if number < before[name]} == {}
        cell.catch_up()
        assert lost(cell.engine, cell.writer.confirmed) == []


@pytest.mark.long
def test_without_synchronous_replication_a_confirmed_write_can_be_lost(servers_dir: Path) -> None:
    """1. The replica stops to apply and to receive. 2. Writes are confirmed. 3. The primary dies, the replica is
    promoted: those writes are gone. This is why the runbook asks for `penstock restored` then."""
    with replicated(_folder(servers_dir, "async"), synchronous=False) as pair, services_on(pair) as cell:
        cell.writer.goes_on(5, BACK_S)
        pair.replica.stop()
        cell.writer.goes_on(10, BACK_S)
        pair.primary.kill()
        pair.replica.start()
        pair.promote()
        cell.catch_up()
        assert lost(cell.engine, cell.writer.confirmed)


def test_a_pooled_connection_to_a_server_that_became_read_only_is_left(servers_dir: Path) -> None:
    """1. Connections lie in the pool. 2. Their server is made read-only. 3. Nothing is read from it, and nothing from a
    replica; once the other takes writes, it is found by the same engine."""
    with replicated(_folder(servers_dir, "pool"), synchronous=False) as pair:
        engine = connect(pair.url)
        first = _server(engine)
        pair.set(pair.primary, "default_transaction_read_only", "on")
        wait_until(lambda: _read_only_everywhere(engine), BACK_S, "no server to read from")
        pair.promote()
        wait_until(lambda: not _read_only_everywhere(engine), BACK_S, "the other server")
        assert _server(engine) != first
        engine.dispose()


def test_a_write_that_meets_a_replica_is_to_be_tried_again(engine: Engine) -> None:
    """The error of Postgres says that the server changed, so no pooled connection to it is used again."""
    with transaction(engine) as connection:
        pid = _pid(connection)
    with pytest.raises(Unavailable, match="takes no writes"):
        _execute(engine, "SET TRANSACTION READ ONLY", "UPDATE counters SET value = value + 1")
    with transaction(engine) as connection:
        assert _pid(connection) != pid


def test_a_connection_that_an_administrator_ends_is_made_anew(engine: Engine) -> None:
    """Also in the middle of a transaction. (Postgres does the same to all connections when it shuts down.)"""
    with pytest.raises(Unavailable):
        _execute(engine, "SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 1")
    _execute(engine, "SELECT 1")


def _execute(engine: Engine, *statements: str) -> None:
    with transaction(engine) as connection:
        for statement in statements:
            connection.execute(text(statement))


def _server(engine: Engine) -> str:
    return address_of(engine).partition("host=")[2].split()[0]


def _read_only_everywhere(engine: Engine) -> bool:
    try:
        with transaction(engine) as connection:
            return connection.execute(text("SHOW transaction_read_only")).scalar_one() == "never"
    except Unavailable as error:
        return "takes writes" in error.detail


def _pid(connection: Any) -> int:
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def _folder(servers_dir: Path, name: str) -> Path:
    folder = servers_dir / name
    folder.mkdir()
    return folder
