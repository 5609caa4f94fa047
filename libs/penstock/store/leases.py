"""The lease row of a loop: one holder at a time, by the store's clock; each new holder gets a higher epoch."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select, text

from penstock.control.errors import Fenced
from penstock.store.cluster_tables import leases

# The lock modes matter. A checked transaction has the row FOR KEY SHARE. A renewal changes no key column, so it never
# waits for one: a long transaction of the leader cannot cost the leader its lease. A take-over waits, since it first
# locks the row FOR UPDATE.
_RENEW = text(
    """
    UPDATE leases SET url = :url, expires_at = clock_timestamp() + make_interval(secs => :seconds)
    WHERE name = :name AND holder = :holder RETURNING epoch
    """
)
_LOCK_EXPIRED = text("SELECT epoch FROM leases WHERE name = :name AND expires_at < clock_timestamp() FOR UPDATE")
_TAKE_OVER = text(
    """
    UPDATE leases SET holder = :holder, url = :url, epoch = epoch + 1,
        expires_at = clock_timestamp() + make_interval(secs => :seconds)
    WHERE name = :name RETURNING epoch
    """
)
_CREATE = text(
    """
    INSERT INTO leases (name, holder, url, epoch, expires_at)
    VALUES (:name, :holder, :url, 1, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (name) DO NOTHING RETURNING epoch
    """
)


class LeaseRow(NamedTuple):
    """Who leads a loop, and where it is reached."""

    holder: str
    epoch: int
    url: str


def take(connection: Connection, name: str, holder: str, *, url: str, seconds: float) -> int | None:
    """Takes or renews the lease; its epoch, or None while somebody else holds it.

    A holder's name is unique to one run of a process, so a renewal after expiry keeps the epoch only when
    nobody else took the lease in between.
    """
    parameters = {"name": name, "holder": holder, "url": url, "seconds": seconds}
    renewed: int | None = connection.execute(_RENEW, parameters).scalar_one_or_none()
    if renewed is not None:
        return renewed
    expired = connection.execute(_LOCK_EXPIRED, {"name": name}).first() is not None
    taken: int | None = connection.execute(_TAKE_OVER if expired else _CREATE, parameters).scalar_one_or_none()
    return taken


def release(connection: Connection, name: str, holder: str) -> None:
    """Gives the lease up at once, so that a successor need not wait."""
    statement = leases.update().where(leases.c.name == name, leases.c.holder == holder)
    connection.execute(statement.values(expires_at=text("'-infinity'::timestamptz")))


def check_epoch(connection: Connection, name: str, epoch: int) -> None:
    """Raises Fenced when a newer leader exists. Until the transaction ends an election waits, a renewal does not."""
    share = select(leases.c.epoch).where(leases.c.name == name).with_for_update(read=True, key_share=True)
    current = connection.execute(share)
    if current.scalar_one_or_none() != epoch:
        raise Fenced(f"the lease of {name} has moved on from epoch {epoch}")


def read(connection: Connection, name: str) -> LeaseRow | None:
    """The newest lease row of a loop, expired or not."""
    row = connection.execute(select(leases.c.holder, leases.c.epoch, leases.c.url).where(leases.c.name == name)).first()
    return None if row is None else LeaseRow(row.holder, row.epoch, row.url)
