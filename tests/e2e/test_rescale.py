"""A stateful job changes its parallelism while rows keep coming and processes die: the result stays exact."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from penstock.local.processes import children_with
from penstock.local.services import HOST_MODULE
from penstock.local.stack import LocalStack
from tests.support.counts import CountJob
from tests.support.session import unique


@pytest.fixture
def counts(stack: LocalStack) -> Iterator[CountJob]:
    """A converged job of two tasks that counts rows by word."""
    job = CountJob(stack, unique("counts"))
    job.create(task_count=2)
    yield job
    job.delete()


def test_a_stateful_job_is_rescaled_exactly_whatever_dies(stack: LocalStack, counts: CountJob):
    """1. Two tasks count. 2. They become four, while the State Syncer is killed. 3. They become three; nothing dies.
    4. They share the traffic as measured: 8, 11, 10 and 11 of 40 words are in the key groups. 5. They become one, while
    the Spark host that redistributes is killed. 6. They become two, while its Task Manager is killed. 7. Every row is
    counted once, no count is sent twice, and only the last generation is not sealed."""
    with counts.fed():
        counts.wait_for_a_count()
        counts.rescale(4)
        counts.wait_step("redistribute")
        _kill(stack.supervisor.pid("state_syncer"))
        counts.wait_runs(4)
        counts.rescale_and_wait(3)
        counts.rebalance_and_wait([2, 3])
        counts.rescale(1)
        for host in children_with(stack.supervisor.pid(_works_for(counts)), [HOST_MODULE]):
            _kill(host.pid)
        counts.wait_runs(1)
        counts.rescale(2)
        _kill(stack.supervisor.pid(_works_for(counts)))
        counts.wait_runs(2)
    counts.wait_counted()
    counts.assert_exact()
    *before, last = counts.checkpoints.generations()
    assert [number for number in before if not counts.checkpoints.is_over(number)] == []
    assert not counts.checkpoints.is_over(last)


def test_a_job_goes_back_to_a_savepoint_at_another_size(counts: CountJob):
    """1. A savepoint after 400 rows. 2. More rows. 3. Back to it, with three tasks: what came after is counted again,
    on top of what the savepoint had, and every row is counted once."""
    counts.send(400)
    counts.save("before")
    counts.send(200)
    counts.restore("before", task_count=3)
    counts.send(80)
    counts.assert_counted_again_from(400)


def _works_for(counts: CountJob) -> str:
    """The Task Manager that redistributes."""
    return str(counts.wait_step("redistribute").plan["container"])


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
