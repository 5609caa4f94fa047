"""A container's own lease row and its shards, for Task Managers while no Shard Manager answers.

One row of `containers` decides between a container that renews its own lease and the fail-over that declares it lost:
whichever comes first wins. `assignment` says who owns a shard. Every change of an owner takes a new epoch from one
counter. The other writes of both tables are the Shard Manager's (`services.shard_manager.store`).
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from penstock.control.errors import LeaseLost
from penstock.store.cluster import FACTS, facts_of
from penstock.store.engine import CHANGED_ASSIGNMENT, next_number, notify
from penstock.store.running import RUNNING_COMMIT
from penstock.tasks.ownership import DRAIN_GRACE, DRAINING, OwnedShards

ASSIGNMENT_COUNTER = "assignment"

# One statement, so that shards, version and sharding are of one moment.
_OWN_LEASE = text(
    f"""
    SELECT counters.value AS version, {FACTS} AS facts, assignment.shard, assignment.epoch,
        (SELECT value FROM counters WHERE name = :commits) AS commit_number
    FROM counters LEFT JOIN assignment ON assignment.container = :container
    WHERE counters.name = :counter
    """
)
_REISSUE = text("UPDATE assignment SET epoch = :epoch, moved_at = clock_timestamp() WHERE container = :container")
# Functions of the store: the role of Task Managers has no right on the tables that they write.
_TAKE_OWN_LEASE = text("SELECT take_own_lease(:container, :lives, :incarnation, :draining, :grace)")
_REISSUE_OWN = text("SELECT reissue_own_shards(:container, :incarnation)")


def renew_own_lease(connection: Connection, container: str, incarnation: str) -> OwnedShards:
    """Renews a container's lease in its own row, which holds off a fail-over, and reads what the container owns.

    The caller counts its lease from before the call. Raises LeaseLost when this incarnation was declared lost or
    replaced, was never registered, or is past its drain (`drain_is_over`). The container must then stop every task and
    start again, empty.
    """
    _take_own_lease(connection, container, (incarnation,), incarnation)
    return _own_lease(connection, container)


def adopt_own_lease(connection: Connection, container: str, former: str, incarnation: str) -> OwnedShards:
    """As `renew_own_lease`, for a restarted Task Manager that knows its `former` incarnation from its disk.

    The container keeps its shards under new epochs, which fence its former incarnation. The call may be
    repeated. Commits of the running table wait for it: every later commit sees this incarnation. Raises LeaseLost.
    """
    _take_own_lease(connection, container, (former, incarnation), incarnation)
    connection.execute(_REISSUE_OWN, {"container": container, "incarnation": incarnation})
    return _own_lease(connection, container)


def reissue(connection: Connection, container: str) -> None:
    """Gives all shards of a container to it again, under a new epoch. The new number locks out other changes."""
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    connection.execute(_REISSUE, {"epoch": epoch, "container": container})
    notify(connection, CHANGED_ASSIGNMENT)


def _take_own_lease(connection: Connection, container: str, lives: tuple[str, ...], incarnation: str) -> None:
    values = {"container": container, "lives": list(lives), "draining": DRAINING, "grace": DRAIN_GRACE}
    if not connection.execute(_TAKE_OWN_LEASE, {"incarnation": incarnation, **values}).scalar_one():
        raise LeaseLost(f"{container} was declared lost or replaced, was never registered, or its drain is over")


def _own_lease(connection: Connection, container: str) -> OwnedShards:
    values = {"container": container, "counter": ASSIGNMENT_COUNTER, "commits": RUNNING_COMMIT}
    rows = connection.execute(_OWN_LEASE, values).all()
    shards = {row.shard: row.epoch for row in rows if row.shard is not None}
    return OwnedShards(shards, rows[0].version, facts_of(rows[0].facts).sharding, rows[0].commit_number)
