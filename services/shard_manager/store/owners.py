"""SQL of the assignment: who owns which shard.

Every change of an owner takes a new epoch from one counter and names the epoch that it replaces. So a decision on an
old view changes nothing. The caller checks the leader epoch in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, text

from penstock.store.engine import CHANGED_ASSIGNMENT, next_number, notify
from penstock.store.shards import ASSIGNMENT_COUNTER
from penstock.tasks.ownership import Owner

_COUNT = text("SELECT count(*) FROM assignment")
_READ = text("SELECT shard, container, epoch FROM assignment WHERE epoch > :above")
_ADD_SHARDS = text(
    """
    INSERT INTO assignment (shard, container, epoch)
    SELECT shard, NULL, :epoch FROM generate_series(0, :last) AS shard ON CONFLICT DO NOTHING
    """
)
_RECORD_OWNERS = text(
    """
    UPDATE assignment SET container = change.container, epoch = :epoch, moved_at = clock_timestamp()
    FROM unnest(CAST(:shards AS integer[]), CAST(:containers AS text[]), CAST(:epochs AS bigint[]))
         AS change (shard, container, from_epoch)
    WHERE assignment.shard = change.shard AND assignment.epoch = change.from_epoch
    RETURNING assignment.shard, assignment.container
    """
)


class Change(NamedTuple):
    """A new owner for a shard whose present assignment epoch is `from_epoch`; `container` None: no owner."""

    container: str | None
    from_epoch: int


def ensure_shards(connection: Connection, shard_count: int) -> None:
    """Adds the rows of shards that were never assigned, without an owner."""
    if connection.execute(_COUNT).scalar_one() == shard_count:
        return
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    connection.execute(_ADD_SHARDS, {"epoch": epoch, "last": shard_count - 1})


def read_owners(connection: Connection, *, above: int = -1) -> dict[int, Owner]:
    """The owners of all shards whose assignment epoch is greater than `above`.

    Epochs become visible in order, so a reader that asks above its highest known epoch misses no change.
    """
    rows = connection.execute(_READ, {"above": above})
    return {row.shard: Owner(row.container, row.epoch) for row in rows}


def record_owners(connection: Connection, changes: Mapping[int, Change]) -> dict[int, Owner]:
    """Gives shards new owners under one new epoch; returns the shards that were changed.

    A shard whose epoch is no longer `from_epoch` is left alone.
    """
    if not changes:
        return {}
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    values = {
        "epoch": epoch,
        "shards": list(changes.keys()),
        "containers": [change.container for change in changes.values()],
        "epochs": [change.from_epoch for change in changes.values()],
    }
    rows = connection.execute(_RECORD_OWNERS, values).all()
    notify(connection, CHANGED_ASSIGNMENT)
    return {row.shard: Owner(row.container, epoch) for row in rows}
