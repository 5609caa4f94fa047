"""One change, from a REST call to a running Spark task, on real processes."""

from __future__ import annotations

import json

import pytest

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from tests.support.stack.rows import RowJob


def test_an_override_reaches_the_tasks_and_ends_by_itself(stack: LocalStack, rows: RowJob):
    """1. Rows flow. 2. An override with an expiry restarts the tasks. 3. It is given less time, and expires by a
    recorded write. 4. The tasks run what they ran before. 5. Every row is there once."""
    rows.send_and_wait()
    hurry = {"trigger_interval_seconds": 0.2}
    with stack.client() as client:
        written = rows.override(hurry, expires_in_seconds=600)
        rows.wait_converged()
        assert client.get_job(rows.name).config["trigger_interval_seconds"] == 0.2
        assert {task.revision for task in client.tasks(rows.name).tasks} == {written.revision}
        rows.send_and_wait()
        rows.override(hurry, expires_in_seconds=1)
        wait_until(lambda: client.get_layer(rows.name, "oncall").config is None, 30, "the override to expire")
        rows.wait_converged()
        assert client.get_job(rows.name).config["trigger_interval_seconds"] == 0.5
        assert [entry.action for entry in client.history(rows.name).entries][:3] == ["expire", "patch", "patch"]
    rows.send_and_wait()
    rows.assert_exact()


def test_every_process_on_the_way_of_a_change_logs_its_revision(stack: LocalStack, rows: RowJob):
    written = rows.change()
    rows.wait_converged()
    processes = {"job_service", "state_syncer", "task_service", "task_manager"}
    # A line may be written just after what it tells of has taken effect elsewhere.
    wait_until(lambda: _that_logged(stack, written.revision) == processes, 10, f"{processes} to log the revision")
    assert _that_logged(stack, written.revision) == processes


@pytest.mark.long
def test_a_stopped_job_runs_no_task_and_goes_on_where_it_was(stack: LocalStack, rows: RowJob):
    rows.send_and_wait()
    stopped = rows.override({"desired_state": "stopped"})
    wait_until(lambda: not rows.containers(), 60, "the tasks to stop")
    rows.send(40)
    with stack.client() as client:
        client.drop_layer(rows.name, "oncall", if_match=stopped.version or 0)
    rows.wait_converged()
    rows.send_and_wait()
    rows.assert_exact()


def _that_logged(stack: LocalStack, revision: int) -> set[str]:
    """The kinds of processes of which one has logged the revision."""
    processes = ["job_service", "state_syncer", "task_service", "task_manager_1", "task_manager_2"]
    return {name.rstrip("_12") for name in processes if revision in _revisions(stack, name)}


def _revisions(stack: LocalStack, process: str) -> set[int]:
    """The revisions that a process has logged; its last line may be half written."""
    *lines, _ = stack.supervisor.log_path(process).read_text().split("\n")
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return {event["revision"] for event in events if "revision" in event}
