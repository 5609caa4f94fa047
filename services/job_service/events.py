"""The writes to all jobs as a stream of server-sent events, from any place on.

All streams of a process share one look at the store a second, and what it read. The number of an entry in the history
is the event's id, by which a client goes on where it was, at this or another Job Service.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
import orjson
from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.errors import Conflict, RetryableError, TooManyCalls
from penstock.control.logs import logger
from penstock.store.engine import snapshot, transaction
from penstock.wire.app import OwnThreads
from penstock.wire.jobs import HistoryEntry
from services.job_service.store import events

log = logger(__name__)
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 900.0
"""Then a stream ends, and its client comes again, with a token that is still good."""
_PAUSE_SECONDS = 0.5
_PAGE = 500
_THREADS = 2
"""A look may wait for a write that is slow: streams then wait in the loop, and take no thread of other calls."""


class EventReader:
    """What all streams of a process read. Safe from any thread. `most_streams`: at once. `look_seconds`: between two
    looks at the store."""

    def __init__(self, engine: Engine, clock: Clock, most_streams: int, look_seconds: float) -> None:
        self._engine = engine
        self._clock = clock
        self._most_streams = most_streams
        self._look_seconds = look_seconds
        self.threads = OwnThreads(_THREADS)
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._streams = 0
        self._looked_at = float("-inf")
        self._newest = 0
        self._pages: dict[int, list[HistoryEntry]] = {}

    def open(self, position: int | None) -> int:
        """A new stream: where it begins, None is now. Raises TooManyCalls; Conflict where entries after the position
        were archived; Unavailable."""
        with snapshot(self._engine) as connection:
            if position is not None and events.is_archived(connection, position):
                raise Conflict(f"entries after {position} were archived", field="after", rule="kept")
        begin = self._settled(wait=True) if position is None else position
        with self._lock:
            if self._streams >= self._most_streams:
                told = f"{self._most_streams} streams of events are open, which is the most of this Job Service"
                raise TooManyCalls(told, field="events", rule="streams", retry_after_seconds=int(HEARTBEAT_SECONDS))
            self._streams += 1
        return begin

    def close(self) -> None:
        """A stream has ended."""
        with self._lock:
            self._streams -= 1

    def after(self, position: int) -> list[HistoryEntry]:
        """The next entries after a position, in order; none when there are none now. Raises Unavailable."""
        newest = self._settled(wait=False)
        with self._lock:
            known = self._pages.get(position)
        if position >= newest:
            return []
        if known is not None:
            return known
        with snapshot(self._engine) as connection:
            found = events.after(connection, position, newest, _PAGE)
        with self._lock:
            self._pages[position] = found
        return found

    def _settled(self, *, wait: bool) -> int:
        """Up to where all is visible; asked of the store now and then, by one thread. The others go by what is known,
        unless they `wait` for it."""
        is_due = wait or self._clock.monotonic() - self._looked_at >= self._look_seconds
        if not is_due or not self._looking.acquire(blocking=wait):
            return self._newest
        try:
            with snapshot(self._engine) as connection:
                newest = events.newest(connection)
            for counter in events.COUNTERS if newest != self._newest else ():
                with transaction(self._engine) as connection:
                    events.await_writers(connection, counter)
            with self._lock:
                # After a restore of the store it may be smaller; what is read is shared until the next look only.
                self._newest, self._looked_at = newest, self._clock.monotonic()
                self._pages.clear()
        finally:
            self._looking.release()
        return self._newest


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries a client asks for; None: all."""

    job: str | None = None
    layer: str | None = None

    def has(self, entry: HistoryEntry) -> bool:
        """Whether the entry is one of them."""
        return self.job in (None, entry.job) and self.layer in (None, entry.layer)


async def stream(reader: EventReader, position: int, wanted: Wanted, clock: Clock) -> AsyncIterator[bytes]:
    """The events of one client, from `EventReader.open` on. While the store is away it waits, with heartbeats."""
    until, said_at = clock.monotonic() + LONGEST_SECONDS, clock.monotonic()
    try:
        yield b"id: %d\nretry: 2000\n\n" % position
        while clock.monotonic() < until:
            entries = await _next(reader, position)
            told = b"".join(as_event(entry) for entry in entries if wanted.has(entry))
            if entries:
                position = entries[-1].id
            if told or clock.monotonic() - said_at >= HEARTBEAT_SECONDS:
                # An id alone moves the client on past entries that it did not ask for.
                yield told or b"id: %d\n: still here\n\n" % position
                said_at = clock.monotonic()
            if not entries:
                await anyio.sleep(_PAUSE_SECONDS)
    finally:
        reader.close()


async def _next(reader: EventReader, position: int) -> list[HistoryEntry]:
    try:
        return await reader.threads.run(reader.after, position)
    except RetryableError as error:
        log.info("events not read", error=error.detail)
        return []


def as_event(entry: HistoryEntry) -> bytes:
    """An entry in the form of server-sent events. Pure."""
    data = orjson.dumps(entry.model_dump(mode="json"))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.id, entry.action.encode(), data)
