"""The events that a host sends to its supervisor. One thread writes them all, so lines do not mix."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from penstock.spark.channel import EVENTS, Event
from penstock.spark.host.pipes import write_line

_MOST_WAITING = 10


class EventWriter:
    """Writes events to a pipe in the order of `send`. Calls `lost` when the supervisor has closed the pipe."""

    def __init__(self, descriptor: int, lost: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._lost = lost
        self._events: queue.SimpleQueue[Event | threading.Event] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="events", daemon=True).start()

    def send(self, event: Event) -> None:
        """Queues an event; never waits."""
        self._events.put(event)

    def is_congested(self) -> bool:
        """Whether the supervisor reads too slowly for events that can be left out."""
        return self._events.qsize() > _MOST_WAITING

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all events sent so far are written. Returns False after the timeout."""
        written = threading.Event()
        self._events.put(written)
        return written.wait(timeout_seconds)

    def _serve(self) -> None:
        try:
            while True:
                self._write(self._events.get())
        except BrokenPipeError:
            self._lost()

    def _write(self, event: Event | threading.Event) -> None:
        if isinstance(event, threading.Event):
            event.set()
            return
        write_line(self._descriptor, EVENTS.dump_json(event))
