"""Many jobs that change their size at the same moment, through the whole stack: `tests.bench.rescale --concurrent 20`.

Each job counts rows by word with 2 tasks and goes to 3, on two containers, while rows keep coming. First one alone,
then all at once. A job is down from the last commit of its old tasks to the first of its new ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from penstock.local.stack import LocalStack
from tests.bench.report import percentile, say, temporary_stack
from tests.support.stack.counts import Change, CountJob

TRIGGER_S = 5.0
PAUSE_S = 1.0
SIZES = (2, 3)
# The budget is for tens of thousands of jobs: of a few, a tenth is one or two.
ENVIRONMENT = {"PENSTOCK_STATE_SYNCER_BLAST_SHARE": "1"}


def concurrent(count: int) -> dict[str, float]:
    """`measure` of one job alone, and of `count` jobs, on a stack of their own."""
    with temporary_stack(task_managers=2, environment=ENVIRONMENT) as stack:
        alone = measure(stack, "alone", 1, TRIGGER_S)
        return {"alone_downtime_s": alone["downtime_max_s"], "alone_s": alone["all_s"]} | measure(
            stack, "many", count, TRIGGER_S
        )


def measure(
    stack: LocalStack, prefix: str, count: int, trigger_s: float, sizes: tuple[int, int] = SIZES
) -> dict[str, float]:
    """The figures, in seconds, of `count` jobs that are asked at once; their names begin with `prefix`. `sizes`: tasks
    of each, before and after."""
    before, after = sizes
    changes = _changed(_running(stack, prefix, count, before, trigger_s), after)
    down = [change.down_s for change in changes]
    return {
        "jobs": count,
        "downtime_p50_s": percentile(down, 0.5),
        "downtime_max_s": max(down),
        "all_s": max(change.seconds for change in changes),
    }


def _running(stack: LocalStack, prefix: str, count: int, task_count: int, trigger_s: float) -> list[CountJob]:
    jobs = [CountJob(stack, f"{prefix}-{number}") for number in range(count)]
    for job in jobs:
        job.create(task_count, trigger_s)
    say(f"{count} jobs of {task_count} tasks run")
    return jobs


def _changed(jobs: Sequence[CountJob], task_count: int) -> list[Change]:
    with ExitStack() as feeding:
        for job in jobs:
            feeding.enter_context(job.fed(PAUSE_S))
        for job in jobs:
            job.wait_for_a_count()
        before = [job.generation() for job in jobs]
        asked_at = time.time()
        for job in jobs:
            job.rescale(task_count)
        changes = [job.wait_changed(old, asked_at, task_count) for job, old in zip(jobs, before, strict=True)]
    for job in jobs:
        job.wait_counted()
        job.assert_exact()
        job.delete()
    return changes
