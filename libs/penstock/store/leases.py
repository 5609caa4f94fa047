"""The lease row of a loop: one holder at a time, by the store's clock; each new holder gets a higher epoch.

An epoch is the time at which its leader was elected, in microseconds of the store's clock. So it stands for one term
of one leader, also after a fail-over that lost the newest lease row: the next leader is elected later, and gets another
and higher epoch than the leader whose row was lost. That one's writes are refused here, and its calls by containers,
which follow the highest epoch that they have heard.
Where the clock of the store is behind the newest epoch, the next one is higher by a random number. Then it may be lower
than a lost one, but it is not the same, so only one of the two leaders can write. Containers that have heard the lost
one obey the other after two minutes, or at once after `penstock restored`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text

from penstock.control.errors import Fenced
from penstock.store.engine import transaction
from penstock.store.rows import read_first

SHARD_MANAGER = "shard_manager"
"""The loop that says which containers are live."""

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
EPOCH_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""SQL: the epoch of a leader that is elected now."""
_TAKE_OVER = text(
    f"""
    UPDATE leases SET holder = :holder, url = :url,
        epoch = CASE WHEN epoch < {EPOCH_NOW} THEN {EPOCH_NOW}
                     ELSE epoch + 1 + CAST(random() * 1000000 AS bigint) END,
        expires_at = clock_timestamp() + make_interval(secs => :seconds)
    WHERE name = :name RETURNING epoch
    """
)
_CREATE = text(
    f"""
    INSERT INTO leases (name, holder, url, epoch, expires_at)
    VALUES (:name, :holder, :url, {EPOCH_NOW}, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (name) DO NOTHING RETURNING epoch
    """
)
_RELEASE = text("UPDATE leases SET expires_at = '-infinity' WHERE name = :name AND holder = :holder")
_CHECK = text("SELECT epoch FROM leases WHERE name = :name FOR KEY SHARE")
_HAS_LEADER = text("SELECT EXISTS (SELECT FROM leases WHERE name = :name AND expires_at > clock_timestamp())")
_READ = text("SELECT holder, epoch, url FROM leases WHERE name = :name")


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
    connection.execute(_RELEASE, {"name": name, "holder": holder})


def check_epoch(connection: Connection, name: str, epoch: int) -> None:
    """Raises Fenced when a newer leader exists. Until the transaction ends an election waits, a renewal does not."""
    if connection.execute(_CHECK, {"name": name}).scalar_one_or_none() != epoch:
        raise Fenced(f"the lease of {name} has moved on from epoch {epoch}")


@contextmanager
def fenced(engine: Engine, name: str, epoch: int) -> Iterator[Connection]:
    """A transaction of a leader, with `check_epoch`. Raises what `transaction` raises, too."""
    with transaction(engine) as connection:
        check_epoch(connection, name, epoch)
        yield connection


def read(connection: Connection, name: str) -> LeaseRow | None:
    """The newest lease row of a loop, expired or not."""
    return read_first(connection, LeaseRow, _READ, {"name": name})


def has_leader(connection: Connection, name: str) -> bool:
    """Whether some process leads a loop now, by the store's clock."""
    return bool(connection.execute(_HAS_LEADER, {"name": name}).scalar_one())
