"""Rounds of loops in the job store: noted by real loops, and watched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.loop import LeaderLoop, RoundEnd
from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.model.loops import LoopRound
from penstock.store.alerts import open_subjects
from penstock.store.election import LoopTimes, StoreElection, build_loop
from penstock.store.engine import transaction
from penstock.store.rounds import LoopWatch, RoundNotes, read_rounds

WATCHER = "watcher"


class Rounds:
    """A round that fails while it is told to."""

    fails = False

    def __call__(self, _: int) -> None:
        if self.fails:
            raise Unavailable("a \0 in what others say")


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def loop(engine: Engine, rounds: Rounds) -> Iterator[LeaderLoop]:
    times = LoopTimes(period=0.05, lease=5.0, renew=1.0)
    made = build_loop("l", rounds, engine, SystemClock(), times, holder="me", url="http://me")
    made.start()
    yield made
    made.stop()


def newest(engine: Engine) -> LoopRound | None:
    with transaction(engine) as connection:
        return next(iter(read_rounds(connection)), None)


def age(engine: Engine, seconds: float) -> None:
    back = "make_interval(secs => :seconds)"
    statement = text(f"UPDATE loop_rounds SET ended_at = ended_at - {back}, good_at = good_at - {back}")
    with transaction(engine) as connection:
        connection.execute(statement, {"seconds": seconds})


def watched(engine: Engine) -> set[str]:
    """The loops that a watcher, which looks once, has an alert about."""
    epoch = StoreElection(engine, WATCHER, "w", url="", lease_seconds=60.0).take()
    assert epoch is not None
    LoopWatch(engine, WATCHER, lambda: 0.0).round(epoch)
    with transaction(engine) as connection:
        return open_subjects(connection, AlertKind.LOOP_STALLED)


def test_a_loop_notes_at_once_that_its_rounds_begin_to_fail_and_to_succeed(
    engine: Engine, loop: LeaderLoop, rounds: Rounds
) -> None:
    def error() -> str | bool | None:
        found = newest(engine)
        return False if found is None else found.error

    wait_until(lambda: error() is None, 10, "a good round")
    rounds.fails = True
    wait_until(lambda: error() not in (False, None), 10, "a failed round")
    found = newest(engine)
    assert found is not None
    assert (found.loop, found.epoch, found.period_seconds) == ("l", loop.leader_epoch, 0.05)
    assert found.error == "Unavailable: a \ufffd in what others say"
    assert found.good_age_seconds is not None
    rounds.fails = False
    wait_until(lambda: error() is None, 10, "a good round again")


def test_rounds_are_not_written_each_time(engine: Engine) -> None:
    """One note, and none before five seconds are over; the next one then."""
    now = [0.0]
    notes = RoundNotes(engine, "l", 1.0, lambda: now[0])
    seen = []
    for at, seconds in ((0.0, 1.0), (4.9, 2.0), (5.0, 3.0)):
        now[0] = at
        notes.note(RoundEnd(1, seconds, None))
        found = newest(engine)
        seen.append(None if found is None else found.seconds)
    assert seen == [1.0, 1.0, 3.0]


def test_a_former_leader_notes_nothing(engine: Engine) -> None:
    RoundNotes(engine, "l", 1.0, lambda: 0.0).note(RoundEnd(2, 1.0, None))
    RoundNotes(engine, "l", 1.0, lambda: 0.0).note(RoundEnd(1, 9.0, "late"))
    found = newest(engine)
    assert found is not None
    assert (found.epoch, found.seconds, found.error) == (2, 1.0, None)


def test_a_loop_without_good_rounds_has_an_alert_until_it_has_one(engine: Engine) -> None:
    """1. A period of 30 s: not after 74 s, but after 76 s, as a frozen leader has none. 2. Rounds that fail are none
    either. 3. A good one."""
    notes = RoundNotes(engine, "l", 30.0, lambda: 0.0)
    notes.note(RoundEnd(1, 1.0, None))
    age(engine, 74.0)
    assert watched(engine) == set()
    age(engine, 2.0)
    assert watched(engine) == {"l"}
    notes.note(RoundEnd(1, 1.0, "a bug"))
    assert watched(engine) == {"l"}
    notes.note(RoundEnd(1, 1.0, None))
    assert watched(engine) == set()
