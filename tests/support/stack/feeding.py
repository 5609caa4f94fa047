"""Rows for the jobs of a stack, also such that keep coming while a test does something else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from confluent_kafka import Producer

from penstock.control.repeat import repeating


def producer(bootstrap: str) -> Producer:
    """One that sends each row once, and rows with keys to the partitions that Kafka's Java clients choose."""
    settings = {"partitioner": "murmur2_random", "enable.idempotence": True, "log_level": 2}
    return Producer({"bootstrap.servers": bootstrap, **settings})


def feeding(name: str, send: Callable[[], None], pause_s: float) -> AbstractContextManager[None]:
    """Calls `send` again and again on a thread of its own, with a pause between, until this is closed."""
    return repeating(f"feed-{name}", send, pause_s)
