"""Containers that fail or are ill, on a real store and real HTTP, with small Task Managers and short periods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskReport, TaskReportBatch, TaskState
from penstock.store.availability import set_availability
from penstock.store.engine import transaction
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN
from penstock.wire.cluster import HeartbeatAnswer
from services.job_service.store.overview import alerts_page
from services.shard_manager.health.faults import KINDS
from services.task_service.store.reports import save_report
from tests.support.shard_manager.cell import ShardCell, shard_cell
from tests.support.shard_manager.small_task_manager import SmallTaskManager

SHARDS = 12
PERIODS = {
    "fail_over_seconds": 10.0,
    "add_limit_seconds": 3.0,
    "drain_grace_seconds": 1.0,
    "outlier_check_seconds": 0.2,
}


class DeafTaskManager(SmallTaskManager):
    """Heartbeats, and hears neither answers nor orders while it is deaf."""

    deaf = True

    def _take_in(self, answer: HeartbeatAnswer) -> None:
        if not self.deaf:
            super()._take_in(answer)


@pytest.fixture
def cell(engine: Engine, database_url: str) -> Iterator[ShardCell]:
    with shard_cell(engine, database_url, shards=SHARDS) as cell:
        cell.start(**PERIODS)
        yield cell


def open_alerts(engine: Engine) -> dict[tuple[str, str], Any]:
    with transaction(engine) as connection:
        rows = alerts_page(connection, limit=100)
    return {(row.kind, row.subject): row.details for row in rows if row.kind in KINDS}


def refusal_of(container: SmallTaskManager) -> str:
    """Why its last heartbeat was refused, empty if it was not. A leader without its lease refuses all, too."""
    return "" if container.refusal is None else str(container.refusal.json()["detail"])


@pytest.mark.long
def test_a_container_that_does_not_take_its_shards_is_failed_over(cell: ShardCell) -> None:
    """
    1. Three containers share all shards; a fourth joins, gets some and goes on heartbeating without them.
    2. After the limit it is drained, with an alert. It does not answer: its heartbeats are not answered any more.
    3. It is declared lost, as any that is silent; the three own and hold everything again.
    """
    well = cell.join("a", "b", "c")
    wait_until(lambda: set(cell.counts()) == {"a", "b", "c"}, 30, "three to own all")
    failing = cell.add(DeafTaskManager("deaf", answers_orders=False)).beat(cell.manager)
    wait_until(lambda: cell.counts()["deaf"] > 0, 30, "the fourth to get shards")
    wait_until(lambda: cell.members()["deaf"].availability == DRAINING, 30, "the drain")
    assert open_alerts(cell.engine)[AlertKind.CONTAINER_FAILING, "deaf"]["shards"] > 0
    wait_until(lambda: "its lease is not renewed" in refusal_of(failing), 30, "heartbeats that are not answered")
    wait_until(lambda: not cell.members()["deaf"].live, 30, "the fail-over")
    wait_until(lambda: set().union(*(each.held for each in well)) == set(range(SHARDS)), 30, "all shards held")
    assert set(cell.counts()) == {"a", "b", "c"}
    assert (AlertKind.CONTAINER_FAILING, "deaf") in open_alerts(cell.engine)


def test_when_many_take_no_shards_nobody_is_drained_and_an_alert_tells(cell: ShardCell) -> None:
    """
    1. Four containers share all shards. 2. Two of them forget theirs, and hear nothing more.
    3. Both have an alert and keep their lease. 4. They hear again: it is cleared.
    """
    deaf = [cell.add(DeafTaskManager(name)) for name in ("deaf1", "deaf2")]
    everybody = [*deaf, *(cell.add(SmallTaskManager(name)) for name in ("a", "b"))]

    def beat() -> None:
        for each in everybody:
            each.heartbeat(cell.manager)

    def alerts_after_a_beat() -> set[tuple[str, str]]:
        beat()
        return set(open_alerts(cell.engine))

    def everybody_holds_some() -> bool:
        beat()
        return all(each.held for each in everybody) and sum(len(each.held) for each in everybody) == SHARDS

    for each in deaf:
        each.deaf = False
    wait_until(everybody_holds_some, 30, "an even spread")
    for each in deaf:
        each.deaf, each.answers_orders = True, False
        each.held.clear()
    both = {(AlertKind.CONTAINER_FAILING, "deaf1"), (AlertKind.CONTAINER_FAILING, "deaf2")}
    wait_until(lambda: alerts_after_a_beat() == both, 30, "the alerts")
    assert {member.availability for member in cell.members().values()} == {OPEN}
    for each in deaf:
        each.deaf = False
    wait_until(lambda: alerts_after_a_beat() == set(), 30, "the alerts to be cleared")
    assert {member.availability for member in cell.members().values()} == {OPEN}
    assert all(member.live for member in cell.members().values())


def report(engine: Engine, container: str, crashes: int) -> None:
    """A task of each of six jobs, all of which crashed so often in a row."""
    tasks = tuple(
        TaskReport(
            job=f"job-{number}",
            index=int(container[1:]),
            state=TaskState.RUNNING,
            revision=1,
            generation=1,
            restarts=0,
            epoch=1,
            crashes=crashes,
        )
        for number in range(6)
    )
    batch = TaskReportBatch(container=container, incarnation="1", commit_number=1, version=1, tasks=tasks)
    with transaction(engine) as connection:
        save_report(connection, batch)


@pytest.mark.long
def test_a_container_whose_tasks_keep_crashing_is_cordoned_until_an_operator_opens_it(cell: ShardCell) -> None:
    """
    1. Five containers run tasks of the same jobs; on one of them all of them crash, again and again.
    2. It is cordoned, with an alert that tells the figures; it keeps its shards.
    3. An operator opens it: the alert is cleared, and what was before accuses it no more.
    """
    names = [f"c{number}" for number in range(5)]
    cell.join(*names)
    wait_until(lambda: set(cell.counts()) == set(names), 30, "all to own shards")
    for name in names:
        report(cell.engine, name, 0)
    cell.rounds_pass(5)
    before = cell.counts()
    report(cell.engine, "c3", 4)
    wait_until(lambda: cell.members()["c3"].availability == CORDONED, 30, "the cordon")
    figures = open_alerts(cell.engine)[AlertKind.CONTAINER_OUTLIER, "c3"]
    assert (figures["failing_tasks"], figures["crashes_per_task_hour_elsewhere"]) == (6, 0)
    assert cell.counts() == before
    with transaction(cell.engine) as connection:
        set_availability(connection, "c3", OPEN, reason="new disk", author="ann")
    wait_until(lambda: open_alerts(cell.engine) == {}, 30, "the alert to be cleared")
    cell.rounds_pass(5)
    assert {member.availability for member in cell.members().values()} == {OPEN}
    assert open_alerts(cell.engine) == {}


def test_a_container_that_beats_and_does_not_report_is_cordoned(engine: Engine, database_url: str) -> None:
    """
    1. Five containers send heartbeats; all but one report. 2. That one is cordoned, with an alert; it keeps its shards.
    3. It reports again, and an operator opens it at once: what was before accuses it no more.
    """
    names = [f"c{number}" for number in range(5)]

    def is_so_while_reporting(reporting: list[str], condition: Callable[[], bool]) -> bool:
        for name in reporting:
            report(engine, name, 0)
        return condition()

    with shard_cell(engine, database_url, shards=SHARDS) as cell:
        cell.start(**PERIODS, reports_old_seconds=1.0, reports_failing_seconds=3.0)
        cell.join(*names)
        wait_until(lambda: set(cell.counts()) == set(names), 30, "all to own shards")
        assert is_so_while_reporting(names, lambda: True)
        before, others = cell.counts(), [name for name in names if name != "c3"]
        is_cordoned = partial(is_so_while_reporting, others, lambda: cell.members()["c3"].availability == CORDONED)
        wait_until(is_cordoned, 30, "the cordon")
        assert open_alerts(engine).keys() == {(AlertKind.REPORTS_OLD, "c3")}
        assert cell.counts() == before
        report(engine, "c3", 0)
        with transaction(engine) as connection:
            set_availability(connection, "c3", OPEN, reason="its disk is not full any more", author="ann")
        wait_until(partial(is_so_while_reporting, names, lambda: open_alerts(engine) == {}), 30, "no alert")
        assert {member.availability for member in cell.members().values()} == {OPEN}
