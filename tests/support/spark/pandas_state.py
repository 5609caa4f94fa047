"""Python queries that keep state by functions over pandas frames: sessions that end by a timeout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import pandas_udf
from pyspark.sql.streaming.state import GroupState

from tests.support.spark.stateful_processor import OUTPUT, AtTimer, WithTtl

GAP_MS = 10_000
_COLUMNS = ["k", "first", "last", "c", "s"]
_SESSION = "k string, first bigint, last bigint, c bigint, s bigint"

Session = Sequence[int]


def extended(sessions: Iterable[Session], at_ms: int, value: int) -> list[Session]:
    """The sessions of a key with one more row; those that it is near to become one. Each has the times (ms) of its
    first and last row, its number of rows and the sum of their values. Pure: tests compute their answers by it, too."""
    near, apart = [], []
    for one in sessions:
        (near if one[0] - GAP_MS < at_ms < one[1] + GAP_MS else apart).append(one)
    first, last = min([at_ms, *(one[0] for one in near)]), max([at_ms, *(one[1] for one in near)])
    joined = (first, last, 1 + sum(one[2] for one in near), value + sum(one[3] for one in near))
    return sorted([*apart, joined])


def half(values: pd.Series) -> pd.Series:
    """A function over columns, rounded down."""
    return values // 2


def sessions(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: a session is told of once the watermark is `GAP_MS` after its last row. Values are halved."""
    grouped = inputs["events"].withColumn("v", pandas_udf(half, "bigint")("v")).groupBy("k")
    return grouped.applyInPandasWithState(_by_watermark, _SESSION, "sessions string", "append", "EventTimeTimeout")


def at_clock(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: what is known of a key, `v` milliseconds of the clock after its row."""
    grouped = inputs["events"].groupBy("k")
    return grouped.applyInPandasWithState(_by_clock, _SESSION, "sessions string", "append", "ProcessingTimeTimeout")


def sessions_by_value(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query that groups by another column than the input's key."""
    grouped = inputs["events"].groupBy("v")
    return grouped.applyInPandasWithState(_by_watermark, _SESSION, "sessions string", "append", "EventTimeTimeout")


def _by_watermark(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    found = _with_rows(frames, state)
    ended = [one for one in found if one[1] + GAP_MS <= state.getCurrentWatermarkMs()]
    left = [one for one in found if one not in ended]
    if left:
        state.update((json.dumps(left),))
        state.setTimeoutTimestamp(left[0][1] + GAP_MS)
    elif state.exists:
        state.remove()
    yield _told(key, ended)


def _by_clock(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        yield _told(key, _known(state))
        state.remove()
        return
    found = _with_rows(frames, state)
    state.update((json.dumps(found),))
    state.setTimeoutDuration(found[-1][3])


def _with_rows(frames: Iterator[pd.DataFrame], state: GroupState) -> list[Session]:
    found = _known(state)
    for frame in frames:
        times = frame["at"].astype("datetime64[ms]").astype("int64").tolist()
        for at_ms, value in zip(times, frame["v"].tolist(), strict=True):
            found = extended(found, at_ms, value)
    return found


def _known(state: GroupState) -> list[Session]:
    return [tuple(one) for one in json.loads(state.get[0])] if state.exists else []


def _told(key: Any, ended: Iterable[Session]) -> pd.DataFrame:
    return pd.DataFrame([(key[0], *one) for one in ended], columns=_COLUMNS)


class AtTimerInPandas(AtTimer):
    """`AtTimer` over frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        return _frames(super().handleInputRows(key, _tuples(rows), timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return _frames(super().handleExpiredTimer(key, timerValues, expiredTimerInfo))


class WithTtlInPandas(WithTtl):
    """`WithTtl` over frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        return _frames(super().handleInputRows(key, _tuples(rows), timerValues))


def _tuples(frames: Iterator[pd.DataFrame]) -> Iterator[Any]:
    for frame in frames:
        yield from frame.itertuples(index=False)


def _frames(rows: Iterable[Any]) -> Iterator[pd.DataFrame]:
    for row in rows:
        yield pd.DataFrame([row.asDict()])


def at_timer(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `AtTimerInPandas` by key."""
    grouped = inputs["events"].groupBy("k")
    return grouped.transformWithStateInPandas(AtTimerInPandas(), OUTPUT, "Update", "EventTime")


def with_ttl(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `WithTtlInPandas` by key."""
    grouped = inputs["events"].groupBy("k")
    return grouped.transformWithStateInPandas(WithTtlInPandas(), OUTPUT, "Update", "ProcessingTime")
