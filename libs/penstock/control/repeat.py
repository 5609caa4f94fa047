"""What goes on beside a block of code, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(name: str, call: Callable[[], object], pause_seconds: float) -> Iterator[None]:
    """Calls `call` again and again until the end of the block, with a pause before each call.

    `name`: of the thread. Leaving the block waits for a call in progress, without a limit. After an error `call` is not
    called again, and the block is not told: `call` is to handle its own errors.
    """
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause_seconds):
            call()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
