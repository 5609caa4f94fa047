"""The events of the Job Service, and their form (server-sent events, WHATWG HTML section 9.2)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import httpx

from penstock.control.errors import RetryableError, TooManyCalls, Unavailable
from penstock.wire.http import error_of
from penstock.wire.jobs import HistoryEntry
from penstock.wire.service_client import ServiceClient, path

SILENCE_SECONDS = 45.0
"""Three heartbeats: a connection that says nothing for so long is dead."""
_PAUSE_SECONDS = 1.0


class Event(NamedTuple):
    """One event as it was sent: its id, and its data; None for an event that only moves the id on."""

    id: int
    data: str | None


class Lines:
    """The lines of a stream as they come. Lines that are no field of an event are passed over. Pure."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._data: list[str] = []

    def take(self, line: str) -> Event | None:
        """The event that ends with this line; None when none does, or it names no id."""
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            return self._end()
        if field == "id" and value.isdecimal():
            self._number = int(value)
        elif field == "data":
            self._data.append(value)
        return None

    def _end(self) -> Event | None:
        number, data = self._number, self._data
        self._number, self._data = None, []
        return None if number is None else Event(number, "\n".join(data) if data else None)


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream that name an id. Pure."""
    taken = Lines()
    yield from (event for line in lines if (event := taken.take(line)) is not None)


class EventClient(ServiceClient):
    """Follows what is written."""

    def events(
        self,
        *,
        after: int | None = None,
        after_revision: int | None = None,
        job: str | None = None,
        layer: str | None = None,
    ) -> Iterator[HistoryEntry]:
        """Every write to a job as it comes, for ever; `after`: the `id` of the last one that is known, None: from now.
        `after_revision`, instead: the last revision of `job` that is known, such as that of a write.

        A connection that breaks is made again, and none is skipped or comes twice. Raises what the Job Service refuses:
        Conflict when entries after the given one were archived, Unauthenticated when the token has ended.
        """
        while True:
            try:
                for event in self._stream(after=after, after_revision=after_revision, job=job, layer=layer):
                    after, after_revision = event.id, None
                    if event.data is not None:
                        yield HistoryEntry.model_validate_json(event.data)
            except (RetryableError, TooManyCalls):
                time.sleep(_PAUSE_SECONDS)

    def _stream(self, **wanted: int | str | None) -> Iterator[Event]:
        """The events of one connection. Raises Unavailable when it breaks."""
        asked = {name: value for name, value in wanted.items() if value is not None}
        timeout = httpx.Timeout(10.0, read=SILENCE_SECONDS)
        try:
            with self._http.stream("GET", path("events"), params=asked, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                    raise error_of(response)
                yield from parse(response.iter_lines())
        except httpx.TransportError as error:
            raise Unavailable(f"{self._http.base_url} cannot be reached: {error}") from error
