"""Cordon, drain and uncordon, asked of a real Job Service and done by a real Shard Manager: stories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.wire.containers import ContainerView
from penstock.wire.job_client import JobClient
from tests.support.job_service.service import job_service
from tests.support.shard_manager.cell import ShardCell, shard_cell

SHARDS = 12
# None is lost for a machine that is busy with other tests.
STEADY = {"container_lease_seconds": 4.0, "fail_over_seconds": 6.0}
PATIENT = {"container_lease_seconds": 40.0, "fail_over_seconds": 60.0}


class DrainedCell(ShardCell):
    """With a Job Service, of which `client` asks for cordons and drains."""

    client: JobClient

    def overdue(self) -> list[str]:
        """The containers that alerts say do not drop their shards."""
        return [alert.subject for alert in self.client.alerts(kind=AlertKind.DRAIN_OVERDUE).alerts]

    def unplaceable(self) -> list[int]:
        """How many shards run nowhere, by the alerts."""
        return [alert.details["without_owner"] for alert in self.client.alerts(kind=AlertKind.UNPLACEABLE).alerts]


@contextmanager
def cell(database_url: str, *names: str, **settings: Any) -> Iterator[DrainedCell]:
    with (
        job_service(database_url) as service,
        service.client() as client,
        shard_cell(service.engine, database_url, *names, make=DrainedCell, **STEADY | settings) as found,
    ):
        found.client = client
        yield found


def is_so(container: ContainerView) -> tuple[str, str, int]:
    return container.state, container.availability, container.shards


def test_a_drain_empties_and_an_uncordon_fills(database_url):
    """1. Its shards go to the others. 2. It stays a member, draining and empty, also when it restarts. 3. Open again
    it gets its part."""
    with cell(database_url, "a", "b", "c") as found:
        found.client.drain("a", reason="new disk", limit_seconds=None)
        found.come_to({"b": 6, "c": 6}, "the drain")
        assert is_so(found.client.container("a")) == ("live", "draining", 0)
        found.kill("a")
        found.join("a", incarnation="2")
        wait_until(lambda: found.manager.view.is_current("a", "2"), 10, "its next life")
        found.rounds_pass()
        assert is_so(found.client.container("a")) == ("live", "draining", 0)
        assert found.counts() == {"b": 6, "c": 6}
        found.client.uncordon("a")
        found.come_to({"a": 4, "b": 4, "c": 4}, "it to be filled")


@pytest.mark.long
def test_a_cordoned_container_keeps_what_it_has_and_gets_nothing_new(database_url):
    """1. `a` is cordoned, and another container is lost: its shards go to the third. 2. `a` runs what it ran."""
    with cell(database_url, "a", "b", "c") as found:
        held = dict(found.containers["a"].held)
        found.client.cordon("a", reason="noise")
        found.rounds_pass()
        found.kill("b")
        found.come_to({"a": 4, "c": 8}, "the fail-over")
        found.rounds_pass()
        assert found.containers["a"].held == held


@pytest.mark.long
def test_what_fits_nowhere_stays_until_the_limit_and_has_no_owner_then(database_url):
    """1. The only container is drained: there is nowhere to go. 2. At the limit all is taken off, and an alert says so.
    3. Uncordoned, it has it all again."""
    with cell(database_url, "a") as found:
        found.client.drain("a", limit_seconds=None)
        found.rounds_pass()
        assert found.counts() == found.held() == {"a": SHARDS}
        found.client.drain("a", limit_seconds=0)
        wait_until(lambda: found.counts() == {None: SHARDS} and not found.held(), 20, "all to be taken off")
        assert is_so(found.client.container("a")) == ("live", "draining", 0)
        found.rounds_pass()
        assert found.counts() == {None: SHARDS}
        assert found.unplaceable() == [SHARDS]
        found.client.uncordon("a")
        found.come_to({"a": SHARDS}, "it to be filled")
        wait_until(lambda: found.unplaceable() == [], 10, "the end of the alert")


def test_at_the_limit_no_budget_of_moves_counts(database_url):
    """1. One move at a time, and the source does not answer: one shard is withheld. 2. At the limit all are."""
    with cell(database_url, "a", "b", moves_in_flight=1, **PATIENT) as found:
        found.kill("a")
        found.client.drain("a", limit_seconds=None)
        wait_until(lambda: len(found.manager.view.withheld) == 1, 20, "a DROP to be repeated")
        found.rounds_pass()
        assert len(found.manager.view.withheld) == 1
        found.client.drain("a", limit_seconds=0)
        wait_until(lambda: len(found.manager.view.withheld) == SHARDS // 2, 20, "all DROPs to be repeated")


def test_a_drain_that_does_not_end_is_told_until_it_does(database_url):
    """1. A container that says nothing is drained, at once: it is told to drop, and does not answer. 2. An alert names
    it. 3. It is back and obeys: the alert is over."""
    with cell(database_url, "a", "b", **PATIENT) as found:
        found.kill("a")
        found.client.drain("a", limit_seconds=0)
        wait_until(lambda: found.overdue() == ["a"], 20, "an alert")
        assert found.counts() == {"a": 6, "b": 6}
        found.join("a", incarnation="2")
        found.come_to({"b": SHARDS}, "the drain")
        wait_until(lambda: found.overdue() == [], 20, "the end of the alert")


@pytest.mark.long
def test_a_container_lost_for_long_is_forgotten(database_url):
    """Its shards have gone to others; the live ones stay."""
    with cell(database_url, "a", "b", forget_lost_seconds=1.0) as found:
        found.kill("a")
        wait_until(lambda: [each.name for each in found.client.all_containers()] == ["b"], 20, "its row to go")
        assert found.counts() == {"b": SHARDS}


def test_the_fleet_shows_what_the_shard_manager_placed(database_url):
    """Load, usable capacity and deviation, by the dimensions of the capacity."""
    with cell(database_url, "a", "b") as found:
        wait_until(lambda: all(each.placement for each in found.client.all_containers()), 20, "placements")
        shown = found.client.container("a")
        assert shown.placement is not None
        assert shown.placement.load.keys() == shown.placement.deviation.keys() == shown.placement.usable.keys()
        assert shown.placement.load.keys() >= shown.capacity.keys()
        assert shown.placement.usable["cpu_cores"] == pytest.approx(0.9 * shown.capacity["cpu_cores"])


def test_a_drain_at_its_limit_and_another_shard_count_do_not_hinder_each_other(database_url):
    """1. All that `a` has is to go at once, while shards are brought together to be half as many. 2. Both end."""
    with cell(database_url, "a", "b", "c") as found:
        with transaction(found.engine) as connection:
            ask_for_shards(connection, SHARDS // 2)
        found.client.drain("a", limit_seconds=0)
        found.come_to({"b": 3, "c": 3}, "the drain of half as many shards")
        assert is_so(found.client.container("a")) == ("live", "draining", 0)
