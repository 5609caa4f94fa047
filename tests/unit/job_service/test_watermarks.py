"""Tasks whose last windows wait for newer rows: which these are, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.jobs import waiting_lines
from penstock.wire.overview import TaskView
from services.job_service.watermarks import with_waiting

OPEN = {"watermark": "2024-01-01T00:00:00.000Z", "backlog_records": 0, "state_rows": 3}
AHEAD = {"watermark": "2024-01-01T01:00:00.000Z", "backlog_records": 9, "state_rows": 3}


def task(index: int, progress: dict[str, Any] | None, **facts: Any) -> TaskView:
    usual = {"shard": 1, "expected": True, "owner": "a", "state": "running"}
    return TaskView.model_validate({"task": f"etl/{index}", "index": index, "progress": progress, **usual, **facts})


def behind(*tasks: TaskView, **config: Any) -> list[float | None]:
    return [task.watermark_behind_seconds for task in with_waiting(tasks, config)]


def test_a_task_that_has_read_all_and_is_behind_the_others_waits() -> None:
    tasks = with_waiting([task(0, AHEAD), task(1, OPEN), task(2, OPEN)], {})
    assert [each.watermark_behind_seconds for each in tasks] == [None, 3600.0, 3600.0]
    (line,) = waiting_lines(tasks)
    assert line.startswith("etl/1, etl/2: all rows are read, and the watermark is up to 3,600 s behind")
    assert "idle_timeout_seconds" in line
    assert list(waiting_lines([task(0, AHEAD)])) == []


@pytest.mark.parametrize(
    "other",
    [
        {"backlog_records": 1},
        {"backlog_records": None},
        {"state_rows": 0},
        {"state_rows": None},
        {"watermark": None},
        {"watermark": "1970-01-01T00:00:00.000Z"},
        {"watermark": "2024-01-01T00:59:30.000Z"},
        {"watermark": "soon"},
    ],
)
def test_a_task_that_reads_or_keeps_nothing_or_of_which_something_is_unknown_does_not(other: dict[str, Any]) -> None:
    assert behind(task(0, AHEAD), task(1, {**OPEN, **other})) == [None, None]


@pytest.mark.parametrize("facts", [{"state": "lost"}, {"state": "crashed"}, {"expected": False}, {"progress": None}])
def test_only_tasks_that_run_are_compared(facts: dict[str, Any]) -> None:
    assert behind(TaskView.model_validate(vars(task(0, AHEAD)) | facts), task(1, OPEN)) == [None, None]
    assert behind(task(0, OPEN)) == [None]


@pytest.mark.parametrize(
    ("name", "value", "is_named"),
    [
        ("trigger_interval_seconds", 1200.0, True),
        ("trigger_interval_seconds", 1201.0, False),
        ("inputs", {"a": {"idle_timeout_seconds": 3601.0}, "b": {}}, False),
        ("inputs", {"a": {"idle_timeout_seconds": None, "watermark_delay": "1 hour"}}, True),
        ("inputs", {"a": {}, "b": {"watermark_delay": "61 minutes"}}, False),
    ],
)
def test_so_far_behind_as_the_job_always_may_be_is_not_waiting(name: str, value: Any, is_named: bool) -> None:
    assert behind(task(0, AHEAD), task(1, OPEN), **{name: value}) == [None, 3600.0 if is_named else None]


@pytest.mark.parametrize(
    ("config", "is_named"),
    [
        ({"query": {"sql": "SELECT DISTINCT a FROM t"}}, False),
        ({"query": {"sql": "SELECT count(*) FROM t GROUP BY window(at, '1 hour')"}}, True),
        ({"query": {"sql": "SELECT x.a FROM t x JOIN u y ON x.a = y.a"}}, True),
        ({"query": {"sql": "SELECT ("}}, True),
        ({"query": {"sql": None, "python": "jobs:main"}}, True),
        ({"query": {"python": "jobs:main"}, "output_mode": "update"}, False),
    ],
)
def test_only_a_query_that_may_keep_rows_for_the_watermark_waits(config: dict[str, Any], is_named: bool) -> None:
    assert behind(task(0, AHEAD), task(1, OPEN), **config) == [None, 3600.0 if is_named else None]
