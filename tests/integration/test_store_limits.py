"""The limits on what a process asks of the job store: time for a statement, and connections."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from penstock.control.clock import SystemClock
from penstock.control.errors import StatementTimedOut, Unavailable
from penstock.control.process import wait_until
from penstock.store.election import LoopTimes, build_loop
from penstock.store.engine import connect, transaction

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
        assert loop.status() == {"role": "leader", "epoch": 1}
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
