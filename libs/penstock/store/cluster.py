"""Facts of the cell that every process must agree on."""

from __future__ import annotations

from sqlalchemy import Connection, exists, select, update

from penstock.control.errors import Conflict
from penstock.store.cluster_tables import assignment
from penstock.store.tables import cluster

SHARD_COUNT = "shard_count"


def shard_count(connection: Connection) -> int:
    """The number of shards that tasks are hashed to."""
    return int(connection.execute(select(cluster.c.value).where(cluster.c.key == SHARD_COUNT)).scalar_one())


def set_shard_count(connection: Connection, count: int) -> None:
    """Chooses the number of shards of a new cell. Raises Conflict once shards are assigned: every task would move."""
    if connection.execute(select(exists().select_from(assignment))).scalar_one():
        raise Conflict("the shard count cannot change once shards are assigned", field=SHARD_COUNT, rule="immutable")
    connection.execute(update(cluster).where(cluster.c.key == SHARD_COUNT).values(value=count))
