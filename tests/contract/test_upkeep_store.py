"""The contract of `UpkeepStore`: alerts about drains, and which containers are forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import Fenced, Unavailable
from penstock.store.engine import transaction
from penstock.store.shards import Change
from penstock.tasks.ownership import Member
from services.shard_manager.drains import DRAIN_OVERDUE, DrainAlert
from services.shard_manager.placement.alerts import UNPLACEABLE, PlacementAlert
from services.shard_manager.upkeep_store import PostgresUpkeepStore, UpkeepStore
from tests.contract import shard_store_forms
from tests.support.memory.store import MemoryStore
from tests.support.memory.upkeep import MemoryUpkeepStore
from tests.support.unreachable import unreachable_engine

WEEK_SECONDS = 7 * 86_400.0


class PostgresForm(shard_store_forms.PostgresForm):
    def upkeep(self) -> UpkeepStore:
        return PostgresUpkeepStore(self.engine)

    def upkeep_away(self) -> UpkeepStore:
        return PostgresUpkeepStore(unreachable_engine())

    def silent_for(self, name: str, seconds: float) -> None:
        with transaction(self.engine) as connection:
            at = "clock_timestamp() - make_interval(secs => :seconds)"
            update = f"UPDATE containers SET registered_at = {at}, heartbeat_at = {at} WHERE name = :name"
            connection.execute(text(update), {"name": name, "seconds": seconds})


class MemoryForm(shard_store_forms.MemoryForm):
    def upkeep(self) -> UpkeepStore:
        return MemoryUpkeepStore(self.memory)

    def upkeep_away(self) -> UpkeepStore:
        away = MemoryUpkeepStore(MemoryStore(lambda: 0.0, 1))
        away.down = True
        return away

    def silent_for(self, name: str, seconds: float) -> None:
        self.memory.registered_at[name] = self.memory.now() - seconds


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def alert(container: str, **details: int) -> DrainAlert:
    return DrainAlert(container, "it was to be empty", details)


def test_alerts_about_drains_are_raised_once_and_cleared_and_others_stay(form: Any) -> None:
    epoch, upkeep = form.elect("a"), form.upkeep()
    form.store.save_placement({}, [PlacementAlert(UNPLACEABLE, "too_large", "no place", {})], epoch)
    upkeep.settle_drains({"c1": alert("c1", shards=1)}, epoch)
    upkeep.settle_drains({"c1": alert("c1", shards=2), "c2": alert("c2")}, epoch)
    other = {(UNPLACEABLE, "too_large"): ({}, 1)}
    assert form.open_alerts() == {(DRAIN_OVERDUE, "c1"): ({"shards": 1}, 1), (DRAIN_OVERDUE, "c2"): ({}, 1), **other}
    upkeep.settle_drains({}, epoch)
    assert form.open_alerts() == other


def test_lost_containers_are_forgotten_that_nobody_heard_of_for_long_and_that_own_nothing(form: Any) -> None:
    """1. Four were silent for eight days; one is live all the same, one owns a shard, one was lost a moment ago.
    2. Only the last is forgotten; when it comes back it is a new one."""
    epoch = form.elect("a")
    row = Member("", "one", "http://c", "local", 1.0, 1, 1)
    for name in ("live", "owner", "recent", "gone"):
        form.store.register(row._replace(name=name), empty=True, above=-1, leader_epoch=epoch)
    shard = form.store.take_over(epoch).owners[0]
    form.store.record({0: Change("owner", shard.epoch)}, epoch)
    form.store.fail_over(dict.fromkeys(("owner", "recent", "gone"), "one"), {}, 60.0, epoch)
    for name in ("live", "owner", "gone"):
        form.silent_for(name, WEEK_SECONDS + 86_400.0)
    assert form.upkeep().remove_lost(WEEK_SECONDS, epoch) == {"gone"}
    assert form.upkeep().remove_lost(WEEK_SECONDS, epoch) == frozenset()
    assert form.store.read(-1).members.keys() == {"live", "owner", "recent"}
    form.store.register(row._replace(name="gone"), empty=True, above=-1, leader_epoch=epoch)
    assert form.store.read(-1).members["gone"].live


def test_a_former_leader_writes_nothing_and_a_store_that_is_away_is_unavailable(form: Any) -> None:
    former = form.elect("a")
    epoch = form.elect("b")
    for upkeep, error, by in ((form.upkeep(), Fenced, former), (form.upkeep_away(), Unavailable, epoch)):
        calls: list[Callable[[], object]] = [
            lambda upkeep=upkeep, by=by: upkeep.settle_drains({"c1": alert("c1")}, by),
            lambda upkeep=upkeep, by=by: upkeep.remove_lost(0.0, by),
        ]
        for call in calls:
            with pytest.raises(error):
                call()
    assert form.open_alerts() == {}
