"""Leases and elections on a real Postgres, by the store's clock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from pydantic import TypeAdapter
from sqlalchemy import Engine, TextClause, text

from penstock.config.declare import Counted
from penstock.control.errors import Fenced, Unavailable
from penstock.control.process import wait_until
from penstock.store import leases
from penstock.store.election import Listener, StoreElection
from penstock.store.engine import connect, notify, transaction

LOOP = "state_syncer"
_OLD_LEASE = "INSERT INTO leases (name, holder, epoch, expires_at) VALUES (:name, 'old', :ahead, '-infinity')"


def take(engine: Engine, holder: str, seconds: float = 60.0) -> int | None:
    with transaction(engine) as connection:
        return leases.take(connection, LOOP, holder, url=f"http://{holder}", seconds=seconds)


def lead(engine: Engine, holder: str, seconds: float = 60.0) -> int:
    """The epoch of a lease that is free."""
    epoch = take(engine, holder, seconds)
    assert epoch is not None
    return epoch


def expire(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute(text("UPDATE leases SET expires_at = clock_timestamp() - interval '1 ms'"))


def test_one_holder_at_a_time_and_every_new_one_has_a_higher_epoch(engine: Engine) -> None:
    first = lead(engine, "a")
    assert take(engine, "b") is None
    assert take(engine, "a") == first
    expire(engine)
    second = lead(engine, "b")
    assert take(engine, "a") is None
    expire(engine)
    assert first < second < lead(engine, "a")


def test_a_renewal_after_expiry_keeps_the_epoch_when_nobody_took_the_lease(engine: Engine) -> None:
    epoch = lead(engine, "a")
    expire(engine)
    assert take(engine, "a") == epoch


def test_where_the_clock_of_the_store_is_behind_an_epoch_is_higher_by_a_random_number(engine: Engine) -> None:
    """As after a fail-over to a server whose clock is behind. Two that take over the same row get different epochs."""
    lead(engine, "a")
    ahead, found = 2**52, set()
    for holder in ("b", "c"):
        with transaction(engine) as connection:
            connection.execute(text("DELETE FROM leases"))
            values = {"name": LOOP, "ahead": ahead}
            connection.execute(text(_OLD_LEASE), values)
        found.add(lead(engine, holder))
    assert len(found) == 2
    assert min(found) > ahead


def test_an_epoch_fits_the_messages_to_containers(engine: Engine) -> None:
    epoch = lead(engine, "a")
    assert TypeAdapter(Counted).validate_python(epoch) == epoch


def test_a_short_lease_ends_by_the_clock_of_the_store(engine: Engine) -> None:
    epoch = lead(engine, "a", seconds=0.2)
    assert wait_until(lambda: take(engine, "b"), 5, "the lease to end") > epoch


def test_a_lease_that_is_given_up_is_free_at_once(engine: Engine) -> None:
    first = StoreElection(engine, LOOP, "a", url="", lease_seconds=60)
    second = StoreElection(engine, LOOP, "b", url="http://b", lease_seconds=60)
    assert first.take() is not None
    assert second.take() is None
    second.release()
    assert second.take() is None, "only the holder can give it up"
    first.release()
    epoch = second.take()
    assert epoch is not None
    with transaction(engine) as connection:
        assert leases.read(connection, LOOP) == leases.LeaseRow("b", epoch, "http://b")
        assert leases.read(connection, "nobody") is None


def test_of_many_that_ask_at_once_one_gets_it(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as pool:
        epochs = list(pool.map(lambda name: take(engine, f"holder-{name}"), range(8)))
    assert len([epoch for epoch in epochs if epoch is not None]) == 1


def test_an_old_epoch_is_fenced(engine: Engine) -> None:
    old = lead(engine, "a")
    expire(engine)
    epoch = lead(engine, "b")
    with transaction(engine) as connection:
        leases.check_epoch(connection, LOOP, epoch)
    with pytest.raises(Fenced), transaction(engine) as connection:
        leases.check_epoch(connection, LOOP, old)
    with pytest.raises(Fenced), transaction(engine) as connection:
        leases.check_epoch(connection, "never_held", epoch)


def test_nobody_is_elected_while_a_checked_transaction_is_open(engine: Engine) -> None:
    """1. A leader checks its epoch and writes. 2. Its lease ends. 3. Its successor waits for the commit, then leads."""
    epoch = lead(engine, "a", seconds=0.1)
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            leases.check_epoch(connection, LOOP, epoch)
            successor = pool.submit(wait_until, lambda: take(engine, "b"), 10, "the election")
            wait_until(lambda: _waits_for_lock(engine), 5, "the successor to wait")
            assert not successor.done()
        assert successor.result(timeout=10) > epoch


def _waits_for_lock(engine: Engine) -> bool:
    with transaction(engine) as connection:
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(connection.execute(waiting).scalar_one())


def test_a_renewal_does_not_wait_for_the_transactions_of_the_holder(engine: Engine) -> None:
    """1. A leader checks its epoch, and its transaction takes long. 2. It renews its lease meanwhile, also while a
    standby waits for the expired lease. 3. The standby finds the renewed lease and does not lead."""
    epoch = lead(engine, "a", seconds=0.1)
    with ThreadPoolExecutor(2) as pool:
        with transaction(engine) as connection:
            leases.check_epoch(connection, LOOP, epoch)
            expire_seen = pool.submit(_take_when_expired, engine)
            wait_until(lambda: _waits_for_lock(engine), 5, "the standby to wait")
            assert pool.submit(take, engine, "a").result(timeout=5) == epoch
            leases.check_epoch(connection, LOOP, epoch)
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
    epoch = lead(stopped, "a", seconds=0.1)
    with pytest.raises(Unavailable):
        _write_slowly(stopped, epoch, lambda: wait_until(lambda: take(other, "b"), 10, "the other to lead"))
    with transaction(other) as connection:
        found = leases.read(connection, LOOP)
    assert found is not None
    assert found.holder == "b"
    assert found.epoch > epoch
    stopped.dispose()
    other.dispose()


def _write_slowly(engine: Engine, epoch: int, pause: Callable[[], object]) -> None:
    with transaction(engine) as connection:
        leases.check_epoch(connection, LOOP, epoch)
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
