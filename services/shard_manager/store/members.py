"""SQL of the rows of containers. Their writers are the leader and, for its own lease, each Task Manager.

One row decides between a container that renews its own lease and the fail-over that declares it lost: whichever comes
first wins. The caller checks the leader epoch in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text

from penstock.store.json import as_jsonb
from penstock.store.reports import want_full_reports
from penstock.store.rows import read_all, read_first
from penstock.store.shards import lock_containers, reissue
from penstock.tasks.ownership import Member, Membership, membership

_MEMBERS = """
    SELECT name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state = 'live' AS live,
        further_capacity, labels, availability, drain_until
    FROM containers
"""
_READ = text(_MEMBERS)
_LOCK = text(f"{_MEMBERS} WHERE name = :name FOR UPDATE")
# The availability stays as it is: a restart must not end a cordon (`penstock.store.availability`).
_WRITE = text(
    """
    INSERT INTO containers
        (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, further_capacity, labels, state)
    VALUES (:name, :incarnation, :url, :region, :cpu_cores, :memory_bytes, :disk_bytes, :further_capacity, :labels,
        'live')
    ON CONFLICT (name) DO UPDATE SET
        incarnation = excluded.incarnation, url = excluded.url, region = excluded.region,
        cpu_cores = excluded.cpu_cores, memory_bytes = excluded.memory_bytes, disk_bytes = excluded.disk_bytes,
        further_capacity = excluded.further_capacity, labels = excluded.labels, state = excluded.state,
        registered_at = clock_timestamp(), heartbeat_at = clock_timestamp(), lease_renewed_at = NULL
    """
)
_DELETE_TASKS = text("DELETE FROM tasks WHERE container = ANY(:containers)")
_DELETE_REPORTS = text("DELETE FROM reports WHERE container = ANY(:containers)")

# A container that renewed its own lease within the interval stays live. The times are of the store's clock.
_CANDIDATES = "unnest(CAST(:names AS text[]), CAST(:incarnations AS text[])) AS candidate (name, incarnation)"
_IS_SILENT = """containers.name = candidate.name AND containers.incarnation = candidate.incarnation
      AND containers.state = 'live'
      AND (containers.lease_renewed_at IS NULL
           OR containers.lease_renewed_at < clock_timestamp() - make_interval(secs => :seconds))"""
_SILENT = text(f"SELECT containers.name FROM containers, {_CANDIDATES} WHERE {_IS_SILENT}")
_DECLARE_LOST = text(
    f"UPDATE containers SET state = 'lost' FROM {_CANDIDATES} WHERE {_IS_SILENT} RETURNING containers.name"
)
_REMOVE_LOST = text(
    """
    WITH gone AS (
        SELECT name FROM containers
        WHERE state = 'lost'
          AND greatest(registered_at, heartbeat_at, lease_renewed_at)
              < clock_timestamp() - make_interval(secs => :seconds)
          AND NOT EXISTS (SELECT FROM assignment WHERE assignment.container = containers.name)
        ORDER BY name FOR UPDATE
    )
    DELETE FROM containers USING gone WHERE containers.name = gone.name RETURNING containers.name
    """
)


def read_members(connection: Connection) -> dict[str, Member]:
    """All containers by name, lost ones too."""
    return {member.name: member for member in read_all(connection, Member, _READ)}


def register(connection: Connection, member: Member, *, empty: bool) -> Membership:
    """Writes a container's row as `penstock.tasks.ownership.membership` decides.

    A restarted container keeps its shards under new epochs, which fence the tasks of its former incarnation.
    """
    present = read_first(connection, Member, _LOCK, {"name": member.name})
    decided = membership(present, member.incarnation, empty=empty)
    if decided in (Membership.NEW, Membership.RESTARTED):
        json = {"further_capacity": as_jsonb(dict(member.further_capacity)), "labels": as_jsonb(dict(member.labels))}
        connection.execute(_WRITE, member._asdict() | json)
    if decided is Membership.RESTARTED:
        reissue(connection, member.name)
    return decided


def silent(connection: Connection, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
    """The candidates that `declare_lost` would declare lost now."""
    return set(connection.execute(_SILENT, _of_candidates(candidates, interval_seconds)).scalars())


def declare_lost(connection: Connection, candidates: Mapping[str, str], interval_seconds: float) -> set[str]:
    """Declares containers (name to incarnation) lost; returns the names of those that are lost now.

    A container that renewed its own lease during the last `interval_seconds` stays live. The reported tasks of a lost
    container are deleted: its lease ran out, so none of them runs any more.
    """
    lock_containers(connection, candidates)
    lost = set(connection.execute(_DECLARE_LOST, _of_candidates(candidates, interval_seconds)).scalars())
    want_full_reports(connection, containers=lost)
    connection.execute(_DELETE_TASKS, {"containers": list(lost)})
    return lost


def remove_lost(connection: Connection, older_than_seconds: float) -> set[str]:
    """Deletes lost containers that were silent for so long and own no shard, with their reports; returns their names.

    A container that comes back later is new, and open.
    """
    removed = set(connection.execute(_REMOVE_LOST, {"seconds": older_than_seconds}).scalars())
    if removed:
        connection.execute(_DELETE_REPORTS, {"containers": list(removed)})
        connection.execute(_DELETE_TASKS, {"containers": list(removed)})
    return removed


def _of_candidates(candidates: Mapping[str, str], interval_seconds: float) -> dict[str, Any]:
    names, incarnations = list(candidates.keys()), list(candidates.values())
    return {"names": names, "incarnations": incarnations, "seconds": interval_seconds}
