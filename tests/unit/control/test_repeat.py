"""What goes on beside a block of code."""

from __future__ import annotations

import threading

from penstock.control.process import wait_until
from penstock.control.repeat import repeating


def test_it_is_called_again_and_again_until_the_end_of_the_block() -> None:
    names: list[str] = []
    with repeating("beside", lambda: names.append(threading.current_thread().name), 0.001):
        wait_until(lambda: len(names) >= 3, 10, "three calls")
    called = len(names)
    assert set(names) == {"beside"}
    assert "beside" not in {thread.name for thread in threading.enumerate()}
    assert len(names) == called


def test_the_block_ends_when_the_call_that_has_begun_is_over() -> None:
    begun, done = threading.Event(), []

    def call() -> None:
        begun.set()
        done.append(begun.wait(10))

    with repeating("beside", call, 0.0):
        assert begun.wait(10)
    assert done
