"""Rounds of a loop beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def rounds_go_on(one_round: Callable[[], object]) -> Iterator[None]:
    """One round after the other until the end of the block."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            one_round()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
