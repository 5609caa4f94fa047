"""Whether a container takes shards: an operator's word, or the Shard Manager's about a container that fails."""

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
    """Makes a container OPEN, CORDONED or DRAINING (`penstock.tasks.ownership`), lost or not; whether it was done.

    `drain_until` is for DRAINING only. `only_if`: a container that is something else by now is left alone. Said again,
    it replaces reason, author and limit; the moment since when it is so stays. Raises NotFound.
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
