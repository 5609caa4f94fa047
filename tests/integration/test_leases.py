"""Leases and elections on a real Postgres, by the store's clock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from sqlalchemy import Engine, TextClause, text

from penstock.control.errors import Fenced, Unavailable
from penstock.control.process import wait_until
from penstock.store import leases
from penstock.store.election import Listener, StoreElection
from penstock.store.engine import connect, notify, transaction

LOOP = "state_syncer"


def take(engine: Engine, holder: str, seconds: float = 60.0) -> int | None:
    with transaction(engine) as connection:
        return leases.take(connection, LOOP, holder, url=f"http://{holder}", seconds=seconds)


def expire(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute(text("UPDATE leases SET expires_at = clock_timestamp() - interval '1 ms'"))


def test_one_holder_at_a_time_and_every_new_one_has_a_higher_epoch(engine: Engine) -> None:
    assert take(engine, "a") == 1
    assert take(engine, "b") is None
    assert take(engine, "a") == 1
    expire(engine)
    assert take(engine, "b") == 2
    assert take(engine, "a") is None
    expire(engine)
    assert take(engine, "a") == 3


def test_a_renewal_after_expiry_keeps_the_epoch_when_nobody_took_the_lease(engine: Engine) -> None:
    assert take(engine, "a") == 1
    expire(engine)
    assert take(engine, "a") == 1


def test_a_short_lease_ends_by_the_clock_of_the_store(engine: Engine) -> None:
    assert take(engine, "a", seconds=0.2) == 1
    assert wait_until(lambda: take(engine, "b"), 5, "the lease to end") == 2


def test_a_lease_that_is_given_up_is_free_at_once(engine: Engine) -> None:
    first = StoreElection(engine, LOOP, "a", url="", lease_seconds=60)
    second = StoreElection(engine, LOOP, "b", url="http://b", lease_seconds=60)
    assert first.take() == 1
    assert second.take() is None
    second.release()
    assert second.take() is None, "only the holder can give it up"
    first.release()
    assert second.take() == 2
    with transaction(engine) as connection:
        assert leases.read(connection, LOOP) == leases.LeaseRow("b", 2, "http://b")
        assert leases.read(connection, "nobody") is None


def test_of_many_that_ask_at_once_one_gets_it(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as pool:
        epochs = list(pool.map(lambda name: take(engine, f"holder-{name}"), range(8)))
    assert sorted(epoch for epoch in epochs if epoch is not None) == [1]


def test_an_old_epoch_is_fenced(engine: Engine) -> None:
    take(engine, "a")
    expire(engine)
    take(engine, "b")
    with transaction(engine) as connection:
        leases.check_epoch(connection, LOOP, 2)
    with pytest.raises(Fenced), transaction(engine) as connection:
        leases.check_epoch(connection, LOOP, 1)
    with pytest.raises(Fenced), transaction(engine) as connection:
        leases.check_epoch(connection, "never_held", 1)


def test_nobody_is_elected_while_a_checked_transaction_is_open(engine: Engine) -> None:
    """1. A leader checks its epoch and writes. 2. Its lease ends. 3. Its successor waits for the commit, then leads."""
    take(engine, "a", seconds=0.1)
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            leases.check_epoch(connection, LOOP, 1)
            successor = pool.submit(wait_until, lambda: take(engine, "b"), 10, "the election")
            wait_until(lambda: _waits_for_lock(engine), 5, "the successor to wait")
            assert not successor.done()
        assert successor.result(timeout=10) == 2


def _waits_for_lock(engine: Engine) -> bool:
    with transaction(engine) as connection:
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(connection.execute(waiting).scalar_one())


def test_a_renewal_does_not_wait_for_the_transactions_of_the_holder(engine: Engine) -> None:
    """1. A leader checks its epoch, and its transaction takes long. 2. It renews its lease meanwhile, also while a
    standby waits for the expired lease. 3. The standby finds the renewed lease and does not lead."""
    take(engine, "a", seconds=0.1)
    with ThreadPoolExecutor(2) as pool:
        with transaction(engine) as connection:
            leases.check_epoch(connection, LOOP, 1)
            expire_seen = pool.submit(_take_when_expired, engine)
            wait_until(lambda: _waits_for_lock(engine), 5, "the standby to wait")
            assert pool.submit(take, engine, "a").result(timeout=5) == 1
            leases.check_epoch(connection, LOOP, 1)
        assert expire_seen.result(timeout=10) is None


def _take_when_expired(engine: Engine) -> int | None:
    expired = text("SELECT expires_at < clock_timestamp() FROM leases")
    wait_until(lambda: _scalar(engine, expired), 5, "the lease to end")
    return take(engine, "b")


def _scalar(engine: Engine, statement: TextClause) -> object:
    with transaction(engine) as connection:
        return connection.execute(statement).scalar_one()


def test_a_process_that_stands_still_in_a_transaction_does_not_hold_its_lease(database_url: str) -> None:
    """1. A leader checks its epoch and is stopped there. 2. The server ends its transaction. 3. Another leads."""
    stopped = connect(database_url, idle_transaction_timeout_seconds=0.3)
    other = connect(database_url)
    take(stopped, "a", seconds=0.1)
    with pytest.raises(Unavailable):
        _write_slowly(stopped, lambda: wait_until(lambda: take(other, "b"), 10, "the other to lead"))
    with transaction(other) as connection:
        assert leases.read(connection, LOOP) == leases.LeaseRow("b", 2, "http://b")
    stopped.dispose()
    other.dispose()


def _write_slowly(engine: Engine, pause: Callable[[], object]) -> None:
    with transaction(engine) as connection:
        leases.check_epoch(connection, LOOP, 1)
        pause()
        connection.execute(text("SELECT 1"))


def test_a_listener_wakes_on_notify_and_after_a_lost_connection(engine: Engine, database_url: str) -> None:
    woken = Event()
    listener = Listener(database_url, ("penstock_test",), woken.set)
    listener.start()
    try:
        assert woken.wait(10), "listening begins with a wake-up, for what was missed"
        woken.clear()
        with transaction(engine) as connection:
            notify(connection, "penstock_test", "x")
        assert woken.wait(10)
        woken.clear()
        with transaction(engine) as connection:
            statement = """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE query LIKE 'LISTEN%' AND datname = current_database()
            """
            assert connection.execute(text(statement)).all() == [(True,)]
        assert woken.wait(10)
    finally:
        listener.stop()
