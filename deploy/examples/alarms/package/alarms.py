"""Sensors whose temperature has risen several times in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Rising(StatefulProcessor):
    """Keeps the last temperature of a sensor, and how often it has risen since it last did not."""

    def __init__(self, rises: int) -> None:
        self._rises = rises

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._last = handle.getValueState("last", "celsius BIGINT, rises BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        # The rows of a batch come in any order.
        for row in sorted(rows, key=lambda row: row.reading):
            celsius, rises = self._last.get() if self._last.exists() else (row.celsius, 0)
            rises = rises + 1 if row.celsius > celsius else 0
            self._last.update((row.celsius, rises))
            if rises == self._rises:
                yield Row(sensor=key[0], reading=row.reading, celsius=row.celsius)

    def close(self) -> None:
        pass


def rising(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """The job's query: see `query.python` in job.json."""
    readings = inputs["readings"].groupBy("sensor")
    return readings.transformWithState(
        Rising(args["rises"]), "sensor STRING, reading BIGINT, celsius BIGINT", "Append", "None"
    )
