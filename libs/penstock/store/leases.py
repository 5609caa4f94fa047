"""The lease row of a loop: one holder at a time, by the store's clock; each new holder gets a higher epoch."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select, text

from penstock.control.errors import Fenced
from penstock.store.cluster_tables import leases

_TAKE = text(
    """
    INSERT INTO leases AS held (name, holder, url, epoch, expires_at)
    VALUES (:name, :holder, :url, 1, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (name) DO UPDATE SET
        holder = excluded.holder,
        url = excluded.url,
        epoch = CASE WHEN held.holder = excluded.holder THEN held.epoch ELSE held.epoch + 1 END,
        expires_at = excluded.expires_at
    WHERE held.holder = excluded.holder OR held.expires_at < clock_timestamp()
    RETURNING epoch
    """
)


class LeaseRow(NamedTuple):
    """Who leads a loop, and where it is reached."""

    holder: str
    epoch: int
    url: str


def take(connection: Connection, name: str, holder: str, *, url: str, seconds: float) -> int | None:
    """Takes or renews the lease; its epoch, or None while somebody else holds it.

    A holder's name is unique to one life of a process, so a renewal after expiry keeps the epoch only when
    nobody else took the lease in between.
    """
    row = connection.execute(_TAKE, {"name": name, "holder": holder, "url": url, "seconds": seconds}).first()
    return None if row is None else int(row.epoch)


def release(connection: Connection, name: str, holder: str) -> None:
    """Gives the lease up at once, so that a successor need not wait."""
    statement = leases.update().where(leases.c.name == name, leases.c.holder == holder)
    connection.execute(statement.values(expires_at=text("'-infinity'::timestamptz")))


def check_epoch(connection: Connection, name: str, epoch: int) -> None:
    """Raises Fenced when a newer leader exists; holds off its election until the transaction ends."""
    current = connection.execute(select(leases.c.epoch).where(leases.c.name == name).with_for_update(read=True))
    if current.scalar_one_or_none() != epoch:
        raise Fenced(f"the lease of {name} has moved on from epoch {epoch}")


def read(connection: Connection, name: str) -> LeaseRow | None:
    """The newest lease row of a loop, expired or not."""
    row = connection.execute(select(leases.c.holder, leases.c.epoch, leases.c.url).where(leases.c.name == name)).first()
    return None if row is None else LeaseRow(row.holder, row.epoch, row.url)
