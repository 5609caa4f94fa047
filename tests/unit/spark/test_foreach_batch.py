"""A call of a function in a thread of its own, which a stop ends."""

from __future__ import annotations

import sys
import threading

import pytest

from penstock.control.errors import Unavailable
from penstock.spark.sinks.foreach_batch import _Call
from penstock.spark.sinks.interrupts import interrupt_sink, interruptible
from tests.support.spark import batch_functions


def test_a_function_that_swallows_all_errors_is_ended() -> None:
    call = _Call(lambda: batch_functions.endless(None, 0))  # type: ignore[arg-type]
    batch_functions.began.clear()

    def stop() -> None:
        assert batch_functions.began.wait(30)
        interrupt_sink("job/0")

    stopping = threading.Thread(target=stop)
    stopping.start()
    with interruptible("job/0", call.stop), pytest.raises(Unavailable, match="was stopped"):
        call.run()
    stopping.join()


def test_what_the_function_raises_is_raised() -> None:
    with pytest.raises(KeyError, match="forgotten"):
        _Call(lambda: batch_functions.broken(None, 0)).run()  # type: ignore[arg-type]


def test_a_function_that_exits_has_failed_and_was_not_stopped() -> None:
    with pytest.raises(RuntimeError, match="ended itself: SystemExit: 3"):
        _Call(lambda: sys.exit(3)).run()
