"""The host's way up to its supervisor: one thread writes all events, so that no line is torn."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from penstock.spark.channel import EVENTS, Event
from penstock.spark.host.pipes import write_line

_MOST_WAITING = 10


class EventWriter:
    """Writes events to a pipe in the order they were given; `lost` is called when nobody reads any more."""

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
        """Waits until all events given so far are written; False when that took too long."""
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
