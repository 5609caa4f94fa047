"""Python queries with `transformWithState`: value, list and map state, kept by timers of the event time or by TTL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "k string, c bigint, seen string"
# An hour after the first event of the tests.
_TIMER_MS = int(datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp() * 1000)
_TTL_MS = 3_600_000


class _Counting(StatefulProcessor):
    """Counts a key's rows, keeps their values in a list, and counts them by tens in a map."""

    ttl_ms: int | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "c bigint", self.ttl_ms)
        self._values = handle.getListState("values", "v bigint", self.ttl_ms)
        self._tens = handle.getMapState("tens", "ten bigint", "c bigint", self.ttl_ms)

    def _take(self, row: Row) -> None:
        self._count.update((self._counted() + 1,))
        self._values.appendValue((row.v,))
        ten = (row.v // 10,)
        before = self._tens.getValue(ten)[0] if self._tens.containsKey(ten) else 0
        self._tens.updateValue(ten, (before + 1,))

    def _counted(self) -> int:
        return self._count.get()[0] if self._count.exists() else 0

    def _row(self, key: Any) -> Row:
        values = sorted(value for (value,) in self._values.get())
        tens = sorted((ten, count) for (ten,), (count,) in self._tens.iterator())
        return Row(k=key[0], c=self._counted(), seen=str((values, tens)))

    def close(self) -> None:
        pass


class AtTimer(_Counting):
    """Tells of a key once, when the timer that its first row set has expired."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.v >= 0:
                if not self._count.exists():
                    self._handle.registerTimer(_TIMER_MS)
                self._take(row)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self._row(key)


class WithTtl(_Counting):
    """Tells of a key with every batch; the state lives longer than any test."""

    ttl_ms = _TTL_MS

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._take(row)
        yield self._row(key)


def at_timer(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `AtTimer` by key."""
    return inputs["events"].groupBy("k").transformWithState(AtTimer(), OUTPUT, "Update", "EventTime")


def with_ttl(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `WithTtl` by key."""
    return inputs["events"].groupBy("k").transformWithState(WithTtl(), OUTPUT, "Update", "ProcessingTime")


class AtClock(_Counting):
    """Tells of a key when the timer that each row sets, `v` milliseconds of the clock later, has expired."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + row.v)
            self._take(row)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self._row(key)


def at_clock(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `AtClock` by key."""
    return inputs["events"].groupBy("k").transformWithState(AtClock(), OUTPUT, "Update", "ProcessingTime")


def from_the_start(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query whose state begins with a table."""
    table = session.createDataFrame([("k0", 5)], "k string, c bigint").groupBy("k")
    grouped = inputs["events"].groupBy("k")
    return grouped.transformWithState(WithTtl(), OUTPUT, "Update", "ProcessingTime", initialState=table)
