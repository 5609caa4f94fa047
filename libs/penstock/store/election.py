"""The store's side of `penstock.control.loop`: elections by lease row, and a thread that wakes loops by NOTIFY."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

import psycopg
from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.control.loop import LeaderLoop, Leadership
from penstock.store import leases
from penstock.store.engine import listen, transaction
from penstock.store.rounds import RoundNotes

log = logger(__name__)
RECONNECT_SECONDS = 1.0
LOOK_SECONDS = 1.0


class StoreElection:
    """An `Election` on the `leases` table."""

    def __init__(self, engine: Engine, name: str, holder: str, *, url: str, lease_seconds: float) -> None:
        self._engine = engine
        self._name = name
        self._holder = holder
        self._url = url
        self._lease_seconds = lease_seconds

    def take(self) -> int | None:
        """The epoch, or None while another process leads. Raises Unavailable."""
        with transaction(self._engine) as connection:
            return leases.take(connection, self._name, self._holder, url=self._url, seconds=self._lease_seconds)

    def release(self) -> None:
        """Gives the lease up."""
        with transaction(self._engine) as connection:
            leases.release(connection, self._name, self._holder)


class LoopTimes(NamedTuple):
    """Periods of a loop in seconds, as `LeaderLoop` takes them."""

    period: float
    lease: float
    renew: float
    gather: float = 0.0


def build_loop(
    name: str, round_: Callable[[int], None], engine: Engine, clock: Clock, times: LoopTimes, *, holder: str, url: str
) -> LeaderLoop:
    """A loop whose leader holds the lease row `name`, and notes its rounds; `holder` is unique to this run of the
    process."""
    election = StoreElection(engine, name, holder, url=url, lease_seconds=times.lease)
    leadership = Leadership(name, election, times.lease, clock.monotonic)
    return LeaderLoop(
        name,
        round_,
        leadership,
        clock,
        period_seconds=times.period,
        renew_seconds=times.renew,
        gather_seconds=times.gather,
        on_end=RoundNotes(engine, name, times.period, clock.monotonic).note,
    )


class Listener:
    """A daemon thread that calls `wake` on every NOTIFY of `channels`, and after every reconnect.

    Without a `database_url` (`CommonSettings.notifications_url`) nothing wakes: only the periodic rounds see changes.
    """

    def __init__(self, database_url: str | None, channels: tuple[str, ...], wake: Callable[[], None]) -> None:
        self._database_url = database_url
        self._channels = channels
        self._wake = wake
        self._stopping = threading.Event()
        # Closing the writer makes the reader readable, which ends a wait for news.
        self._stop_reader, self._stop_writer = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)

    def start(self) -> None:
        """Begins to listen."""
        if self._database_url is None:
            log.warning("a pooler passes no notifications on: set PENSTOCK_DATABASE_LISTEN_URL", seen="in periods")
        self._thread.start()

    def stop(self) -> None:
        """Ends at once."""
        self._stopping.set()
        self._stop_writer.close()
        self._thread.join(timeout=10)
        self._stop_reader.close()

    def _run(self) -> None:
        while self._database_url is not None and not self._stopping.is_set():
            try:
                self._listen_until_broken(self._database_url)
            except psycopg.Error as error:
                log.warning("not listening to the store", error=str(error).strip())
                self._stopping.wait(RECONNECT_SECONDS)

    def _listen_until_broken(self, database_url: str) -> None:
        with listen(database_url, self._channels) as connection, selectors.DefaultSelector() as news:
            news.register(connection.fileno(), selectors.EVENT_READ)
            news.register(self._stop_reader, selectors.EVENT_READ)
            self._wake()
            while not self._stopping.is_set():
                news.select(LOOK_SECONDS)
                if list(connection.notifies(timeout=0)):
                    self._wake()
