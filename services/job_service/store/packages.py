"""Packages that are deleted, and writes that take them: one of the two happens first, and the other is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import Connection, text

from penstock.config.model import Package
from penstock.control.errors import Conflict, UserError
from penstock.model.jobs import Change
from penstock.store.health import USES_PACKAGE
from penstock.store.json import as_json

_MOST_NAMED = 5
_BUILTIN = Package().name
Elapsed = Callable[[], float]
"""Seconds since a call began."""
# Writes share the lock, so they do not wait for each other. Any constant will do.
_KEY = 7311938842
_LOCK = text(f"SELECT pg_advisory_xact_lock({_KEY})")
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({_KEY})")
_USERS = text(
    f"""
    SELECT jobs.name FROM jobs LEFT JOIN running ON running.job = jobs.name
        LEFT JOIN sync_state ON sync_state.job = jobs.name
    WHERE {USES_PACKAGE} ORDER BY jobs.name
    """
)
_DELETED = text(
    """
    INSERT INTO package_deletions (name, version, deleted_at) VALUES (:name, :version, clock_timestamp())
    ON CONFLICT (name, version) DO UPDATE SET deleted_at = excluded.deleted_at
    """
)
_FORGET = text("DELETE FROM package_deletions WHERE deleted_at < clock_timestamp() - interval '1 day'")
_SINCE = text(
    """
    SELECT DISTINCT asked.name, asked.version
    FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS asked (name text, version text)
        JOIN package_deletions deleted ON deleted.name = asked.name AND deleted.version = asked.version
    WHERE deleted.deleted_at > clock_timestamp() - make_interval(secs => :seconds)
    """
)


def delete(connection: Connection, name: str, version: str) -> None:
    """From now on no write that has begun may take the version. May be repeated.

    Waits for the writes that are under way. Raises Conflict that names the jobs which use it.
    """
    connection.execute(_LOCK)
    users = list(connection.execute(_USERS, {"package": f"{name}/{version}"}).scalars())
    if users:
        more = f" and {len(users) - _MOST_NAMED} more" if len(users) > _MOST_NAMED else ""
        raise Conflict(
            f"{name} {version} is the package of {', '.join(users[:_MOST_NAMED])}{more}: in a layer, in what runs, or"
            " in what it may go back to. Give the job another package in each layer that names this one, or delete the"
            " job, first",
            field="package",
            rule="unused",
        )
    connection.execute(_FORGET)
    connection.execute(_DELETED, {"name": name, "version": version})


def take(connection: Connection, changes: Mapping[int, Change], elapsed: Elapsed) -> dict[int, UserError]:
    """Which changes, given by position, must not be: their package was deleted since their call began, so perhaps after
    it was checked. Until the transaction ends none of the others' packages is deleted."""
    packages = {position: _package(change.merged) for position, change in changes.items() if change.merged is not None}
    deleted = _deleted(connection, set(packages.values()), elapsed)
    return {position: _refusal(*package) for position, package in packages.items() if package in deleted}


def hold(connection: Connection, config: Mapping[str, Any], elapsed: Elapsed) -> None:
    """As `take`, for a configuration that is no write of a layer. Raises Conflict."""
    for package in _deleted(connection, {_package(config)}, elapsed):
        raise _refusal(*package)


def _package(config: Mapping[str, Any]) -> tuple[str, str]:
    package = config.get("package") or {}
    return package.get("name", _BUILTIN), package.get("version", "")


def _deleted(connection: Connection, packages: Collection[tuple[str, str]], elapsed: Elapsed) -> set[tuple[str, str]]:
    asked = [{"name": name, "version": version} for name, version in packages if name != _BUILTIN]
    if not asked:
        return set()
    connection.execute(_SHARE)
    # Only now: a deletion may have had the lock for a while.
    rows = connection.execute(_SINCE, {"asked": as_json(asked), "seconds": elapsed()})
    return {(row.name, row.version) for row in rows}


def _refusal(name: str, version: str) -> Conflict:
    return Conflict(
        f"package.version: {name} {version} was deleted while this write was made. Name another version; or pack this"
        " one again, and repeat the write",
        field="package.version",
        rule="package_deleted",
    )
