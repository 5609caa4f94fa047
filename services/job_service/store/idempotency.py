"""Answers kept by `Idempotency-Key`, in the same transaction as the write that they answer.

The row is inserted before the write. A second call with the same key waits for the row, and then finds the answer. A
refused write rolls its row back: nothing was changed, so the call may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, CursorResult, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from penstock.store.tables import idempotency

_UNDER_WAY = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was given. `fingerprint`: of the request that it answered."""

    fingerprint: str
    status: int
    headers: Mapping[str, str]
    body: Any


def begin(connection: Connection, principal: str, key: str, fingerprint: str) -> Kept | None:
    """None when the caller must do the write and then call `finish`; else the answer that the key got before."""
    row = {"principal": principal, "key": key, "fingerprint": fingerprint, "status": _UNDER_WAY, "headers": {}}
    begun = insert(idempotency).values(row).on_conflict_do_nothing().returning(idempotency.c.key)
    if connection.execute(begun).first() is not None:
        return None
    kept = select(idempotency.c.fingerprint, idempotency.c.status, idempotency.c.headers, idempotency.c.body)
    found = connection.execute(kept.where(idempotency.c.principal == principal, idempotency.c.key == key)).one()
    return Kept(*found)


def finish(
    connection: Connection, principal: str, key: str, *, status: int, headers: Mapping[str, str], body: Any
) -> None:
    """Keeps the answer to a write that `begin` allowed."""
    row = update(idempotency).where(idempotency.c.principal == principal, idempotency.c.key == key)
    connection.execute(row.values(status=status, headers=dict(headers), body=body))


def forget_older_than(connection: Connection, age: timedelta) -> int:
    """Drops answers older than `age`; the number dropped."""
    dropped: CursorResult[Any] = connection.execute(delete(idempotency).where(idempotency.c.at < func.now() - age))
    return dropped.rowcount
