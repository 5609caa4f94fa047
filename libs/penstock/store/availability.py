"""Whether a container takes shards: set by an operator, or by the Shard Manager for a container that fails."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

from penstock.control.errors import NotFound
from penstock.model.cell import CellAction, CellEntry
from penstock.store.cell_history import record
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN

SHARD_MANAGER = "shard_manager"
_ACTIONS = {
    OPEN: CellAction.CONTAINER_UNCORDONED,
    CORDONED: CellAction.CONTAINER_CORDONED,
    DRAINING: CellAction.CONTAINER_DRAINED,
}

_PRESENT = text("SELECT availability FROM containers WHERE name = :name FOR UPDATE")
_SET = text(
    """
    UPDATE containers SET availability = :availability, drain_until = :drain_until, availability_reason = :reason,
        availability_by = :author,
        availability_at = CASE WHEN availability = :availability THEN availability_at ELSE clock_timestamp() END
    WHERE name = :name
    """
)


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
    repeated call replaces reason, author and limit, and keeps `availability_at`. It is recorded in the history of the
    cell. Raises NotFound.
    """
    present = connection.execute(_PRESENT, {"name": name}).scalar()
    if present is None:
        raise NotFound(f"there is no container {name}", field="container", rule="known")
    if only_if is not None and present != only_if:
        return False
    values = {"name": name, "availability": availability, "drain_until": drain_until}
    connection.execute(_SET, {**values, "reason": reason, "author": author})
    sides = {"old": {"availability": present}, "new": {"availability": availability, "drain_until": drain_until}}
    record(connection, CellEntry(author, _ACTIONS[availability], name, reason, **sides))
    return True
