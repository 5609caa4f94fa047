"""The contract of `Election`: one leader at a time, and a higher epoch for each new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Fenced, Unavailable
from penstock.control.loop import Election
from penstock.store import leases
from penstock.store.election import StoreElection
from penstock.store.engine import transaction
from tests.support.memory.election import MemoryElection
from tests.support.memory.store import MemoryStore
from tests.support.store.unreachable import unreachable_engine

LEASE_SECONDS = 600.0


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def candidate(self, holder: str, *, away: bool = False) -> Election:
        engine = unreachable_engine() if away else self.engine
        return StoreElection(engine, "loop", holder, url="", lease_seconds=LEASE_SECONDS)

    def let_it_expire(self) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text("UPDATE leases SET expires_at = clock_timestamp() - interval '1 second'"))

    def row(self) -> Any:
        with transaction(self.engine) as connection:
            return connection.execute(text("SELECT CAST(to_jsonb(leases) AS text) FROM leases")).scalar_one()

    def lose_what_came_after(self, row: Any) -> None:
        kept = "INSERT INTO leases SELECT * FROM jsonb_populate_record(CAST(NULL AS leases), CAST(:row AS jsonb))"
        with transaction(self.engine) as connection:
            connection.execute(text("DELETE FROM leases"))
            connection.execute(text(kept), {"row": row})

    def write(self, epoch: int) -> None:
        with leases.fenced(self.engine, "loop", epoch):
            pass


class MemoryForm:
    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def candidate(self, holder: str, *, away: bool = False) -> Election:
        election = MemoryElection(self.store, "loop", holder, lease_seconds=LEASE_SECONDS)
        election.down = away
        return election

    def let_it_expire(self) -> None:
        self.store.leases["loop"].good_until = self.store.now() - 1.0

    def row(self) -> Any:
        return replace(self.store.leases["loop"])

    def lose_what_came_after(self, row: Any) -> None:
        self.store.leases["loop"] = row
        later = self.store.now() + 1.0
        self.store.now = lambda: later

    def write(self, epoch: int) -> None:
        self.store.check_epoch("loop", epoch)


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def test_one_leads_and_keeps_its_epoch_while_the_others_stand_by(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    epoch = first.take()
    assert epoch is not None
    assert (second.take(), first.take(), second.take()) == (None, epoch, None)


def test_a_released_lease_is_taken_at_once_under_a_higher_epoch(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    epoch = first.take()
    first.release()
    assert second.take() > epoch
    assert first.take() is None


def test_an_expired_lease_goes_to_whoever_asks_first(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    epoch = first.take()
    form.let_it_expire()
    assert second.take() > epoch
    assert first.take() is None


def test_a_holder_that_comes_late_keeps_its_epoch_when_nobody_led_meanwhile(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    epoch = first.take()
    form.let_it_expire()
    assert (first.take(), second.take()) == (epoch, None)


def test_after_a_fail_over_that_lost_a_lease_nobody_gets_its_epoch_again(form: Any) -> None:
    """1. One leads and gives up. 2. Another leads. 3. The store loses that. 4. A third leads, under a higher epoch. 5.
    The second, which does not know, is refused."""
    before = form.candidate("before")
    before.take()
    before.release()
    row = form.row()
    lost = form.candidate("second").take()
    form.lose_what_came_after(row)
    epoch = form.candidate("third").take()
    assert epoch > lost
    form.write(epoch)
    with pytest.raises(Fenced):
        form.write(lost)


def test_only_the_holder_can_release(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    second.release()
    epoch = first.take()
    second.release()
    assert (second.take(), first.take()) == (None, epoch)


def test_a_store_that_is_away_is_unavailable_and_deposes_nobody(form: Any) -> None:
    epoch = form.candidate("first").take()
    cut_off = form.candidate("first", away=True)
    for call in (cut_off.take, cut_off.release):
        with pytest.raises(Unavailable):
            call()
    assert form.candidate("second").take() is None
    assert form.candidate("first").take() == epoch
