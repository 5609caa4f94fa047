"""Packages that are deleted, and writes that take them: one of the two happens first, and the other is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import OperationalError

from penstock.config.model import Package
from penstock.control.errors import Conflict, UserError
from penstock.control.texts import first_few
from penstock.model.jobs import Change
from penstock.store.engine import present_number
from penstock.store.json import as_json
from penstock.store.package_use import USES_OF_PACKAGE, package_named

_BUILTIN = Package().name
_LOCK_SECONDS = 3
"""So long a deletion waits for the writes that are under way. Writes that begin meanwhile wait behind it."""
MOST_DELETIONS = 1_000
"""As many deletions are remembered at a time."""
Elapsed = Callable[[int], float]
"""Seconds since the call of the change at a position began."""
# Writes share the lock, so they do not wait for each other. Any constant will do.
_KEY = 7311938842
_LIMIT = text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
_LOCK = text(f"SELECT pg_advisory_xact_lock({_KEY})")
_SHARE = text(f"SELECT pg_advisory_xact_lock_shared({_KEY})")
_SHARE_FREE = text(f"SELECT pg_try_advisory_xact_lock_shared({_KEY})")
# What leads to another use without a new revision or commit: a plan, and a package that was rejected.
_CHANGED = """jobs.name = ANY(ARRAY(
        SELECT name FROM jobs WHERE revision > :revision
        UNION SELECT job FROM running WHERE commit_number > :commit_number
        UNION SELECT job FROM sync_state WHERE plan IS NOT NULL
        UNION SELECT job FROM sync_state WHERE rejected IS NOT NULL))"""


def _users(which: str) -> TextClause:
    return text(
        f"""
        SELECT name, uses FROM (
            SELECT jobs.name, ARRAY({USES_OF_PACKAGE}) AS uses
            FROM jobs LEFT JOIN running ON running.job = jobs.name LEFT JOIN sync_state ON sync_state.job = jobs.name
            WHERE {which}) AS found
        WHERE uses <> '{{}}' ORDER BY name
        """
    )


_ALL = _users("true")
_LATER = _users(_CHANGED)
_DELETED = text(
    """
    INSERT INTO package_deletions (name, version, deleted_at) VALUES (:name, :version, clock_timestamp())
    ON CONFLICT (name, version) DO UPDATE SET deleted_at = excluded.deleted_at
    """
)
# No write takes so long.
_FORGET = text("DELETE FROM package_deletions WHERE deleted_at < clock_timestamp() - interval '1 hour'")
_OTHERS = text("SELECT count(*) FROM package_deletions WHERE (name, version) <> (:name, :version)")
_SINCE = text(
    """
    SELECT asked.name, asked.version,
        CAST(extract(epoch FROM clock_timestamp() - deleted.deleted_at) AS double precision) AS seconds
    FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS asked (name text, version text)
        JOIN package_deletions deleted ON deleted.name = asked.name AND deleted.version = asked.version
    """
)


class _User(NamedTuple):
    job: str
    uses: Sequence[str]


def delete(connection: Connection, name: str, version: str) -> None:
    """From now on no write that has begun may take the version. May be repeated.

    All jobs are looked at while writes go on. Then they wait: for the jobs that have changed since, and until the
    transaction ends. Raises Conflict that names the jobs which use it, or says what else stands against it.
    """
    asked: dict[str, Any] = {"package": package_named(name, version)}
    # Taken before the look: it sees all up to these numbers.
    seen = {"revision": present_number(connection, "revision")}
    seen |= {"commit_number": present_number(connection, "running_commit")}
    _require_unused(name, version, [_User(*row) for row in connection.execute(_ALL, asked)])
    _lock(connection, name, version)
    _require_unused(name, version, [_User(*row) for row in connection.execute(_LATER, asked | seen)])
    _remember(connection, name, version)


def share(connection: Connection) -> None:
    """Until the transaction ends no package is deleted."""
    connection.execute(_SHARE)


def take(connection: Connection, changes: Mapping[int, Change], elapsed: Elapsed) -> dict[int, UserError]:
    """Which changes, given by position, must not be: their package was deleted since their call began, so perhaps after
    it was checked. Until the transaction ends none of the others' packages is deleted."""
    packages = _packages(changes)
    since = _deleted(connection, set(packages.values()))
    return {
        position: _refusal(*package)
        for position, package in packages.items()
        if package in since and since[package] < elapsed(position)
    }


def busy(connection: Connection, changes: Mapping[int, Change]) -> set[int]:
    """Which changes, given by position, `take` would have to wait with: while a package is deleted, all with one."""
    packed = {position for position, (name, _) in _packages(changes).items() if name != _BUILTIN}
    return packed if packed and not connection.execute(_SHARE_FREE).scalar_one() else set()


def _packages(changes: Mapping[int, Change]) -> dict[int, tuple[str, str]]:
    return {position: _package(change.merged) for position, change in changes.items() if change.merged is not None}


def hold(connection: Connection, config: Mapping[str, Any], elapsed: Callable[[], float]) -> None:
    """As `take`, for a configuration that is no write of a layer. Raises Conflict."""
    for package, seconds in _deleted(connection, {_package(config)}).items():
        if seconds < elapsed():
            raise _refusal(*package)


def _lock(connection: Connection, name: str, version: str) -> None:
    connection.execute(_LIMIT)
    try:
        connection.execute(_LOCK)
    except OperationalError as error:
        if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise
        raise Conflict(
            f"{name} {version} is not deleted: writes of jobs were under way for {_LOCK_SECONDS} s. Delete it again",
            field="package",
            rule="writes_under_way",
        ) from error


def _require_unused(name: str, version: str, users: Sequence[_User]) -> None:
    if not users:
        return
    named = first_few([f"{user.job} ({', '.join(dict.fromkeys(user.uses))})" for user in users], "; ")
    raise Conflict(
        f"{name} {version} is the package of {named}. Give each job another package in the layers that name this"
        " one, and wait until it runs that; or delete the job",
        field="package",
        rule="unused",
    )


def _remember(connection: Connection, name: str, version: str) -> None:
    """Raises Conflict when too many deletions are remembered."""
    package = {"name": name, "version": version}
    connection.execute(_FORGET)
    if connection.execute(_OTHERS, package).scalar_one() >= MOST_DELETIONS:
        raise Conflict(
            f"{name} {version} is not deleted: {MOST_DELETIONS:,} versions were deleted in the last hour. Try again"
            " later",
            field="package",
            rule="most_deletions",
        )
    connection.execute(_DELETED, package)


def _package(config: Mapping[str, Any]) -> tuple[str, str]:
    package = config.get("package") or {}
    return package.get("name", _BUILTIN), package.get("version", "")


def _deleted(connection: Connection, packages: Collection[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Those of the packages that were deleted, with the seconds since then. No other is until the transaction ends."""
    asked = [{"name": name, "version": version} for name, version in packages if name != _BUILTIN]
    if not asked:
        return {}
    share(connection)
    # Only now: a deletion may have had the lock for a while.
    rows = connection.execute(_SINCE, {"asked": as_json(asked)})
    return {(row.name, row.version): row.seconds for row in rows}


def _refusal(name: str, version: str) -> Conflict:
    return Conflict(
        f"package.version: {name} {version} was deleted after this call began, so the write was not done. Name another"
        " version, or pack this one again and repeat the write",
        field="package.version",
        rule="package_deleted",
    )
