"""Services work through PgBouncer in transaction mode; what does not pass it is said. Needs the program `pgbouncer`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.control.errors import StatementTimedOut, Unavailable
from penstock.control.process import wait_until
from penstock.store.election import Listener
from penstock.store.engine import connect, notify, transaction
from penstock.store.migrate import head, upgrade
from services.state_syncer.settings import StateSyncerSettings
from tests.support.stack.loops import working
from tests.support.store.confirmed import lost
from tests.support.store.pooler import pgbouncer
from tests.support.store.replicas import replicated

pytestmark = pytest.mark.long
BACK_S = 60.0


@pytest.fixture
def folder(servers_dir: Path, request: pytest.FixtureRequest) -> Path:
    """A short folder that another account may read."""
    servers_dir.chmod(0o755)
    folder = servers_dir / f"pool{abs(hash(request.node.name)) % 10_000}"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def pooled_url(folder: Path, database_url: str) -> Iterator[str]:
    with pgbouncer(folder, database_url) as url:
        yield url


def test_services_work_through_it(pooled_url: str, database_url: str) -> None:
    """Job Service, State Syncer and Shard Manager share three connections; notifications go past the pooler."""
    settings = {"database_pooled": True, "database_listen_url": database_url}
    with working(pooled_url, **settings) as (engine, writer, shards):
        writer.goes_on(50, BACK_S)
        writer.stop()
        behind = "SELECT 1 FROM jobs j JOIN running r ON r.job = j.name WHERE r.revision = j.revision"
        wait_until(lambda: _count(engine, behind) == 3, BACK_S, "the State Syncer to commit all jobs")
        wait_until(shards.agrees, BACK_S, "containers that hold what the store says")
        assert lost(engine, writer.confirmed) == []
        assert writer.refused == 0


def test_migrations_pass_it(folder: Path, empty_database_url: str) -> None:
    with pgbouncer(folder, empty_database_url) as url:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(upgrade, [url] * 4))
        engine = connect(url, pooled=True)
        with transaction(engine) as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == head()
        engine.dispose()


def test_limits_hold_in_each_transaction_and_only_there(pooled_url: str) -> None:
    """1. A process with a short limit is told of it. 2. One with a long limit gets the same server connections."""
    short = connect(pooled_url, pooled=True, statement_timeout_seconds=0.2)
    with pytest.raises(StatementTimedOut):
        _count(short, "SELECT pg_sleep(60)")
    other = connect(pooled_url, pooled=True)
    for _ in range(10):
        with transaction(other) as connection:
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "30s"
            assert connection.execute(text("SHOW timezone")).scalar_one() == "UTC"
    short.dispose()
    other.dispose()


def test_without_the_setting_the_error_says_which(pooled_url: str) -> None:
    engine = connect(pooled_url)
    with pytest.raises(Unavailable, match="PENSTOCK_DATABASE_POOLED"):
        _count(engine, "SELECT 1")


def test_a_notification_needs_a_way_past_it(pooled_url: str, database_url: str, capfd: pytest.CaptureFixture) -> None:
    """Without the address of a way past the pooler, a process says that it only looks in periods."""
    settings = StateSyncerSettings(database_url=pooled_url, database_pooled=True)
    assert settings.notifications_url() is None
    silent = Listener(settings.notifications_url(), ("penstock_test",), lambda: None)
    silent.start()
    silent.stop()
    assert "PENSTOCK_DATABASE_LISTEN_URL" in "".join(capfd.readouterr())
    woken, past = threading.Event(), settings.model_copy(update={"database_listen_url": database_url})
    listener, engine = (
        Listener(past.notifications_url(), ("penstock_test",), woken.set),
        connect(pooled_url, pooled=True),
    )
    listener.start()
    assert woken.wait(20)
    woken.clear()
    with transaction(engine) as connection:
        notify(connection, "penstock_test")
    assert woken.wait(20)
    listener.stop()
    engine.dispose()


def test_nothing_is_read_from_a_replica_behind_it(folder: Path) -> None:
    """The client's connection to the pooler stays; only the transaction can tell which server it got."""
    with replicated(folder, synchronous=False) as pair, pgbouncer(folder, _of_replica(pair.url)) as url:
        engine = connect(url, pooled=True)
        with pytest.raises(Unavailable, match="takes no writes"):
            _count(engine, "SELECT 1")
        pair.promote()
        wait_until(lambda: _takes_writes(engine), BACK_S, "the replica to be promoted")
        assert _count(engine, "SELECT 1") == 1
        engine.dispose()


def _of_replica(url: str) -> str:
    before, _, hosts = url.partition("host=")
    return f"{before}host={hosts.split(',')[1]}"


def _takes_writes(engine) -> bool:
    try:
        return _count(engine, "SELECT 1") == 1
    except Unavailable:
        return False


def _count(engine, statement: str) -> int:
    with transaction(engine) as connection:
        return len(connection.execute(text(statement)).all())
