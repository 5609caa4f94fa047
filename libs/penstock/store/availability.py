"""Whether a container takes shards: set by an operator, or by the Shard Manager for a container that fails."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select, update

from penstock.control.errors import NotFound
from penstock.store.cluster_tables import containers

SHARD_MANAGER = "shard_manager"


def set_availability(
    connection: Connection,
    name: str,
    availability: str,
    *,
    reason: str,
    drain_until: datetime | None = None,
    author: str = SHARD_MANAGER,
    only_if: str | None = None,
) -> bool:
    """Makes a container, live or lost, OPEN, CORDONED or DRAINING (`penstock.tasks.ownership`); whether it changed it.

    `drain_until` is for DRAINING only. `only_if`: changes nothing if the container has another availability by now. A
    repeated call replaces reason, author and limit, and keeps `availability_at`. Raises NotFound.
    """
    row = containers.c
    present = connection.execute(select(row.availability).where(row.name == name).with_for_update()).scalar()
    if present is None:
        raise NotFound(f"there is no container {name}", field="container", rule="known")
    if only_if is not None and present != only_if:
        return False
    values = {
        "availability": availability,
        "drain_until": drain_until,
        "availability_reason": reason,
        "availability_by": author,
    }
    since = {} if present == availability else {"availability_at": func.clock_timestamp()}
    connection.execute(update(containers).where(row.name == name).values(**values, **since))
    return True
