"""What the container is, and how it is at one moment, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.wire.cluster import Capacity, HeartbeatRequest
from services.task_manager.decide.reconcile import Observed


@dataclass(frozen=True, slots=True)
class Identity:
    """What does not change while the process runs: name, address, region, capacity and labels."""

    container: str
    url: str
    region: str
    capacity: Capacity
    labels: Mapping[str, str] = field(default_factory=dict)

    def heartbeat(
        self,
        incarnation: str,
        held: dict[int, int],
        dropped: dict[int, int],
        shard_count: int,
        start_seconds: float | None,
    ) -> HeartbeatRequest:
        """A heartbeat of one incarnation. The arguments are fields of the request."""
        return HeartbeatRequest(
            container=self.container,
            incarnation=incarnation,
            url=self.url,
            region=self.region,
            capacity=self.capacity,
            labels=dict(self.labels),
            held=held,
            dropped=dropped,
            shard_count=shard_count,
            start_seconds=start_seconds,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """The container at one moment, for people and metrics.

    `event_time_skew_seconds` is by task id; tasks whose skew is unknown are missing.
    """

    incarnation: str
    lease_seconds_left: float
    shards: Mapping[int, int]
    version: int
    commit_number: int | None
    observed: Observed
    waiting: int
    totals: Mapping[str, int]
    past_lease_seconds: float
    double_run_seconds: float
    event_time_skew_seconds: Mapping[str, float]
