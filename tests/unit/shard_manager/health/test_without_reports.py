"""Containers without reports: cordoned when their heartbeats come to this leader, else only an alert tells."""

from __future__ import annotations

import pytest

from penstock.model.alerts import AlertKind
from penstock.tasks.ownership import CORDONED, OPEN
from services.shard_manager.health.reconciler import HealthReconciler
from services.shard_manager.leader.view import View
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import LEASE
from tests.support.control.clock import FakeClock
from tests.support.memory.election import MemoryElection
from tests.support.memory.health import MemoryHealthStore
from tests.support.memory.ownership import register
from tests.support.memory.store import MemoryStore, ReportEntry
from tests.support.shard_manager.facts import member

NAMES = [f"c{number}" for number in range(30)]
OTHERS = [name for name in NAMES if name != "c3"]


class World:
    """Thirty containers, and one Shard Manager after another."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.memory = MemoryStore(self.clock.monotonic, 8)
        for name in NAMES:
            register(self.memory, member(name), empty=True)
        self.take_over("first")

    def take_over(self, holder: str) -> None:
        """Another Shard Manager becomes leader, and has heard nobody yet."""
        for held in self.memory.leases.values():
            held.good_until = float("-inf")
        epoch = MemoryElection(self.memory, LEASE, holder, lease_seconds=1e9).take()
        assert epoch is not None
        self.epoch, self.view = epoch, View()
        store: MemoryHealthStore = MemoryHealthStore(self.memory)
        self.health = HealthReconciler(store, self.view, ShardManagerSettings(), self.clock)  # type: ignore[arg-type]

    def pass_time(self, seconds: float, *, beating: list[str]) -> None:
        """A round every ten seconds. All but `c3` report."""
        for _ in range(int(seconds / 10.0)):
            self.clock.seconds += 10.0
            now = self.clock.monotonic()
            self.view.members = dict(self.memory.members)
            self.view.heard_at |= dict.fromkeys(beating, now)
            for name in OTHERS:
                self.memory.reports[name] = ReportEntry(self.memory.members[name].incarnation, 1, reported_at=now)
            self.health.step(self.epoch)

    def found(self) -> tuple[str, str]:
        """Whether `c3` is set aside, and what the alert says."""
        others = {self.memory.members[name].availability for name in OTHERS}
        assert others == {OPEN}
        alert = self.memory.alerts.get((AlertKind.REPORTS_OLD, "c3"))
        return self.memory.members["c3"].availability, "" if alert is None else alert.message


@pytest.fixture
def world() -> World:
    return World()


def test_a_container_that_beats_without_reports_is_cordoned(world: World) -> None:
    """1. After a minute there is an alert. 2. After ten it is cordoned."""
    world.pass_time(590, beating=NAMES)
    assert world.found()[0] == OPEN
    assert "sends heartbeats, but" in world.found()[1]
    world.pass_time(60, beating=NAMES)
    assert world.found()[0] == CORDONED


def test_a_container_that_lives_by_its_row_only_gets_an_alert(world: World) -> None:
    """
    1. It renews its row in the store, for two hours. 2. It is updated, and beats: there is time for its first report.
    3. None comes: it is cordoned.
    """
    world.pass_time(7200, beating=OTHERS)
    assert world.found()[0] == OPEN
    assert "renews its lease in the store" in world.found()[1]
    world.pass_time(590, beating=NAMES)
    assert world.found()[0] == OPEN
    world.pass_time(60, beating=NAMES)
    assert world.found()[0] == CORDONED


def test_a_new_leader_counts_from_the_heartbeats_that_it_heard_itself(world: World) -> None:
    """As after an upgrade, when no report was stored by which a new Shard Manager could know."""
    world.pass_time(300, beating=NAMES)
    world.take_over("second")
    world.pass_time(590, beating=NAMES)
    assert world.found()[0] == OPEN
    world.pass_time(60, beating=NAMES)
    assert world.found()[0] == CORDONED
