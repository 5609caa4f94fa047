"""What the Job Service asks of profiles: that one is made, and to list them. The State Syncer has that done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict
from penstock.store.engine import CHANGED_EXPECTED, notify
from penstock.store.json import as_jsonb
from penstock.store.profiles import ProfileRow
from penstock.store.rows import columns, read_first, read_page

KEPT = 10
_ASK = text(
    f"""
    INSERT INTO profiles (job, seconds, revision, config, author, reason)
    VALUES (:job, :seconds, :revision, CAST(:config AS jsonb), :author, :reason)
    ON CONFLICT (job) WHERE state = 'asked' DO NOTHING RETURNING {columns(ProfileRow)}
    """
)
_READ = text(f"SELECT {columns(ProfileRow)} FROM profiles WHERE job = :job AND number = :number")
_FORGET = text(
    """
    DELETE FROM profiles WHERE job = :job AND state <> 'asked' AND number <= (
        SELECT number FROM profiles WHERE job = :job ORDER BY number DESC OFFSET :kept LIMIT 1)
    """
)


def ask(
    connection: Connection,
    *,
    job: str,
    seconds: int,
    revision: int,
    config: Mapping[str, Any],
    author: str,
    reason: str,
) -> ProfileRow:
    """A new profile; of the others the newest nine stay. Raises Conflict while one of the job is under way."""
    row = {"job": job, "seconds": seconds, "revision": revision, "author": author, "reason": reason}
    asked = read_first(connection, ProfileRow, _ASK, {**row, "config": as_jsonb(config)})
    if asked is None:
        raise Conflict(f"a profile of {job} is under way: wait for its end", field="job", rule="one_profile_at_a_time")
    connection.execute(_FORGET, {"job": job, "kept": KEPT})
    notify(connection, CHANGED_EXPECTED)
    return asked


def page(connection: Connection, job: str, *, limit: int, before: int | None = None) -> list[ProfileRow]:
    """Profiles of a job, newest first."""
    return read_page(connection, ProfileRow, "profiles", {"job": job}, key="number", limit=limit, below=before)


def read(connection: Connection, job: str, number: int) -> ProfileRow | None:
    """One profile; None when there is none of this number."""
    return read_first(connection, ProfileRow, _READ, {"job": job, "number": number})
