"""Samples: tables."""

from __future__ import annotations

import pytest

from penstock.model.reports import TaskProgress, TaskState
from services.task_service.samples import least_lag_seconds, sample
from services.task_service.store.rows import ReportedTask


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        pytest.param({}, None, id="nothing known"),
        pytest.param({"oldest_unread_seconds": 12.5}, 12.5, id="at least the age of the oldest record"),
        pytest.param(
            {"oldest_unread_seconds": 90.0, "backlog_records": 600, "processed_rows_per_second": 20.0},
            90.0,
            id="a batch that is not finished takes longer than its backlog should",
        ),
        pytest.param({"backlog_records": 600, "processed_rows_per_second": 20.0}, 30.0, id="backlog by rate"),
        pytest.param(
            {"backlog_records": 600, "processed_rows_per_second": 0.4, "oldest_unread_at_most_seconds": 1340.0},
            1340.0,
            id="no more than the age of the oldest record",
        ),
        pytest.param({"backlog_records": 0}, 0.0, id="no backlog is no lag, whatever the rate"),
        pytest.param({"backlog_records": 600}, None, id="unknown rate"),
        pytest.param({"backlog_records": 600, "processed_rows_per_second": 0.0}, None, id="nothing is worked off"),
        pytest.param({"processed_rows_per_second": 20.0}, None, id="unknown backlog"),
    ],
)
def test_the_least_lag(progress, expected):
    assert least_lag_seconds(TaskProgress(**progress)) == expected


def task(progress: str | None, state: TaskState = TaskState.RUNNING, *, out_of_memory: bool = False) -> ReportedTask:
    return ReportedTask("j", 1, state, out_of_memory, progress)


def test_the_sample_of_a_running_task():
    progress = TaskProgress(backlog_records=10, processed_rows_per_second=5.0, state_rows=3)
    got = sample(task(progress.model_dump_json()))
    assert (got.job, got.index, got.lag_seconds, got.state_rows, got.backlog_bytes) == ("j", 1, 2.0, 3, None)


@pytest.mark.parametrize(("backlogs", "greatest"), [(None, None), ({}, 0), ({"0": 3, "7": 12}, 12)])
def test_the_backlog_of_the_key_group_that_has_most(backlogs: dict[str, int] | None, greatest: int | None) -> None:
    progress = TaskProgress(key_group_backlogs=backlogs).model_dump_json()
    assert sample(task(progress)).key_group_backlog_records == greatest


def test_errors_count_by_class_and_one_of_a_newer_release_as_another() -> None:
    got = sample(task(None, TaskState.CRASHED)._replace(errors={"host": 2, "other": 1, "of the future": 3}))
    assert (got.errors_host, got.errors_other, got.errors_out_of_memory, got.errors_fenced) == (2, 4, 0, 0)


def test_a_load_is_known_of_a_task_that_runs_and_a_count_of_tasks_if_it_is_one():
    used = {"cpu_cores": 0.5, "memory_bytes": 7, "task_count": 3}
    got = sample(task("{}")._replace(crashes=2, **used))
    assert (got.running, got.crashes, got.cpu_cores, got.memory_bytes, got.task_count) == (True, 2, 0.5, 7.0, 3)
    got = sample(task("{}", TaskState.CRASHED)._replace(crashes=3, **used))
    assert (got.running, got.crashes, got.cpu_cores, got.memory_bytes, got.task_count) == (False, 3, None, None, 3)


@pytest.mark.parametrize("broken", ["3", True, -1, 2**31, 1.5, [3]])
def test_a_count_of_tasks_that_is_none_is_unknown(broken):
    assert sample(task("{}")._replace(task_count=broken)).task_count is None


@pytest.mark.parametrize("broken", ["3", True, None, float("inf"), {}])
def test_an_amount_that_is_none_is_unknown(broken):
    assert sample(task("{}")._replace(cpu_cores=broken, memory_bytes=broken)).cpu_cores is None


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.STOPPING, TaskState.CRASHED])
def test_old_progress_of_a_task_that_does_not_run_is_unknown(state):
    got = sample(task('{"backlog_records": 0}', state, out_of_memory=True))
    assert (got.backlog_records, got.lag_seconds, got.out_of_memory) == (None, None, True)


@pytest.mark.parametrize("progress", [None, "[]", '{"backlog_records": "many"}', '{"state_rows": 1e400}'])
def test_what_cannot_be_read_is_unknown(progress):
    got = sample(task(progress))
    assert (got.backlog_records, got.lag_seconds, got.state_rows) == (None, None, None)


def test_a_number_that_no_column_holds_is_unknown_and_the_others_are_kept():
    got = sample(task('{"state_rows": 9223372036854775808, "state_memory_bytes": 7}'))
    assert (got.state_rows, got.state_memory_bytes) == (None, 7)


@pytest.mark.parametrize(("is_of_running", "counts"), [(True, True), (None, True), (False, False)])
def test_a_lack_of_memory_before_a_change_says_nothing_about_it(is_of_running: bool | None, counts: bool) -> None:
    """The task has been given more memory, and has not started with it yet."""
    crashed = task(None, TaskState.CRASHED, out_of_memory=True)._replace(is_of_running=is_of_running)
    assert sample(crashed).out_of_memory is counts
