"""Answers kept by `Idempotency-Key`, in the same transaction as the write that they answer.

The row is inserted before the write. A second call with the same key waits for the row, and then finds the answer. A
refused write rolls its row back: nothing was changed, so the call may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, text

from penstock.store.json import as_jsonb
from penstock.store.rows import columns, read_first

_UNDER_WAY = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was given. `fingerprint`: of the request that it answered."""

    fingerprint: str
    status: int
    headers: Mapping[str, str]
    body: Any


_BEGIN = text(
    """
    INSERT INTO idempotency (principal, key, fingerprint, status, headers)
    VALUES (:principal, :key, :fingerprint, :status, '{}') ON CONFLICT DO NOTHING
    """
)
_READ = text(f"SELECT {columns(Kept)} FROM idempotency WHERE principal = :principal AND key = :key")
_FINISH = text(
    """
    UPDATE idempotency SET status = :status, headers = :headers, body = :body
    WHERE principal = :principal AND key = :key
    """
)
_FORGET = text("DELETE FROM idempotency WHERE at < now() - :age")


def begin(connection: Connection, principal: str, key: str, fingerprint: str) -> Kept | None:
    """None when the caller must do the write and then call `finish`; else the answer that the key got before."""
    row = {"principal": principal, "key": key, "fingerprint": fingerprint, "status": _UNDER_WAY}
    if connection.execute(_BEGIN, row).rowcount:
        return None
    return read_first(connection, Kept, _READ, {"principal": principal, "key": key})


def is_known(connection: Connection, principal: str, key: str) -> bool:
    """Whether the key was used before."""
    return read_first(connection, Kept, _READ, {"principal": principal, "key": key}) is not None


def finish(
    connection: Connection, principal: str, key: str, *, status: int, headers: Mapping[str, str], body: Any
) -> None:
    """Keeps the answer to a write that `begin` allowed."""
    answer = {"status": status, "headers": as_jsonb(dict(headers)), "body": None if body is None else as_jsonb(body)}
    connection.execute(_FINISH, {"principal": principal, "key": key, **answer})


def forget_older_than(connection: Connection, age: timedelta) -> int:
    """Drops answers older than `age`; the number dropped."""
    return connection.execute(_FORGET, {"age": age}).rowcount
