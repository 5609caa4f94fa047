"""Samples: tables."""

from __future__ import annotations

import pytest

from penstock.model.reports import TaskProgress, TaskReport, TaskState
from services.task_service.samples import sample


def report(state: TaskState, progress: TaskProgress | None, **values: object) -> TaskReport:
    identity = {"job": "j", "index": 1, "revision": 1, "generation": 1, "restarts": 0, "epoch": 1}
    return TaskReport.model_validate({**identity, "state": state, "progress": progress, **values})


def test_the_sample_of_a_running_task():
    progress = TaskProgress(backlog_records=10, processed_rows_per_second=5.0, state_rows=3)
    got = sample(report(TaskState.RUNNING, progress))
    assert (got.job, got.index, got.lag_seconds, got.state_rows, got.backlog_bytes) == ("j", 1, 2.0, 3, None)


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.STOPPING, TaskState.CRASHED])
def test_old_progress_of_a_task_that_does_not_run_is_unknown(state):
    got = sample(report(state, TaskProgress(backlog_records=0), out_of_memory=True))
    assert (got.backlog_records, got.lag_seconds, got.out_of_memory) == (None, None, True)
