"""Rows to a function of the job's package, at least once: Spark's `foreachBatch`.

The function runs in a thread of its own, so that a stop can raise an exception in it and in nothing else. Spark's jobs
in it are those of the query: they are cancelled with it.
"""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.config.model import FunctionOutput, JobConfig
from penstock.control.errors import BrokenTask, Unavailable
from penstock.spark.functions import asked_for, function_of, secrets_of
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks.context import kept
from penstock.spark.sinks.interrupts import interruptible
from penstock.tasks.spec import TaskSpec

_FIELD = "output.python"
_POLL_SECONDS = 1.0


class Stopped(BaseException):
    """Is raised in a function whose task is to stop. No `except Exception` of the function catches it."""


def check(frame: DataFrame, config: JobConfig, output: FunctionOutput, settings: SparkSettings) -> None:
    """Loads the function, and calls nothing. Raises BrokenTask when it cannot be loaded or called."""
    _bound(frame, config, output, settings, "")


def writer(frame: DataFrame, spec: TaskSpec, output: FunctionOutput, settings: SparkSettings) -> DataStreamWriter:
    """Gives each batch of `frame` to the function. Raises BrokenTask when it cannot be loaded or called."""
    write = batch_writer(frame, spec, output, settings, None)
    return frame.writeStream.outputMode(spec.config.output_mode).foreachBatch(write)


def batch_writer(
    frame: DataFrame, spec: TaskSpec, output: FunctionOutput, settings: SparkSettings, side: str | None
) -> Callable[[DataFrame, int], None]:
    """Gives batches of `frame` in `foreachBatch` to the function. `side`: the name of the side output. Raises as
    `writer`."""
    series = f"{spec.job}/{spec.generation}/{spec.index}" + ("" if side is None else f"/{side}")
    return Batches(spec.task_id, _bound(frame, spec.config, output, settings, series)).write


def _bound(
    frame: DataFrame, config: JobConfig, output: FunctionOutput, settings: SparkSettings, series: str
) -> Callable[[DataFrame, int], Any]:
    """The function with what it asks for besides a batch."""
    function = function_of(output.python, _FIELD, config, settings, frame.sparkSession)
    values = {"series": series, "args": dict(config.args), "secrets": secrets_of(config, settings)}
    bound = partial(function, **asked_for(function, values))
    try:
        inspect.signature(bound).bind(frame, 0)
    except (TypeError, ValueError) as error:
        what = f"{_FIELD}: {output.python} cannot be called as function(frame, batch_id): {error}"
        raise BrokenTask(what, rule="takes_a_batch") from error
    return bound


class Batches:
    """Calls the function of one task, batch after batch."""

    def __init__(self, task_id: str, function: Callable[[DataFrame, int], Any]) -> None:
        self._task_id = task_id
        self._function = function

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Calls the function with a micro-batch.

        Raises what the function raises, and Unavailable when a stop has ended it; the next start repeats the batch. All
        rows are computed, once, whatever the function does with them, or the next batch would not find its state.
        """
        with kept(frame) as rows:
            # A frame of its own: the function may keep it and let go of it, as is usual, and these rows stay.
            own = rows.select("*")
            call = _Call(lambda: self._function(own, batch_id))
            with interruptible(self._task_id, call.stop):
                call.run()
            rows.count()


class _Call:
    """One call in a thread of its own, whose Spark jobs belong to the thread that calls."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._left = threading.Event()
        self._thread = InheritableThread(target=self._call, name="foreach_batch", daemon=True)

    def run(self) -> None:
        """Returns when the call has ended; raises what it raised."""
        self._thread.start()
        try:
            # An exception of `stop` that comes late ends the thread without a word.
            while not self._done.wait(_POLL_SECONDS) and self._thread.is_alive():
                pass
        finally:
            self._left.set()
        if isinstance(self._error, Exception):
            raise self._error
        if self._error is not None and not isinstance(self._error, Stopped):
            told = f"the function of the output ended itself: {type(self._error).__name__}: {self._error}"
            raise RuntimeError(told) from self._error
        if self._error is not None or not self._done.is_set():
            raise Unavailable("the function of the output was stopped") from self._error

    def stop(self) -> None:
        """Raises `Stopped` where the function is in Python; what it waits for outside of Python is not ended."""
        if not self._done.is_set() and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), ctypes.py_object(Stopped))

    def _call(self) -> None:
        """Does not end before `run` does: no other thread may get this one's number while `stop` may come."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 -- raised again where the batch is
            self._error = error
        self._done.set()
        self._left.wait()
