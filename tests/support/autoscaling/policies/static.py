"""Static peak provisioning: an operator who knows the peak of the input gives a fifth more, and leaves it."""

from __future__ import annotations

from tests.support.autoscaling.jobs import MAX_TASKS, Job
from tests.support.autoscaling.score import carried
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks

HEADROOM = 1.2


def peak_tasks(job: Job) -> int:
    """The fewest tasks that carry the highest minute with headroom; backlogs and slow releases are not foreseen."""
    needed = HEADROOM * float(job.trace.rate.max())
    fitting = (tasks for tasks in range(1, MAX_TASKS) if carried(job.weights, tasks) >= needed)
    return next(fitting, MAX_TASKS)


class Static:
    """Never changes anything."""

    def __init__(self, job: Job) -> None:
        pass

    def wanted(self, seen: Seen) -> Wanted:
        return with_tasks(seen, seen.tasks)
