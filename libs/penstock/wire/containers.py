"""Requests about containers and the answers of the Job Service: the fleet, and cordon, drain, uncordon."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from penstock.wire.jobs import View, WithReason

DEFAULT_DRAIN_SECONDS = 600
_LONGEST_DRAIN_SECONDS = 30 * 86_400


class DrainWrite(WithReason):
    """`POST /v1/containers/{container}/drain`."""

    limit_seconds: int | None = Field(
        DEFAULT_DRAIN_SECONDS,
        ge=0,
        le=_LONGEST_DRAIN_SECONDS,
        description="after that time the remaining shards leave at once, even without room elsewhere; null: never",
    )


class PlacementView(View):
    """How full the Shard Manager found a container at a moment: amounts by dimension. A missing dimension is unknown.
    `usable`: capacity less headroom. `deviation`: of the load from the mean of its tier, as a share of that mean."""

    at: datetime
    load: dict[str, float]
    usable: dict[str, float]
    deviation: dict[str, float]


class ContainerView(View):
    """A container. `state`: live, lost. `availability`: open, cordoned, draining, with author, time and reason.
    `drain_until` null: without a limit.

    `capacity`: amounts by dimension, those of `cpu_cores`, `memory_bytes`, `disk_bytes` and `further_capacity`.
    `placement` null: unknown. `shards`: how many it owns; `tasks`: how many it reports; a drained container has none.
    `lease_age_seconds`: since its last heartbeat, or since the container renewed its lease in the store.
    """

    name: str
    url: str
    region: str
    labels: dict[str, str]
    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    further_capacity: dict[str, float]
    capacity: dict[str, float]
    placement: PlacementView | None
    state: str
    availability: str
    drain_until: datetime | None
    availability_reason: str | None
    availability_by: str | None
    availability_at: datetime | None
    registered_at: datetime
    heartbeat_at: datetime
    lease_renewed_at: datetime | None
    lease_age_seconds: float
    shards: int
    tasks: int


class ContainerPage(View):
    """Containers by name."""

    containers: list[ContainerView]
    next: str | None = None
