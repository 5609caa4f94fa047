"""A stateful job changes its parallelism while rows keep coming: the result stays exact.

With faults meanwhile, and so in `make test`: `test_chaos`. With a crash at each step: `test_crashes`. Several jobs at
once: `test_benches`.
"""

from __future__ import annotations

import pytest

from penstock.local.stack import LocalStack
from tests.support.spark.session import unique
from tests.support.stack.counts import CountJob
from tests.support.stack.folder_counts import FolderCountJob


@pytest.mark.long
def test_a_stateful_job_is_rescaled_exactly(counts: CountJob):
    """1. Tasks count. 2. They become three while rows keep coming. 3. They share the traffic as it was measured: 8,
    11, 10 and 11 of 40 words are in the key groups. 4. They become one. 5. Every row is counted once, no count is sent
    twice, and only the last generation is not sealed. Crashes meanwhile: `test_crashes`."""
    if counts.size() == 3:
        counts.rescale_and_wait(2)
    with counts.fed():
        counts.wait_for_a_count()
        counts.rescale_and_wait(3)
        counts.rebalance_and_wait([2, 3])
        counts.rescale_and_wait(1)
    counts.wait_counted()
    counts.assert_exact()
    *before, last = counts.checkpoints.generations()
    assert [number for number in before if not counts.checkpoints.is_over(number)] == []
    assert not counts.checkpoints.is_over(last)


@pytest.mark.long
@pytest.mark.parametrize(("job", "name"), [(CountJob, "saved"), (FolderCountJob, "folder")])
def test_a_job_goes_back_to_a_savepoint_at_another_size(stack: LocalStack, job: type[CountJob], name: str):
    """1. A savepoint after 400 rows. 2. More rows. 3. Back to it, with three tasks: what came after is counted again,
    on top of what the savepoint had, and every row is counted once."""
    counts = job(stack, unique(name))
    counts.create(task_count=2)
    counts.send(400)
    counts.save("before")
    counts.send(200)
    counts.restore("before", task_count=3)
    counts.wait_counted_again()
    counts.send(80)
    counts.assert_counted_again_from(400)
    counts.delete()


@pytest.mark.long
def test_a_job_over_a_folder_of_files_is_rescaled_exactly(stack: LocalStack):
    """1. Two tasks read their key groups of a stream. 2. They become three while files keep coming, then one. 3. Every
    row is counted once, and no count is sent twice."""
    counts = FolderCountJob(stack, unique("folder"))
    counts.create(task_count=2)
    with counts.fed(pause_s=0.3):
        counts.wait_for_a_count()
        counts.rescale_and_wait(3)
        counts.rescale_and_wait(1)
    counts.wait_counted()
    counts.assert_exact()
    counts.delete()
