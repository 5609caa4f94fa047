"""DS2 (Kalavri et al., "Three steps is all you need", OSDI 2018; `manager.rs` at d72176b4).

The tasks that carry the rate of the source at the true rate of a task, without headroom (scaling factor 0, no
adjustment of the target rate, activation after one decision). One task less is no significant change. Two intervals
of 10 s after a change are ignored: here the minute of the change. It knows no backlog.
"""

from __future__ import annotations

import math

from tests.support.autoscaling.jobs import MAX_TASKS, Job
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks

WARM_UP_MINUTES = 1


def optimal(source_rate: float, true_rate: float, tasks: int) -> int:
    """Tasks for a rate, if each gets through the mean of the present ones."""
    return max(1, math.ceil(source_rate / (true_rate / tasks)))


def is_significant(before: int, after: int) -> bool:
    """Any growth, and a reduction by more than one."""
    return after > before or after < before - 1


class Ds2:
    """True rates alone."""

    def __init__(self, job: Job) -> None:
        pass

    def wanted(self, seen: Seen) -> Wanted:
        if seen.minute - seen.started < WARM_UP_MINUTES or seen.true_rate <= 0:
            return with_tasks(seen, seen.tasks)
        tasks = min(MAX_TASKS, optimal(seen.input_rate, seen.true_rate, seen.tasks))
        return with_tasks(seen, tasks if is_significant(seen.tasks, tasks) else seen.tasks)
