"""What sinks wait for in Python, so that a stop can end it: Spark interrupts only what runs in its JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_waits: dict[str, list[tuple[threading.Lock, Callable[[], None]]]] = {}


@contextmanager
def interruptible(task_id: str, interrupt: Callable[[], None]) -> Iterator[None]:
    """While the body runs, `interrupt_sink` of this task calls `interrupt`, and never afterwards."""
    entry = threading.Lock(), interrupt
    with _lock:
        _waits.setdefault(task_id, []).append(entry)
    try:
        yield
    finally:
        with entry[0], _lock:
            entries = _waits[task_id]
            entries.remove(entry)
            if not entries:
                del _waits[task_id]


def interrupt_sink(task_id: str) -> None:
    """Ends what the sink of a task waits for. What it waits for then fails, and so does the batch."""
    with _lock:
        entries = list(_waits.get(task_id, ()))
    for busy, interrupt in entries:
        with busy:
            with _lock:
                is_there = any(entry[0] is busy for entry in _waits.get(task_id, ()))
            if is_there:
                interrupt()
