"""Containers and who owns which shard: the truth that the Shard Manager and Task Managers share.

`containers` says who is alive: one row decides between a container that renews its lease by itself and the fail-over
that would declare it lost, whichever comes first. `assignment` says who owns a shard; every change of it takes a new
epoch from one counter and names the epoch it replaces, so a decision on an old view changes nothing.
Writes of the Shard Manager are fenced by its leader epoch (`leases.check_epoch`, in the same transaction).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, Select, delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from penstock.control.errors import LeaseLost
from penstock.store.cluster import FACTS, facts_of
from penstock.store.cluster_tables import assignment, containers, tasks
from penstock.store.engine import CHANGED_ASSIGNMENT, next_number, notify, present_number
from penstock.store.running import RUNNING_COMMIT
from penstock.tasks.ownership import DRAIN_GRACE, DRAINING, Member, Membership, Owner, membership
from penstock.tasks.shards import Sharding

ASSIGNMENT_COUNTER = "assignment"
# What a container that registers does not write: a restart must not end a cordon (`penstock.store.availability`).
_KEPT = ("live", "availability", "drain_until")


class Change(NamedTuple):
    """A new owner for a shard whose present assignment epoch is `from_epoch`."""

    container: str | None
    from_epoch: int


class OwnLease(NamedTuple):
    """What a container owns (shard to epoch) by the store, the highest assignment number at that moment, how tasks
    are shared out to shards at that moment, and the newest commit of the running table."""

    shards: dict[int, int]
    version: int
    sharding: Sharding
    commit_number: int


# ---- membership


def register(connection: Connection, member: Member, *, empty: bool) -> Membership:
    """Writes a container's row as `membership` decides.

    A restarted container keeps its shards, under new epochs: what its former life left behind is fenced.
    """
    row = connection.execute(_select_members().where(containers.c.name == member.name).with_for_update()).first()
    decided = membership(None if row is None else _member(row), member.incarnation, empty=empty)
    if decided in (Membership.NEW, Membership.RESTARTED):
        _write_member(connection, member)
    if decided is Membership.RESTARTED:
        _reissue(connection, member.name)
    return decided


def _write_member(connection: Connection, member: Member) -> None:
    values = {key: value for key, value in member._asdict().items() if key not in _KEPT}
    values |= {"further_capacity": dict(member.further_capacity), "labels": dict(member.labels)}
    statement = insert(containers).values(**values, state="live")
    again: dict[str, Any] = {key: statement.excluded[key] for key in (*values, "state")}
    again |= {"registered_at": func.clock_timestamp(), "heartbeat_at": func.clock_timestamp(), "lease_renewed_at": None}
    connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=again))


def read_members(connection: Connection) -> dict[str, Member]:
    """All containers by name, lost ones too."""
    return {row.name: _member(row) for row in connection.execute(_select_members())}


def declare_lost(connection: Connection, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
    """Declares containers (name to incarnation) lost; the names of those that are lost now.

    One that renewed its lease here during the last `interval_seconds` (the store's clock) stays live. What a lost
    container last reported is forgotten with it: its lease ran out, so nothing of that runs any more.
    """
    statement = text(
        """
        UPDATE containers SET state = 'lost'
        FROM unnest(CAST(:names AS text[]), CAST(:incarnations AS text[])) AS candidate (name, incarnation)
        WHERE containers.name = candidate.name AND containers.incarnation = candidate.incarnation
          AND containers.state = 'live'
          AND (containers.lease_renewed_at IS NULL
               OR containers.lease_renewed_at < clock_timestamp() - make_interval(secs => :seconds))
        RETURNING containers.name
        """
    )
    values = {
        "names": list(candidates.keys()),
        "incarnations": list(candidates.values()),
        "seconds": interval_seconds,
    }
    lost = set(connection.execute(statement, values).scalars())
    connection.execute(delete(tasks).where(tasks.c.container.in_(lost)))
    return lost


def save_heartbeats(connection: Connection, heard_at: Mapping[str, datetime]) -> None:
    """Writes when containers were last heard of, for people."""
    statement = text(
        """
        UPDATE containers SET heartbeat_at = heard.at
        FROM unnest(CAST(:names AS text[]), CAST(:times AS timestamptz[])) AS heard (name, at)
        WHERE containers.name = heard.name AND containers.heartbeat_at < heard.at
        """
    )
    connection.execute(statement, {"names": list(heard_at.keys()), "times": list(heard_at.values())})


def save_placements(connection: Connection, placements: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes what containers (by name) were given shards by, as JSON for people; other containers are not changed."""
    statement = text(
        """
        UPDATE containers SET placement = placed.placement
        FROM json_to_recordset(CAST(:rows AS json)) AS placed (name text, placement jsonb)
        WHERE containers.name = placed.name
        """
    )
    rows = [{"name": name, "placement": placement} for name, placement in placements.items()]
    connection.execute(statement, {"rows": orjson.dumps(rows).decode()})


# ---- assignment


def ensure_shards(connection: Connection, shard_count: int) -> None:
    """Adds the rows of shards that were never assigned: nobody owns them yet."""
    known = connection.execute(select(func.count()).select_from(assignment)).scalar_one()
    if known == shard_count:
        return
    statement = text(
        """
        INSERT INTO assignment (shard, container, epoch)
        SELECT shard, NULL, :epoch FROM generate_series(0, :last) AS shard ON CONFLICT DO NOTHING
        """
    )
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    connection.execute(statement, {"epoch": epoch, "last": shard_count - 1})


def read_owners(connection: Connection, *, above: int = -1) -> dict[int, Owner]:
    """The owners of all shards whose assignment epoch is greater than `above`.

    Epochs are seen in order, so reading above the highest one known misses no change.
    """
    columns = (assignment.c.shard, assignment.c.container, assignment.c.epoch)
    rows = connection.execute(select(*columns).where(assignment.c.epoch > above))
    return {row.shard: Owner(row.container, row.epoch) for row in rows}


def record_owners(connection: Connection, changes: Mapping[int, Change]) -> dict[int, Owner]:
    """Gives shards new owners under one new epoch; those that were changed.

    A shard whose epoch is no longer the one that its change replaces is left alone.
    """
    if not changes:
        return {}
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    statement = text(
        """
        UPDATE assignment SET container = change.container, epoch = :epoch, moved_at = clock_timestamp()
        FROM unnest(CAST(:shards AS integer[]), CAST(:containers AS text[]), CAST(:epochs AS bigint[]))
             AS change (shard, container, from_epoch)
        WHERE assignment.shard = change.shard AND assignment.epoch = change.from_epoch
        RETURNING assignment.shard, assignment.container
        """
    )
    values = {
        "epoch": epoch,
        "shards": list(changes.keys()),
        "containers": [change.container for change in changes.values()],
        "epochs": [change.from_epoch for change in changes.values()],
    }
    rows = connection.execute(statement, values).all()
    notify(connection, CHANGED_ASSIGNMENT)
    return {row.shard: Owner(row.container, epoch) for row in rows}


def read_assignment(connection: Connection, container: str) -> dict[int, int]:
    """The shards that a container owns, with their assignment epochs."""
    return _own_lease(connection, container).shards


# ---- a container's own lease row, for when no Shard Manager answers


def renew_own_lease(connection: Connection, container: str, incarnation: str) -> OwnLease:
    """Holds a fail-over off by the container's own row, and reads what the container owns.

    The caller counts its lease from before the call. Raises LeaseLost when this incarnation was declared lost or
    replaced, was never registered, or had to be empty by now (`drain_is_over`): it must stop everything and start anew,
    empty.
    """
    _take_own_lease(connection, container, (incarnation,), incarnation)
    return _own_lease(connection, container)


def adopt_own_lease(connection: Connection, container: str, former: str, incarnation: str) -> OwnLease:
    """As `renew_own_lease`, for a Task Manager that was restarted and knows its `former` incarnation from its disk.

    The shards stay, under new epochs, so that what the former life left behind is fenced. May be repeated, should the
    answer have been lost. Commits wait meanwhile: whoever stops a job by a later one sees this life. Raises LeaseLost.
    """
    _take_own_lease(connection, container, (former, incarnation), incarnation)
    _reissue(connection, container)
    present_number(connection, RUNNING_COMMIT, hold=True)
    return _own_lease(connection, container)


def _take_own_lease(connection: Connection, container: str, lives: tuple[str, ...], incarnation: str) -> None:
    row = containers.c
    is_mine = (row.name == container) & row.incarnation.in_(lives) & (row.state == "live")
    may_go_on = or_(
        row.availability != DRAINING, row.drain_until.is_(None), row.drain_until > func.clock_timestamp() - DRAIN_GRACE
    )
    renewed = {"incarnation": incarnation, "lease_renewed_at": func.clock_timestamp()}
    if connection.execute(update(containers).where(is_mine, may_go_on).values(renewed)).rowcount != 1:
        raise LeaseLost(f"{container} was declared lost or replaced, was never registered, or its drain is over")


def _own_lease(connection: Connection, container: str) -> OwnLease:
    """One statement, so that shards, version and sharding are of one moment."""
    statement = text(
        f"""
        SELECT counters.value AS version, {FACTS} AS facts, assignment.shard, assignment.epoch,
            (SELECT value FROM counters WHERE name = :commits) AS commit_number
        FROM counters LEFT JOIN assignment ON assignment.container = :container
        WHERE counters.name = :counter
        """
    )
    values = {"container": container, "counter": ASSIGNMENT_COUNTER, "commits": RUNNING_COMMIT}
    rows = connection.execute(statement, values).all()
    shards = {row.shard: row.epoch for row in rows if row.shard is not None}
    return OwnLease(shards, rows[0].version, facts_of(rows[0].facts).sharding, rows[0].commit_number)


def _reissue(connection: Connection, container: str) -> None:
    """Gives a container's shards to it anew; all of them, as the number keeps others from changing any."""
    epoch = next_number(connection, ASSIGNMENT_COUNTER)
    is_mine = assignment.c.container == container
    connection.execute(update(assignment).where(is_mine).values(epoch=epoch, moved_at=func.clock_timestamp()))
    notify(connection, CHANGED_ASSIGNMENT)


def _select_members() -> Select[Any]:
    row = containers.c
    own = [row[name] for name in Member._fields if name != "live"]
    return select(*own, (row.state == "live").label("live"))


def _member(row: Row[Any]) -> Member:
    return Member(**row._mapping)
