"""Secrets: their names, and the jobs that may use them. The values are not here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from penstock.config.problems import refusal
from penstock.control.errors import Conflict, NotFound, UserError
from penstock.control.texts import first_few
from penstock.model.cell import CellAction, CellEntry
from penstock.model.jobs import Change
from penstock.store.cell_history import record
from penstock.store.rows import columns, read_all
from services.job_service.secret_rules import may_use, secret_problems


@dataclass(frozen=True, slots=True)
class SecretRow:
    """`jobs`: names of jobs that may use it, or beginnings of names with a `*` at the end."""

    name: str
    jobs: Sequence[str]
    author: str
    updated_at: datetime


_ALL = text(f"SELECT {columns(SecretRow)} FROM secrets ORDER BY name")
_HOLD = text("SELECT jobs FROM secrets WHERE name = :name FOR UPDATE")
_PUT = text(
    """
    INSERT INTO secrets (name, jobs, author) VALUES (:name, :jobs, :author)
    ON CONFLICT (name) DO UPDATE SET jobs = excluded.jobs, author = excluded.author, updated_at = now()
    """
)
_DELETE = text("DELETE FROM secrets WHERE name = :name")
# Until the transaction ends none of them is deleted or taken from a job.
_SHARED = text("SELECT name, jobs FROM secrets WHERE name = ANY(:names) ORDER BY name FOR SHARE")
_SHARED_FREE = text("SELECT name FROM secrets WHERE name = ANY(:names) ORDER BY name FOR SHARE SKIP LOCKED")
_READ = text("SELECT name, jobs FROM secrets WHERE name = ANY(:names)")
_NAMES_IT = "jsonb_path_exists({}, '$.secrets.* ? (@ == $name)', jsonb_build_object('name', CAST(:name AS text)))"
# What runs, what is to run by any layer that counts or may come to count again, and what a plan or rollout may bring.
_USERS = text(
    " UNION ".join(
        f"SELECT job FROM {table} WHERE {_NAMES_IT.format(config)}"
        for table, config in (
            ("expected_layers", "config"),
            ("running", "config"),
            ("running", "rollout->'before'->'config'"),
            ("sync_state", "plan->'config'"),
        )
    )
    + " ORDER BY job"
)


def all_secrets(connection: Connection) -> list[SecretRow]:
    """All, by name."""
    return read_all(connection, SecretRow, _ALL)


def put(connection: Connection, name: str, jobs: Sequence[str], author: str, reason: str) -> None:
    """From now on these jobs may use it. Raises Conflict when a job uses it that then might not."""
    before, after = _hold(connection, name), {"jobs": list(jobs)}
    _require_unused(connection, name, jobs)
    if before != after:
        connection.execute(_PUT, {"name": name, "author": author, **after})
        record(connection, CellEntry(author, CellAction.SECRET_GIVEN, name, reason, old=before, new=after))


def delete(connection: Connection, name: str, author: str, reason: str) -> None:
    """Deletes it. Raises NotFound when there is none, and Conflict while a job uses it."""
    before = _hold(connection, name)
    if before is None:
        raise NotFound(f"there is no secret {name}: `penstock secrets list` shows all", field="secret", rule="known")
    _require_unused(connection, name, ())
    connection.execute(_DELETE, {"name": name})
    record(connection, CellEntry(author, CellAction.SECRET_TAKEN, name, reason, old=before))


def take(connection: Connection, changes: Mapping[int, Change]) -> dict[int, UserError]:
    """Which changes, given by position, name a secret that their job may not use. The others' secrets stay theirs until
    the transaction ends."""
    wanted = _wanted(changes)
    known = _known(connection, {name for found in wanted.values() for name in found.values()}, hold=True)
    problems = {at: tuple(secret_problems(changes[at].job, found, known)) for at, found in wanted.items()}
    return {at: refusal(found) for at, found in problems.items() if found}


def busy(connection: Connection, changes: Mapping[int, Change]) -> set[int]:
    """Which changes, given by position, `take` would have to wait with, or would refuse. The others' secrets are locked
    for it."""
    wanted = {at: set(found.values()) for at, found in _wanted(changes).items()}
    names = sorted(set().union(*wanted.values()))
    free = {row.name for row in connection.execute(_SHARED_FREE, {"names": names})} if names else set()
    return {at for at, found in wanted.items() if not found <= free}


def _wanted(changes: Mapping[int, Change]) -> dict[int, dict[str, str]]:
    """The secrets of those changes that name some, by position."""
    return {at: found for at, change in changes.items() if (found := dict((change.merged or {}).get("secrets") or {}))}


def check(connection: Connection, job: str, secrets: Mapping[str, str]) -> None:
    """Raises InvalidConfig when a job may not use secrets that it names, as they are now."""
    problems = tuple(secret_problems(job, secrets, _known(connection, set(secrets.values()), hold=False)))
    if problems:
        raise refusal(problems)


def _known(connection: Connection, names: Collection[str], *, hold: bool) -> dict[str, Any]:
    if not names:
        return {}
    rows = connection.execute(_SHARED if hold else _READ, {"names": sorted(names)})
    return {row.name: row.jobs for row in rows}


def _hold(connection: Connection, name: str) -> dict[str, Any] | None:
    """Who may use it, if there is one. Writes that have begun with the secret are over once its row is held."""
    row = connection.execute(_HOLD, {"name": name}).one_or_none()
    return None if row is None else {"jobs": list(row.jobs)}


def _require_unused(connection: Connection, name: str, jobs: Sequence[str]) -> None:
    users = [row.job for row in connection.execute(_USERS, {"name": name}) if not may_use(row.job, jobs)]
    if users:
        raise Conflict(
            f"the secret {name} is used by {first_few(users)}: take it out of these jobs first, in each layer that "
            "names it, and wait until they run without it",
            field="jobs",
            rule="unused",
        )
