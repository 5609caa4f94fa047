"""Which queries go by the event time of their inputs, by the plans that Spark makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.config.plan_nodes import parse_plan
from penstock.config.plan_time import goes_by_event_time


class Nothing(StatefulProcessor):
    def init(self, handle: Any) -> None:
        """Keeps nothing."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from ()

    def close(self) -> None:
        """Has nothing."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Has the streams `timed`, with the event time `at`, `untimed`, where it has no watermark, and `other`."""
    session = spark.newSession()
    rate = session.readStream.format("rate").load()
    untimed = rate.selectExpr("timestamp AS at", "value AS v", "string(value) AS k")
    untimed.createOrReplaceTempView("untimed")
    untimed.withWatermark("at", "10 seconds").createOrReplaceTempView("timed")
    rate.selectExpr("timestamp AS at2", "value AS w").withWatermark("at2", "1 minute").createOrReplaceTempView("other")
    return session


def goes_by(frame: DataFrame) -> bool:
    return goes_by_event_time(parse_plan(str(frame._jdf.queryExecution().analyzed().toJSON())), ["AT"])


TIMED = [
    "SELECT window(at, '1 minute').end AS e, count(*) FROM timed GROUP BY window(at, '1 minute')",
    "SELECT window.end AS e, count(*) FROM timed GROUP BY window(at, '1 minute', '10 seconds'), k",
    "SELECT window.end AS e, count(*) FROM untimed GROUP BY window(at, '1 minute')",
    "SELECT session_window.end AS e, count(*) FROM timed GROUP BY session_window(at, '1 minute'), k",
    "WITH x AS (SELECT window(at, '1 minute') AS w FROM timed) SELECT w.end, count(*) FROM x GROUP BY w",
    "SELECT date_trunc('hour', at) AS h, count(*) FROM timed GROUP BY 1",
    "SELECT h FROM (SELECT date(at) AS h FROM timed UNION ALL SELECT date(at2) FROM other) GROUP BY h",
    "SELECT DISTINCT at, k FROM timed",
    "SELECT k FROM timed JOIN other ON v = w AND at2 BETWEEN at AND at + INTERVAL 1 MINUTE",
]
UNTIMED = [
    "SELECT * FROM timed",
    "SELECT k, at FROM timed WHERE at > now()",
    "SELECT k, count(*), max(at) FROM timed GROUP BY k",
    "SELECT DISTINCT k FROM timed",
    "SELECT k FROM timed JOIN other ON v = w",
    "SELECT k FROM timed JOIN (SELECT 1 AS one) ON v = one",
]


def test_sql_goes_by_event_time_where_it_brings_rows_together_by_it(session: SparkSession) -> None:
    assert [sql for sql in TIMED if not goes_by(session.sql(sql))] == []
    assert [sql for sql in UNTIMED if goes_by(session.sql(sql))] == []


def _pandas(timeout: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy("k").applyInPandasWithState(
        lambda key, rows, state: iter(()), "k string", "n int", "append", timeout
    )


def _processor(mode: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy("k").transformWithStateInPandas(Nothing(), "k string", "append", mode)


@pytest.mark.parametrize(
    ("made", "is_timed"),
    [
        (lambda frame: frame.dropDuplicates(["k"]), False),
        (lambda frame: frame.dropDuplicates(["k", "at"]), True),
        (lambda frame: frame.dropDuplicatesWithinWatermark(["k"]), True),
        (_pandas("NoTimeout"), False),
        (_pandas("ProcessingTimeTimeout"), False),
        (_pandas("EventTimeTimeout"), True),
        (_processor("None"), False),
        (_processor("ProcessingTime"), False),
        (_processor("EventTime"), True),
    ],
)
def test_python_goes_by_event_time_where_it_asks_for_it(
    session: SparkSession, made: Callable[[DataFrame], DataFrame], is_timed: bool
) -> None:
    assert goes_by(made(session.table("timed"))) == is_timed
