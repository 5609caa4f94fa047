"""KEDA's Apache Kafka scaler (documentation of 2.15; `kafka_scaler.go` at 005859fc).

Defaults: `lagThreshold` 10 records a pod, the lag counted for no more pods than there are partitions
(`allowIdleConsumers: false`), polled every 30 s; between one and the maximum the HPA scales, by its default
behaviour. The cooldown of 300 s is for the way to zero pods, which a job with state does not go here: at least one.
`KedaFitted` is the same with a threshold that somebody has computed: what a task gets through in one trigger interval.
"""

from __future__ import annotations

from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND, TRIGGER_SECONDS
from tests.support.autoscaling.jobs import KEY_GROUPS, Job
from tests.support.autoscaling.policies.hpa import Behavior, recommended
from tests.support.autoscaling.seen import Seen, Wanted, with_tasks

LAG_THRESHOLD = 10.0


def ratio(lag: float, pods: int, threshold: float, partitions: int = KEY_GROUPS) -> float:
    """The mean lag of a pod over the threshold."""
    return min(lag, partitions * threshold) / (pods * threshold)


class Keda:
    """The lag of the consumer group alone."""

    threshold = LAG_THRESHOLD

    def __init__(self, job: Job) -> None:
        self._behavior = Behavior()

    def wanted(self, seen: Seen) -> Wanted:
        recommendation = recommended(seen.tasks, ratio(seen.broker_lag, seen.tasks, self.threshold))
        return with_tasks(seen, self._behavior.pods(seen.minute, seen.tasks, recommendation))


class KedaFitted(Keda):
    """With a threshold that fits the job."""

    threshold = ROWS_PER_CORE_SECOND * TRIGGER_SECONDS
