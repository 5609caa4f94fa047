"""Rows that keep coming while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
