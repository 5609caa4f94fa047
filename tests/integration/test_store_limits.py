"""The limits on what a process asks of the job store: time for a statement, and connections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from sqlalchemy import Engine, text

from penstock.control.clock import SystemClock
from penstock.control.errors import StatementTimedOut, TransactionEnded, Unavailable
from penstock.control.process import wait_until
from penstock.store.address import libpq_url
from penstock.store.election import LoopTimes, build_loop
from penstock.store.engine import connect, transaction
from penstock.store.roles import url_for

_SLOW = text("SELECT pg_sleep(:seconds)")
_LOOP_TIMES = LoopTimes(period=3600.0, lease=30.0, renew=10.0)


def _sleep(engine: Engine, seconds: float) -> None:
    with transaction(engine) as connection:
        connection.execute(_SLOW, {"seconds": seconds})


def test_a_statement_that_takes_too_long_is_named_with_its_limit(database_url: str) -> None:
    engine = connect(database_url, statement_timeout_seconds=0.05)
    with pytest.raises(StatementTimedOut, match=r"limit of 0\.05 s: SELECT pg_sleep"):
        _sleep(engine, 60)
    _sleep(engine, 0)
    engine.dispose()


def test_a_leaders_round_that_times_out_is_tried_again(database_url: str) -> None:
    """1. A round's statement times out. 2. The loop says so and goes on leading. 3. The next round succeeds."""
    engine = connect(database_url, statement_timeout_seconds=0.5)
    seconds = [60.0, 0.0]
    loop = build_loop(
        "slow", lambda _: _sleep(engine, seconds.pop(0)), engine, SystemClock(), _LOOP_TIMES, holder="me", url=""
    )
    loop.start()
    try:
        wait_until(lambda: loop.failures == 1, 10, "the round that times out")
        status = loop.status()
        assert (status["role"], status["round_error"].partition(":")[0]) == ("leader", "StatementTimedOut")
        loop.wake()
        wait_until(lambda: loop.rounds == 1, 10, "a round that succeeds")
        assert loop.status() == {"role": "leader", "epoch": status["epoch"]}
    finally:
        loop.stop()
        engine.dispose()


def test_the_pool_opens_no_more_connections_than_its_limit(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. As many transactions as the limit are open. 2. One more waits and is refused. 3. One ends: it is served."""
    monkeypatch.setattr("penstock.store.engine._WAIT_FOR_A_CONNECTION_SECONDS", 0.05)
    engine = connect(database_url, connections=2)
    with transaction(engine):
        with transaction(engine), pytest.raises(Unavailable, match="all in use"):
            _sleep(engine, 0)
        _sleep(engine, 0)
    engine.dispose()


def _lock_both(engine: Engine, names: tuple[str, str], both_have_one: Barrier) -> str:
    """Locks two counters, one after the other."""
    try:
        with transaction(engine) as connection:
            connection.execute(text("SET LOCAL deadlock_timeout = '20ms'"))
            for name in names:
                connection.execute(text("SELECT FROM counters WHERE name = :name FOR UPDATE"), {"name": name})
                if name == names[0]:
                    both_have_one.wait(timeout=10)
    except TransactionEnded as error:
        return error.detail
    return "done"


def test_a_deadlock_is_told_as_one_to_whom_the_store_ends(engine: Engine) -> None:
    both_have_one, order = Barrier(2), ("assignment", "revision")
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(_lock_both, engine, names, both_have_one) for names in (order, order[::-1])]
        told = {each.result(timeout=30) for each in others}
    assert told == {"done", "the job store ended a transaction: it and another one waited for each other (deadlock)"}


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SET LOCAL lock_timeout = '20ms'; LOCK TABLE counters", "kept a lock"),
        (
            "DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$",
            "disk of its server is full",
        ),
    ],
)
def test_a_lock_that_is_kept_and_a_full_disk_are_told_as_what_they_are(
    engine: Engine, statement: str, told: str
) -> None:
    with transaction(engine) as keeper:
        keeper.execute(text("LOCK TABLE counters"))
        with pytest.raises(TransactionEnded, match=told), transaction(engine) as connection:
            connection.exec_driver_sql(statement)


def test_a_server_that_takes_no_more_connections_is_told_as_that(database_url: str) -> None:
    with psycopg.connect(libpq_url(database_url), autocommit=True) as connection:
        connection.execute("CREATE ROLE one_too_many LOGIN CONNECTION LIMIT 0")
        engine = connect(url_for("one_too_many", database_url))
        try:
            with pytest.raises(Unavailable, match="takes no more connections"):
                _sleep(engine, 0)
        finally:
            engine.dispose()
            connection.execute("DROP ROLE one_too_many")


def test_a_login_that_is_refused_is_told_as_that(database_url: str) -> None:
    """Of no account, and to no database."""
    for url in (url_for("nobody_at_all", database_url), database_url.replace("?", "_gone?")):
        engine = connect(url)
        with pytest.raises(Unavailable, match="refuses the account, password or database of PENSTOCK_DATABASE_URL"):
            _sleep(engine, 0)
        engine.dispose()
