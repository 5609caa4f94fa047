"""The contract of `Election`: one leader at a time, and a higher epoch for each new one."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Unavailable
from penstock.control.loop import Election
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


class MemoryForm:
    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def candidate(self, holder: str, *, away: bool = False) -> Election:
        election = MemoryElection(self.store, "loop", holder, lease_seconds=LEASE_SECONDS)
        election.down = away
        return election

    def let_it_expire(self) -> None:
        self.store.leases["loop"].good_until = self.store.now() - 1.0


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
    assert second.take() == epoch + 1
    assert first.take() is None


def test_an_expired_lease_goes_to_whoever_asks_first(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    epoch = first.take()
    form.let_it_expire()
    assert second.take() == epoch + 1
    assert first.take() is None


def test_a_holder_that_comes_late_keeps_its_epoch_when_nobody_led_meanwhile(form: Any) -> None:
    first, second = form.candidate("first"), form.candidate("second")
    epoch = first.take()
    form.let_it_expire()
    assert (first.take(), second.take()) == (epoch, None)


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
