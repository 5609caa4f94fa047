"""Streams the demo's input into Kafka at a steady rate, as an outside producer would."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from penstock.local.demo.data import closing_record, flights, planes, records, weather
from penstock.local.topics import create_topics
from penstock.spark.delivery import CheckedProducer

FLIGHTS, ENRICHED, WEATHER, PLANES = "flights", "flights-enriched", "weather", "planes"
KEY_GROUPS = 8
_CHUNK = 500
_TIMEOUT_SECONDS = 60.0


def make_topics(bootstrap: str) -> None:
    """Creates the demo's topics. Raises Conflict when one exists, Unavailable."""
    create_topics(bootstrap, {FLIGHTS: KEY_GROUPS, ENRICHED: KEY_GROUPS, WEATHER: 1, PLANES: 1})


@dataclass(frozen=True)
class Fed:
    """How far the feed is."""

    sent: int
    total: int
    done: bool

    @property
    def share(self) -> float:
        return self.sent / self.total


class Feed:
    """A thread that sends the flights, keyed by destination with Kafka's own partitioner (murmur2)."""

    def __init__(self, bootstrap: str, seconds: float) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 20}
        self._producer = CheckedProducer(self._settings, _TIMEOUT_SECONDS)
        self._seconds = seconds
        self._flights = flights()
        self._sent = 0
        self._error: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Sends weather and planes at once, then begins with the flights. Raises Unavailable when one is not taken."""
        for topic, frame, key in ((WEATHER, weather(), "origin"), (PLANES, planes(), "tailnum")):
            self._send(topic, records(frame, key))
        self._require_taken()
        self._thread.start()

    def fed(self) -> Fed:
        """How far it is. Raises what the thread ended with."""
        if self._error is not None:
            raise self._error
        return Fed(self._sent, len(self._flights), self._sent == len(self._flights) and not self._thread.is_alive())

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        try:
            self._send_flights()
            self._require_taken()
        except Exception as error:  # noqa: BLE001 -- handed to whoever asks `fed`
            self._error = error

    def _send_flights(self) -> None:
        rows = records(self._flights, "dest")
        started = time.monotonic()
        while chunk := list(islice(rows, _CHUNK)):
            self._send(FLIGHTS, chunk)
            self._sent += len(chunk)
            due = started + self._seconds * self._sent / len(self._flights)
            if self._stopping.wait(max(0.0, due - time.monotonic())):
                return

    def close(self) -> None:
        """Sends closing records until each partition has one; after all flights, to tasks that run.

        Each is where its key belongs, so that the state it leaves could move. A query that is restarted before it has
        written what a watermark closed writes it only when more rows come (Spark remembers no such batch). Raises
        Unavailable.
        """
        producer = CheckedProducer(self._settings, _TIMEOUT_SECONDS)
        for number in itertools.count():
            if len(producer.partitions_taken(FLIGHTS)) == KEY_GROUPS:
                return
            key, value = closing_record(number)
            producer.send(FLIGHTS, value, key=key)
            producer.require_taken("kafka")

    def _send(self, topic: str, rows: Iterable[tuple[str | None, bytes]]) -> None:
        for key, value in rows:
            self._producer.send(topic, value, key=key)

    def _require_taken(self) -> None:
        self._producer.require_taken("kafka")
