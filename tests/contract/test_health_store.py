"""The contract of `HealthStore`: what is seen of tasks, who is set aside, and the alerts about it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Fenced, Unavailable
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskReport, TaskReportBatch, TaskState
from penstock.store.availability import set_availability
from penstock.store.election import StoreElection
from penstock.store.engine import transaction
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN, Member
from services.job_service.store.overview import alerts_page
from services.shard_manager.health.failure_stats import CrashedTask
from services.shard_manager.health.faults import Fault
from services.shard_manager.store import members as stored_members
from services.shard_manager.store.health import HealthStore
from services.shard_manager.store.port import LEASE
from services.task_service.store.reports import save_report
from tests.support.memory.election import MemoryElection
from tests.support.memory.health import MemoryHealthStore
from tests.support.memory.specs import MemoryTaskService
from tests.support.memory.store import MemoryStore
from tests.support.store.unreachable import unreachable_engine


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store: HealthStore = HealthStore(engine)
        self.away: HealthStore = HealthStore(unreachable_engine())

    def elect(self, holder: str = "leader") -> int:
        with transaction(self.engine) as connection:
            connection.execute(text("UPDATE leases SET expires_at = '-infinity'"))
        epoch = StoreElection(self.engine, LEASE, holder, url="", lease_seconds=60.0).take()
        assert epoch is not None
        return epoch

    def join(self, member: Member) -> None:
        with transaction(self.engine) as connection:
            stored_members.register(connection, member, empty=True)

    def lose(self, member: Member) -> None:
        with transaction(self.engine) as connection:
            stored_members.declare_lost(connection, {member.name: member.incarnation}, 60.0)

    def report(self, batch: TaskReportBatch) -> None:
        with transaction(self.engine) as connection:
            save_report(connection, batch)

    def availability(self, name: str) -> tuple[str, bool]:
        """And whether a limit of its drain is over."""
        with transaction(self.engine) as connection:
            member = stored_members.read_members(connection)[name]
            now = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return member.availability, member.drain_until is not None and member.drain_until <= now

    def open(self, name: str) -> None:
        with transaction(self.engine) as connection:
            set_availability(connection, name, OPEN, reason="repaired", author="ann")

    def alerts(self) -> dict[tuple[str, str], Any]:
        with transaction(self.engine) as connection:
            return {(row.kind, row.subject): row.details for row in alerts_page(connection, limit=100)}


class MemoryForm:
    def __init__(self, memory: MemoryStore) -> None:
        self.memory = memory
        self.store: HealthStore = MemoryHealthStore(memory)
        away = MemoryHealthStore(memory)
        away.down = True
        self.away: HealthStore = away

    def elect(self, holder: str = "leader") -> int:
        for held in self.memory.leases.values():
            held.good_until = float("-inf")
        epoch = MemoryElection(self.memory, LEASE, holder, lease_seconds=60.0).take()
        assert epoch is not None
        return epoch

    def join(self, member: Member) -> None:
        self.memory.members[member.name] = member
        self.memory.registered_at[member.name] = self.memory.now()

    def lose(self, member: Member) -> None:
        self.memory.declare_lost({member.name: member.incarnation}, 60.0)

    def report(self, batch: TaskReportBatch) -> None:
        MemoryTaskService(self.memory).report(batch)

    def availability(self, name: str) -> tuple[str, bool]:
        member = self.memory.members[name]
        return member.availability, member.drain_until is not None and member.drain_until <= self.memory.wall_time()

    def open(self, name: str) -> None:
        self.memory.set_availability(name, OPEN)

    def alerts(self) -> dict[tuple[str, str], Any]:
        return {key: alert.details for key, alert in self.memory.alerts.items()}


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def member(name: str) -> Member:
    return Member(name, "one", f"http://{name}", "local", 1.0, 1, 1)


def fault(container: str, kind: str = AlertKind.CONTAINER_FAILING, **details: float) -> Fault:
    return Fault(kind, container, "the disk is slow", details)


def report(container: str, crashes: dict[tuple[str, int], int]) -> TaskReportBatch:
    tasks = tuple(
        TaskReport(
            job=job,
            index=index,
            state=TaskState.RUNNING,
            revision=1,
            generation=1,
            restarts=0,
            epoch=1,
            crashes=count,
        )
        for (job, index), count in crashes.items()
    )
    return TaskReportBatch(container=container, incarnation="one", commit_number=1, version=1, tasks=tasks)


def put_aside(
    form: Any, epoch: int, name: str, availability: str = CORDONED, *, before: str = OPEN, most: int = 9
) -> bool:
    done: bool = form.store.set_aside(fault(name), availability, before=before, most=most, leader_epoch=epoch)
    return done


def test_a_look_counts_the_tasks_of_live_containers_and_names_those_that_crashed(form: Any) -> None:
    for name in ("c1", "c2", "c3"):
        form.join(member(name))
    form.report(report("c1", {("a", 0): 0, ("a", 1): 2, ("b", 0): 0}))
    form.report(report("c2", {("a", 2): 7}))
    form.report(report("c3", {("a", 3): 1}))
    form.lose(member("c3"))
    assert form.store.counts() == {("a", "c1"): 2, ("b", "c1"): 1, ("a", "c2"): 1}
    assert sorted(form.store.crashed()) == [CrashedTask("a", 1, "c1", 2), CrashedTask("a", 2, "c2", 7)]


def test_a_container_is_set_aside_with_an_alert(form: Any) -> None:
    epoch = form.elect()
    for name in ("c1", "c2"):
        form.join(member(name))
    assert form.store.set_aside(fault("c1", shards=3), DRAINING, before=OPEN, most=1, leader_epoch=epoch)
    assert form.availability("c1") == (DRAINING, True)
    assert form.availability("c2") == (OPEN, False)
    assert form.alerts() == {(AlertKind.CONTAINER_FAILING, "c1"): {"shards": 3}}


def test_a_cordoned_container_can_be_drained_and_is_not_counted_against_itself(form: Any) -> None:
    epoch = form.elect()
    form.join(member("c1"))
    assert put_aside(form, epoch, "c1", CORDONED, most=1)
    assert form.availability("c1") == (CORDONED, False)
    assert put_aside(form, epoch, "c1", DRAINING, before=CORDONED, most=1)
    assert form.availability("c1") == (DRAINING, True)


def test_what_somebody_else_made_of_it_meanwhile_stays(form: Any) -> None:
    epoch = form.elect()
    form.join(member("c1"))
    assert not put_aside(form, epoch, "c1", before=CORDONED)
    assert form.availability("c1") == (OPEN, False)
    assert form.alerts() == {}


def test_no_more_are_set_aside_at_a_time_than_may_be(form: Any) -> None:
    """1. One of three is set aside, and no second one. 2. An operator puts it back: another may be. 3. That is lost."""
    epoch = form.elect()
    for name in ("c1", "c2", "c3"):
        form.join(member(name))
    assert put_aside(form, epoch, "c1", most=1)
    assert not put_aside(form, epoch, "c2", most=1)
    assert form.availability("c2") == (OPEN, False)
    form.open("c1")
    assert put_aside(form, epoch, "c2", most=1)
    form.lose(member("c2"))
    assert put_aside(form, epoch, "c3", most=1)


def test_alerts_are_raised_once_and_cleared_unless_they_are_kept(form: Any) -> None:
    epoch = form.elect()
    form.store.sync_alerts([fault("c1", shards=1), fault("c2", AlertKind.CONTAINER_OUTLIER)], [], epoch)
    form.store.sync_alerts([fault("c1", shards=2), fault("c3")], ["c2"], epoch)
    assert form.alerts() == {
        (AlertKind.CONTAINER_FAILING, "c1"): {"shards": 1},
        (AlertKind.CONTAINER_OUTLIER, "c2"): {},
        (AlertKind.CONTAINER_FAILING, "c3"): {},
    }
    form.store.sync_alerts([], ["c1"], epoch)
    assert form.alerts().keys() == {(AlertKind.CONTAINER_FAILING, "c1")}


def test_a_former_leader_sets_nobody_aside_and_raises_nothing(form: Any) -> None:
    former = form.elect()
    form.join(member("c1"))
    form.elect("another")
    with pytest.raises(Fenced):
        put_aside(form, former, "c1")
    with pytest.raises(Fenced):
        form.store.sync_alerts([fault("c1")], [], former)
    assert (form.availability("c1"), form.alerts()) == ((OPEN, False), {})


def test_a_store_that_is_away_is_unavailable(form: Any) -> None:
    calls = (
        form.away.crashed,
        form.away.counts,
        lambda: form.away.set_aside(fault("c1"), CORDONED, before=OPEN, most=1, leader_epoch=1),
        lambda: form.away.sync_alerts([], [], 1),
    )
    for call in calls:
        with pytest.raises(Unavailable):
            call()


def test_the_age_of_a_report_counts_for_its_own_life_of_a_live_container(form: Any) -> None:
    """One that has not reported yet is as old as its registration, and a lost container has no age."""
    for name in ("a", "b", "c"):
        form.join(member(name))
    form.report(report("a", {}))
    form.lose(member("c"))
    ages = form.store.report_ages()
    assert ages.keys() == {"a", "b"}
    assert all(0 <= age < 60 for age in ages.values())
