"""Jobs in an order: every page of it once, unknown figures last, and no page of another order."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.model.health import Health
from penstock.model.states import JobSort, JobState
from penstock.wire.jobs import JobSummary
from services.job_service.order import Row, Wanted, in_order, page

ROWS = [
    Row("a", "ann", JobState.SYNCED, Health.HEALTHY, 5, 1.0, 10, 3.0),
    Row("b", "bob", JobState.PENDING, Health.CRASHING, 9, None, None, None),
    Row("c", "ann", JobState.SYNCED, Health.LAGGING, 7, 300.0, 0, 0.0),
    Row("d", "cid", JobState.STOPPED, Health.STOPPED, 2, None, None, None),
    Row("e", "bob", JobState.SYNCED, Health.LAGGING, 1, 300.0, 99, 8.0),
]


def names(wanted: Wanted, limit: int) -> str:
    """All pages of this length, one after the other."""
    found, after = "", None
    while True:
        each = page(ROWS, wanted, after, limit)
        found, after = found + "".join(row.job for row in each.rows), each.last
        if after is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
@pytest.mark.parametrize(
    ("sort", "forwards", "backwards"),
    [
        ("job", "abcde", "edcba"),
        ("owner", "acbed", "debca"),
        ("state", "bdace", "ecadb"),
        ("health", "bdcea", "aecdb"),
        ("lag", "ceabd", "aecbd"),
        ("backlog", "eacbd", "caebd"),
        ("rate", "eacbd", "caebd"),
        ("revision", "bcade", "edacb"),
    ],
)
def test_each_order_has_each_job_once(sort: str, forwards: str, backwards: str, limit: int) -> None:
    assert names(Wanted(JobSort(sort)), limit) == forwards
    assert names(Wanted(JobSort(sort), reverse=True), limit) == backwards


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"owner": "ann"}, "ac"),
        ({"state": JobState.SYNCED}, "ace"),
        ({"health": Health.LAGGING}, "ce"),
        ({"least_lag_seconds": 1.0}, "ace"),
        ({"least_lag_seconds": 0.0}, "ace"),
        ({"least_lag_seconds": 301.0}, ""),
        ({"prefix": "c"}, "c"),
        ({"names": {"a", "d", "x"}}, "ad"),
        ({"owner": "bob", "health": Health.LAGGING}, "e"),
    ],
)
def test_filters_go_before_the_order(filters: dict[str, Any], expected: str) -> None:
    assert names(Wanted(**filters), 2) == expected
    assert page(ROWS, Wanted(**filters), None, 1).matching == len(expected)


@pytest.mark.parametrize(
    "place",
    [
        [],
        ["lag", False, "x", "a"],
        ["lag", True, -1.0, "a"],
        ["owner", False, "ann", "a"],
        ["lag", False, -1.0, 3],
        [1],
    ],
)
def test_a_page_of_another_order_is_refused(place: list[Any]) -> None:
    with pytest.raises(InvalidConfig, match="no cursor of this list"):
        page(ROWS, Wanted(JobSort.LAG), place, 3)


def test_jobs_of_now_that_match_no_more_are_left_out() -> None:
    facts: dict[str, Any] = {"owner": "ann", "state": "synced", "revision": 1, "running_revision": 1, "generation": 1}
    jobs = [
        JobSummary(job=name, restarts=0, converged=True, lag_seconds=lag, **facts)
        for name, lag in (("a", 5.0), ("b", None), ("c", 50.0), ("d", 9.0))
    ]
    found = in_order(jobs, Wanted(JobSort.LAG, least_lag_seconds=6.0))
    assert [job.job for job in found] == ["c", "d"]


def test_a_lag_of_nothing_is_a_lag_and_an_unknown_one_is_none() -> None:
    least = Wanted(least_lag_seconds=0.0)
    assert [least.has(ROWS[0]._replace(lag_seconds=lag)) for lag in (0.0, None)] == [True, False]
