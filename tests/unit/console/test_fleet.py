"""The figures of the fleet, and the table of jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.model.health import Health
from penstock.model.jobs import JobState
from penstock.model.states import JobSort
from penstock.wire.fleet import FleetView, SortedJobs
from penstock.wire.jobs import JobPage, JobSummary
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
    assert [(each.title, each.jobs, each.of, each.share) for each in found] == [
        ("not running", 5, 100, 0.05),
        ("lagging", 10, 100, 0.1),
        ("unhealthy", 30, 100, 0.3),
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
    found = fleet.asked({"prefix": " a ", "state": "synced", "lag": "5m", "sort": "lag", "reverse": "1", "after": "c"})
    assert found == fleet.Asked(
        prefix="a",
        state=JobState.SYNCED,
        lag="5m",
        least_lag_seconds=300,
        sort=JobSort.LAG,
        reverse=True,
        after="c",
    )
    assert found.query() == {"prefix": "a", "state": "synced", "lag": "5m", "sort": "lag", "reverse": "1"}
    assert found.query(after="d")["after"] == "d"


@pytest.mark.parametrize(
    ("query", "needs_count"),
    [
        ({}, False),
        ({"owner": "ann", "topic": "t", "package": "p/1", "state": "synced", "prefix": "a"}, False),
        ({"health": "lagging"}, True),
        ({"lag": "1m"}, True),
        ({"sort": "owner"}, True),
        ({"reverse": "1"}, True),
    ],
)
def test_what_is_decided_job_by_job_needs_a_count(query: dict[str, str], needs_count: bool) -> None:
    assert fleet.asked(query).needs_count == needs_count


def test_a_column_is_sorted_by_a_link_and_then_the_other_way_round() -> None:
    """Names begin with the first of the alphabet, figures with the greatest."""
    wanted = fleet.Asked(sort=JobSort.LAG, owner="ann", after="x")
    assert wanted.sorted_by("lag") == {"owner": "ann", "sort": "lag", "reverse": "1"}
    assert wanted.sorted_by("job") == {"owner": "ann"}
    assert (wanted.direction("lag"), wanted.direction("job")) == ("descending", None)
    back = fleet.Asked(sort=JobSort.LAG, reverse=True)
    assert (back.sorted_by("lag"), back.direction("lag")) == ({"sort": "lag"}, "ascending")
    by_owner = [fleet.Asked(sort=JobSort.OWNER, reverse=reverse).direction("owner") for reverse in (False, True)]
    assert by_owner == ["ascending", "descending"]


@pytest.mark.parametrize("query", [{"state": "x"}, {"health": "x"}, {"sort": "x"}, {"lag": "soon"}, {"lag": "never"}])
def test_a_query_that_makes_no_sense_names_its_field(query: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig) as refused:
        fleet.asked(query)
    assert refused.value.field == next(iter(query))


def test_a_table_follows_the_cursor() -> None:
    table = fleet.by_name(JobPage(jobs=[job("a")], next="cursor"), fleet.Asked(prefix="a"))
    assert (table.first, table.older) == (None, {"prefix": "a", "after": "cursor"})
    found = SortedJobs(at=NOW, complete=False, matching=7, jobs=[], next=None)
    last = fleet.in_order(found, fleet.Asked(health=Health.LAGGING, after="before"))
    assert (last.first, last.older, last.matching, last.complete) == ({"health": "lagging"}, None, 7, False)
