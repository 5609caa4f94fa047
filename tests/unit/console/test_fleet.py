"""The figures of the fleet, and the table of jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.model.health import Health
from penstock.model.jobs import JobState
from penstock.wire.fleet import FleetView
from penstock.wire.jobs import JobSummary
from services.console.views import fleet

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def counted(**health: int) -> FleetView:
    found = {Health(name): count for name, count in health.items()}
    return FleetView(at=NOW, complete=True, jobs=sum(health.values()), health=found, states={}, worst=[])


def job(name: str, **known: Any) -> JobSummary:
    facts: dict[str, Any] = {"owner": "ann", "state": "synced", "revision": 1, "running_revision": 1, "generation": 1}
    return JobSummary(job=name, restarts=0, converged=True, **facts | known)


def test_shares_are_of_the_jobs_that_should_run() -> None:
    found = fleet.figures(counted(healthy=70, lagging=10, crashing=4, held=1, unknown=15, stopped=100).health)
    assert [(each.title, each.jobs, each.share) for each in found] == [
        ("not running", 5, 0.05),
        ("lagging", 10, 0.1),
        ("unhealthy", 30, 0.3),
    ]


def test_without_a_job_that_should_run_a_share_is_unknown() -> None:
    assert [each.share for each in fleet.figures(counted(stopped=3).health)] == [None] * 3


def test_the_bar_is_whole_and_begins_with_the_gravest() -> None:
    found = fleet.segments(counted(healthy=6, crashing=2, lagging=2))
    assert [each.health for each in found] == ["crashing", "lagging", "healthy"]
    assert sum(each.width for each in found) == pytest.approx(1000)
    assert found[1].x == pytest.approx(found[0].width)
    assert fleet.segments(counted()) == []


def test_the_query_says_which_jobs() -> None:
    found = fleet.asked({"prefix": " a ", "state": "synced", "health": "lagging", "sort": "lag", "page": "2"})
    assert (found.prefix, found.state, found.health, found.sort, found.page) == (
        "a",
        JobState.SYNCED,
        "lagging",
        "lag",
        2,
    )
    assert found.query() == {"prefix": "a", "state": "synced", "health": "lagging", "sort": "lag"}
    assert found.query(sort=None, page=3) == {"prefix": "a", "state": "synced", "health": "lagging", "page": "3"}


@pytest.mark.parametrize(
    "query", [{"state": "x"}, {"health": "x"}, {"sort": "x"}, {"page": "0"}, {"page": "x"}, {"page": "9" * 5000}]
)
def test_a_query_that_makes_no_sense_names_its_field(query: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig) as refused:
        fleet.asked(query)
    assert refused.value.field == next(iter(query))


def test_a_table_is_sorted_with_the_unknown_last() -> None:
    jobs = [job("a", lag_seconds=1.0), job("b"), job("c", lag_seconds=9.0), job("d", lag_seconds=9.0)]
    table = fleet.in_order(jobs, None, fleet.Asked(sort="lag"))
    assert [each.job for each in table.jobs] == ["c", "d", "a", "b"]
    by_health = [job("a", health="healthy"), job("b", health="crashing"), job("c", health="lagging")]
    table = fleet.in_order(by_health, None, fleet.Asked(sort="health"))
    assert [each.job for each in table.jobs] == ["b", "c", "a"]


def test_a_sorted_table_has_pages_and_says_what_it_leaves_out() -> None:
    jobs = [job(f"job-{number:03}", revision=number) for number in range(120)]
    table = fleet.in_order(jobs, "more", fleet.Asked(sort="revision", page=2))
    assert [each.revision for each in table.jobs] == list(range(69, 19, -1))
    assert (table.newer, table.older) == ({"sort": "revision", "page": "1"}, {"sort": "revision", "page": "3"})
    assert "first 120" in table.note
    assert fleet.in_order(jobs, None, fleet.Asked(sort="revision", page=3)).older is None


def test_a_table_by_name_follows_the_cursor() -> None:
    table = fleet.by_name([job("a")] * fleet.PAGE, "cursor", fleet.Asked(prefix="a"))
    assert (table.newer, table.older, table.note) == (None, {"prefix": "a", "after": "cursor"}, "")
    short = fleet.by_name([], "cursor", fleet.Asked(health=Health.LAGGING, after="before"))
    assert short.note
    assert short.newer == {"health": "lagging"}
