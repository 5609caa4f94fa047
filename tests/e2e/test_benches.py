"""Small forms of the benches that need a stack: what they measure is reached, and figures come out."""

from __future__ import annotations

import pytest

from penstock.local.jars import share_dir
from penstock.local.services import task_manager_name
from penstock.local.stack import LocalStack
from tests.bench import change_latency, failover, overhead, rescale_busy, rescale_many, submissions
from tests.support.bench.figures import unmeasured
from tests.support.spark.hosts import INTERPRETED
from tests.support.spark.session import CHECKPOINTS, quick_jvm_settings
from tests.support.stack.rows import RowJob


def test_change_latency(stack: LocalStack):
    figures = change_latency.measure(stack, changes=2, warm=0)
    assert unmeasured(figures) == set()
    assert figures["changes"] == 2


def test_submissions(stack: LocalStack):
    """Stopped jobs, for the containers of the tests are not to run them."""
    assert unmeasured(submissions.measure(stack, 20, desired_state="stopped")) == set()


def test_overhead(stack: LocalStack):
    """The bare driver starts as the tests' hosts do: both live for seconds."""
    files = {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS}
    quick = {**quick_jvm_settings(share_dir() / "jars"), **INTERPRETED, **files}
    figures = overhead.measure(stack, 0, overhead.Sizes(rows=400, limit=200, counted=1), quick)
    assert unmeasured(figures) == set()
    assert figures["ratio"] > 0


def test_rescale_of_many_jobs(stack: LocalStack):
    figures = rescale_many.measure(stack, "many", 2, trigger_s=0.5, sizes=(1, 2))
    assert unmeasured(figures) == set()
    assert figures["jobs"] == 2


@pytest.mark.long
def test_a_rescale_beside_busy_processes(stack: LocalStack):
    figures = rescale_busy.measure(stack, rescale_busy.CASES, burners=1)
    assert [unmeasured(each) for each in figures.values()] == [set(), set()]
    assert {each["attempts"] for each in figures.values()} == {1}


def test_the_tasks_of_a_dead_container_go_on_elsewhere(stack: LocalStack, rows: RowJob):
    """1. Rows are counted, and copied. 2. The Task Manager with the most tasks is killed and stays away. 3. Each of its
    tasks commits elsewhere, and every row is counted once. 4. The Task Manager comes back as a new and empty container.
    Rows that come then are there once."""
    rows.send_and_wait()
    seconds = failover.measure(stack, kills=1, job_count=1)
    assert seconds
    assert min(seconds) > 0
    with stack.client() as client:
        assert {view.state for view in client.containers().containers} == {"live"}
    rows.send_and_wait()
    rows.assert_exact()
    assert rows.containers() <= {task_manager_name(1), task_manager_name(2)}
