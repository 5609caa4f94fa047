"""What streams of events are told: the writes to all jobs in their order, from any place on.

All streams of a process share one look at the store a second, and the pages that were read last. The number of an entry
in the history is the event's id, by which a client goes on where it was, at this or another Job Service.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import orjson
from sqlalchemy import Connection, Engine

from penstock.control.clock import Clock
from penstock.control.errors import Conflict
from penstock.control.logs import logger
from penstock.store.engine import snapshot, transaction
from penstock.wire.app import OwnThreads
from penstock.wire.jobs import HistoryEntry
from services.job_service.store import events

log = logger(__name__)
PAGE_BYTES = 256 * 1024
"""A page has so many bytes and one event more at most: each client that reads slowly holds one."""
_PAGE = 500
_SCANNED = 50_000
"""Entries that one page looks through at most: few of them may be wanted."""
_MOST_KEPT = 16


class Wanted(NamedTuple):
    """Which entries a client asks for; None: all."""

    job: str | None = None
    layer: str | None = None


class Page(NamedTuple):
    """The next events as they are sent, which may be none, and the position after them."""

    data: bytes
    position: int


class EventReader:
    """What all streams of a process read; for one event loop. `look_seconds`: between two looks at the store.

    A look may wait for a write that takes long. It has a thread of its own, and no stream waits for it.
    So has the search for a revision.
    """

    def __init__(self, engine: Engine, clock: Clock, look_seconds: float) -> None:
        self._engine = engine
        self._clock = clock
        self._look_seconds = look_seconds
        self._look_threads, self._revision_threads, self.threads = OwnThreads(1), OwnThreads(1), OwnThreads(1)
        self._look: asyncio.Task[int] | None = None
        self._looked_at = float("-inf")
        self._newest = 0
        self._reading = asyncio.Lock()
        self.is_ending = False
        self._pages: OrderedDict[tuple[int, Wanted], Page] = OrderedDict()

    def end(self) -> None:
        """The process ends: so do all streams, and their clients go on at another one."""
        self.is_ending = True

    async def begin(self, position: int | None) -> int:
        """Where a new stream begins; None is now. Raises Unavailable; Conflict for a position that this store never
        had, and where entries after it were archived."""
        if position is None:
            return await asyncio.shield(self._looking())
        await self.threads.run(self._require_known, position)
        return position

    async def begin_after(self, job: str, revision: int) -> int:
        """Where a new stream begins that has all entries of a job after its write with this revision. Raises as
        `begin`."""
        # First, so that no entry up to here comes later than the look for the revision.
        now = await asyncio.shield(self._looking())
        found = await self._revision_threads.run(self._position_of, job, revision)
        return now if found is None else await self.begin(found)

    async def next(self, position: int, wanted: Wanted) -> Page:
        """The next page after a position. Raises Unavailable; Conflict when it was archived.

        One page is read at a time, and then nothing for as long as that took. So clients that are far behind, however
        many, cost half a core at most.
        """
        if self._clock.monotonic() - self._looked_at >= self._look_seconds:
            self._looking()
        page = self._known(position, wanted)
        if page is not None:
            return page
        async with self._reading:
            page = self._known(position, wanted)  # another stream may have read it meanwhile
            if page is None:
                began = self._clock.monotonic()
                page = await self.threads.run(self._read, position, self._newest, wanted)
                self._keep(position, wanted, page)
                await asyncio.sleep(self._clock.monotonic() - began)
        return page

    def _known(self, position: int, wanted: Wanted) -> Page | None:
        """The page, without a look at entries; None when it must be read."""
        return Page(b"", position) if position >= self._newest else self._pages.get((position, wanted))

    def _keep(self, position: int, wanted: Wanted, page: Page) -> None:
        self._pages[position, wanted] = page
        while len(self._pages) > _MOST_KEPT:
            self._pages.popitem(last=False)

    def _read(self, position: int, newest: int, wanted: Wanted) -> Page:
        """Raises Conflict where entries after the position were archived since the stream began."""
        with snapshot(self._engine) as connection:
            _require_kept(connection, position)
            until = min(newest, position + _SCANNED)
            found = events.after(connection, position, until, _PAGE, job=wanted.job, layer=wanted.layer)
            return page_of(found, until, _PAGE)

    def _require_known(self, position: int) -> None:
        """Raises Conflict."""
        with snapshot(self._engine) as connection:
            _require_kept(connection, position)
            newest = events.newest(connection)
        if position > newest:
            told = f"there is no entry {position}: the newest is {newest}. Was the store restored? Begin without it"
            raise Conflict(told, field="after", rule="known")

    def _position_of(self, job: str, revision: int) -> int | None:
        """Raises Conflict."""
        with snapshot(self._engine) as connection:
            newest = events.newest_revision(connection)
            if revision > newest:
                told = f"there is no revision {revision}: the newest is {newest}. Was the store restored?"
                raise Conflict(told, field="after_revision", rule="known")
            return events.position_of(connection, job, revision)

    def _looking(self) -> asyncio.Task[int]:
        """The look that is under way, or else a new one."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_up())
            self._look.add_done_callback(_tell_failure)
        return self._look

    async def _look_up(self) -> int:
        """Up to where all is visible."""
        began, before = self._clock.monotonic(), self._newest
        self._newest = await self._look_threads.run(self._settled, before)
        self._looked_at = began
        if self._newest < before:  # the store was restored
            self._pages.clear()
        return self._newest

    def _settled(self, before: int) -> int:
        with snapshot(self._engine) as connection:
            newest = events.newest(connection)
        for counter in events.COUNTERS if newest != before else ():
            with transaction(self._engine) as connection:
                events.await_writers(connection, counter)
        return newest


def _require_kept(connection: Connection, position: int) -> None:
    if events.is_archived(connection, position):
        raise Conflict(f"entries after {position} were archived", field="after", rule="kept")


def page_of(entries: Iterable[HistoryEntry], newest: int, limit: int) -> Page:
    """A page of entries that are read as they are asked for, `limit` at most, up to the entry `newest`. Pure."""
    told, size, position = list[bytes](), 0, newest
    for entry in entries:
        told.append(as_event(entry))
        size += len(told[-1])
        if size >= PAGE_BYTES or len(told) == limit:
            position = entry.id
            break
    return Page(b"".join(told), position)


def as_event(entry: HistoryEntry) -> bytes:
    """An entry in the form of server-sent events. Pure."""
    data = orjson.dumps(entry.model_dump(mode="json"))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.id, entry.action.encode(), data)


def _tell_failure(look: asyncio.Task[int]) -> None:
    """Streams go on by what is known; the next one looks again."""
    if not look.cancelled() and look.exception() is not None:
        log.info("events not looked for", error=str(look.exception()))
