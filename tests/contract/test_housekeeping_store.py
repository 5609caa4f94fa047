"""The contract of `HousekeepingStore`: alerts about drains, and which containers are forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import Fenced, Unavailable
from penstock.model.alerts import AlertKind
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from services.shard_manager.moves.drains import ContainerAlert
from services.shard_manager.placement.alerts import PlacementAlert
from services.shard_manager.store.housekeeping import HousekeepingStore
from services.shard_manager.store.owners import Change
from tests.contract import shard_store_forms
from tests.support.memory.housekeeping import MemoryHousekeepingStore
from tests.support.memory.store import MemoryStore
from tests.support.store.unreachable import unreachable_engine

WEEK_SECONDS = 7 * 86_400.0


class PostgresForm(shard_store_forms.PostgresForm):
    def housekeeping(self) -> HousekeepingStore:
        return HousekeepingStore(self.engine)

    def housekeeping_away(self) -> HousekeepingStore:
        return HousekeepingStore(unreachable_engine())

    def silent_for(self, name: str, seconds: float) -> None:
        with transaction(self.engine) as connection:
            at = "clock_timestamp() - make_interval(secs => :seconds)"
            update = f"UPDATE containers SET registered_at = {at}, heartbeat_at = {at} WHERE name = :name"
            connection.execute(text(update), {"name": name, "seconds": seconds})


class MemoryForm(shard_store_forms.MemoryForm):
    def housekeeping(self) -> HousekeepingStore:
        return MemoryHousekeepingStore(self.memory)

    def housekeeping_away(self) -> HousekeepingStore:
        away = MemoryHousekeepingStore(MemoryStore(lambda: 0.0, 1))
        away.down = True
        return away

    def silent_for(self, name: str, seconds: float) -> None:
        self.memory.registered_at[name] = self.memory.now() - seconds


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def alert(container: str, **details: int) -> ContainerAlert:
    return ContainerAlert(container, "it was to be empty", details)


def test_alerts_about_drains_are_raised_once_and_cleared_and_others_stay(form: Any) -> None:
    epoch, housekeeping = form.elect("a"), form.housekeeping()
    form.store.save_placement({}, [PlacementAlert(AlertKind.UNPLACEABLE, "too_large", "no place", {})], epoch)
    housekeeping.sync_alerts(AlertKind.DRAIN_OVERDUE, {"c1": alert("c1", shards=1)}, epoch)
    housekeeping.sync_alerts(AlertKind.DRAIN_OVERDUE, {"c1": alert("c1", shards=2), "c2": alert("c2")}, epoch)
    other = {(AlertKind.UNPLACEABLE, "too_large"): ({}, 1)}
    assert form.open_alerts() == {
        (AlertKind.DRAIN_OVERDUE, "c1"): ({"shards": 1}, 1),
        (AlertKind.DRAIN_OVERDUE, "c2"): ({}, 1),
        **other,
    }
    housekeeping.sync_alerts(AlertKind.DRAIN_OVERDUE, {}, epoch)
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
    assert form.housekeeping().remove_lost(WEEK_SECONDS, epoch) == {"gone"}
    assert form.housekeeping().remove_lost(WEEK_SECONDS, epoch) == frozenset()
    assert form.store.read(-1).members.keys() == {"live", "owner", "recent"}
    form.store.register(row._replace(name="gone"), empty=True, above=-1, leader_epoch=epoch)
    assert form.store.read(-1).members["gone"].live


def test_a_former_leader_writes_nothing_and_a_store_that_is_away_is_unavailable(form: Any) -> None:
    former = form.elect("a")
    epoch = form.elect("b")
    for housekeeping, error, by in (
        (form.housekeeping(), Fenced, former),
        (form.housekeeping_away(), Unavailable, epoch),
    ):
        calls: list[Callable[[], object]] = [
            lambda housekeeping=housekeeping, by=by: housekeeping.sync_alerts(
                AlertKind.DRAIN_OVERDUE, {"c1": alert("c1")}, by
            ),
            lambda housekeeping=housekeeping, by=by: housekeeping.remove_lost(0.0, by),
        ]
        for call in calls:
            with pytest.raises(error):
                call()
    assert form.open_alerts() == {}
