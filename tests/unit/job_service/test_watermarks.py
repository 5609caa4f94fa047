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


def behind(*tasks: TaskView) -> list[float | None]:
    return [task.watermark_behind_seconds for task in with_waiting(tasks)]


def test_a_task_that_has_read_all_and_is_behind_the_others_waits() -> None:
    tasks = with_waiting([task(0, AHEAD), task(1, OPEN), task(2, OPEN)])
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
