"""Rows for the jobs of a stack, also such that keep coming while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer


def producer(bootstrap: str) -> Producer:
    """One that sends each row once, and rows with keys to the partitions that Kafka's Java clients choose."""
    settings = {"partitioner": "murmur2_random", "enable.idempotence": True, "log_level": 2}
    return Producer({"bootstrap.servers": bootstrap, **settings})


@contextmanager
def feeding(name: str, send: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Calls `send` again and again on a thread of its own, with a pause between, until this is closed."""
    ending = threading.Event()

    def feed() -> None:
        while not ending.wait(pause_s):
            send()

    thread = threading.Thread(target=feed, name=f"feed-{name}")
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
