"""The Horizontal Pod Autoscaler on CPU, as Kubernetes documents it ("Horizontal Pod Autoscaling", autoscaling/v2).

Defaults: 80 % mean utilisation where no metric is given; tolerance 0.1; no window for growth, at most twice the pods or
four more in 15 s; five minutes of stabilisation for reductions, in which the highest recommendation counts; at least
one pod. It looks every 15 s, but its metrics have the resolution of a minute here, so it decides once a minute. The
CPU of a task is its busy share. CPU before a pod is ready does not count: nor does the minute of a change, here.
"""

from __future__ import annotations

import math
from collections import deque

from tests.support.autoscaling.jobs import MAX_TASKS, Job
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks

TARGET_UTILISATION = 0.8
TOLERANCE = 0.1
GROWTH_FACTOR, GROWTH_PODS = 2, 4
STABILISATION_MINUTES = 5


def recommended(pods: int, ratio: float) -> int:
    """Pods times the ratio of the metric to its target, rounded up; none less and none more within the tolerance."""
    return pods if abs(ratio - 1) <= TOLERANCE else max(1, math.ceil(pods * ratio))


class Behavior:
    """The default behaviour around recommendations, which KEDA leaves to the HPA, too."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, int]] = deque()

    def pods(self, minute: int, pods: int, recommendation: int) -> int:
        """What becomes of a recommendation."""
        self._recent.append((minute, recommendation))
        while self._recent[0][0] <= minute - STABILISATION_MINUTES:
            self._recent.popleft()
        if recommendation > pods:
            return min(MAX_TASKS, recommendation, max(pods * GROWTH_FACTOR, pods + GROWTH_PODS))
        return min(pods, max(one for _, one in self._recent))


class Hpa:
    """CPU utilisation alone."""

    def __init__(self, job: Job) -> None:
        self._behavior = Behavior()

    def wanted(self, seen: Seen) -> Wanted:
        if seen.started == seen.minute:
            return with_tasks(seen, seen.tasks)
        recommendation = recommended(seen.tasks, seen.busy / TARGET_UTILISATION)
        return with_tasks(seen, self._behavior.pods(seen.minute, seen.tasks, recommendation))
