"""A container's own lease row and its shards, for Task Managers while no Shard Manager answers.

One row of `containers` decides between a container that renews its own lease and the fail-over that declares it lost:
whichever comes first wins. `assignment` says who owns a shard. Every change of an owner takes a new epoch from one
counter. The other writes of both tables are the Shard Manager's (`services.shard_manager.store`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, text

from penstock.control.errors import LeaseLost
from penstock.store.cluster import FACTS, facts_of
from penstock.store.engine import CHANGED_ASSIGNMENT, next_number, notify
from penstock.store.running import RUNNING_COMMIT, UNASKED_STOP
from penstock.tasks.ownership import DRAIN_GRACE, DRAINING, OwnedShards

ASSIGNMENT_COUNTER = "assignment"
Life = tuple[str, str]
"""A container and its incarnation."""

# One statement, so that shards, version and sharding are of one moment.
_OWNED = text(
    f"""
    SELECT counters.value AS version, {FACTS} AS facts, assignment.container, assignment.shard, assignment.epoch,
        (SELECT value FROM counters WHERE name = :commits) AS commit_number,
        (SELECT value FROM counters WHERE name = :stops) AS unasked_stop
    FROM counters LEFT JOIN assignment ON assignment.container = ANY(:containers)
    WHERE counters.name = :counter
    """
)
_REISSUE = text("UPDATE assignment SET epoch = :epoch, moved_at = clock_timestamp() WHERE container = :container")
_LOCK = text("SELECT FROM containers WHERE name = ANY(:containers) ORDER BY name FOR NO KEY UPDATE")
# Functions of the store: the role of Task Managers has no right on the tables that they write.
_TAKE_LEASES = text("SELECT container, life FROM take_leases(:containers, :formers, :lives, :draining, :grace)")
_REISSUE_OWN = text("SELECT reissue_own_shards(:container, :incarnation)")


def renew_own_lease(connection: Connection, container: str, incarnation: str) -> OwnedShards:
    """Renews a container's lease in its own row, which holds off a fail-over, and reads what the container owns.

    The caller counts its lease from before the call. Raises LeaseLost when this incarnation was declared lost or
    replaced, was never registered, or is past its drain (`drain_is_over`). The container must then stop every task and
    start again, empty.
    """
    renewed = renew_leases(connection, [(container, incarnation)])
    if not renewed:
        raise _lost(container)
    return renewed[container, incarnation]


def renew_leases(connection: Connection, lives: Sequence[Life]) -> dict[Life, OwnedShards]:
    """As `renew_own_lease`, for many containers at once, each with its incarnation; those without a lease are
    missing. A container may be named with several incarnations: at most one of them has a lease."""
    if len(lives) > 1:
        lock_containers(connection, [container for container, _ in lives])
    taken = _take_leases(connection, [(container, incarnation, incarnation) for container, incarnation in lives])
    owned = _owned(connection, list(taken))
    return {life: owned[life[0]] for life in taken.items()}


def adopt_own_lease(connection: Connection, container: str, former: str, incarnation: str) -> OwnedShards:
    """As `renew_own_lease`, for a restarted Task Manager that knows its `former` incarnation from its disk.

    The container keeps its shards under new epochs, which fence its former incarnation. The call may be
    repeated. Commits of the running table wait for it: every later commit sees this incarnation. Raises LeaseLost.
    """
    if not _take_leases(connection, [(container, former, incarnation)]):
        raise _lost(container)
    connection.execute(_REISSUE_OWN, {"container": container, "incarnation": incarnation})
    return _owned(connection, [container])[container]


def lock_containers(connection: Connection, containers: Collection[str]) -> None:
    """Locks the rows of containers in order of name. Who writes several of them does this first: two such transactions
    cannot deadlock, whatever order their statements take."""
    connection.execute(_LOCK, {"containers": list(containers)})


def reissue(connection: Connection, container: str) -> None:
    """Gives all shards of a container to it again, under a new epoch. The new number locks out other changes."""
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    connection.execute(_REISSUE, {"epoch": epoch, "container": container})
    notify(connection, CHANGED_ASSIGNMENT)


def _take_leases(connection: Connection, asked: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """`asked`: container, the incarnation that it may replace, and its own. The containers whose lease is renewed, each
    with its incarnation."""
    containers, formers, lives = (list(each) for each in zip(*asked, strict=True)) if asked else ([], [], [])
    values = {"containers": containers, "formers": formers, "lives": lives}
    rule = {"draining": DRAINING, "grace": DRAIN_GRACE}
    return {row.container: row.life for row in connection.execute(_TAKE_LEASES, values | rule)}


def _owned(connection: Connection, containers: Sequence[str]) -> dict[str, OwnedShards]:
    counters = {"counter": ASSIGNMENT_COUNTER, "commits": RUNNING_COMMIT, "stops": UNASKED_STOP}
    rows = connection.execute(_OWNED, {"containers": list(containers), **counters}).all()
    shards: dict[str, dict[int, int]] = {container: {} for container in containers}
    for row in rows:
        if row.container is not None:
            shards[row.container][row.shard] = row.epoch
    first = rows[0]
    sharding = facts_of(first.facts).sharding
    return {
        name: OwnedShards(owned, first.version, sharding, first.commit_number, first.unasked_stop)
        for name, owned in shards.items()
    }


def _lost(container: str) -> LeaseLost:
    return LeaseLost(f"{container} was declared lost or replaced, was never registered, or its drain is over")
