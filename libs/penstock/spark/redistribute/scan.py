"""The rows of an input beyond an event time: read, and decoded as the job's query decodes them, by a batch query."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input
from penstock.spark.redistribute.level import Span
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import connection_options, event_times


def first_beyond(
    session: SparkSession, source: Input, settings: SparkSettings, event_time_ms: int, spans: Mapping[int, Span]
) -> dict[int, int]:
    """By key group: the first offset in its span whose event time is after `event_time_ms`; absent if there is none.

    Event times are rounded down to whole milliseconds, as in Spark's watermark. Raises Spark's errors when the
    records cannot be read.
    """
    options = {
        **connection_options(settings),
        "assign": json.dumps({source.topic: sorted(spans)}),
        "startingOffsets": json.dumps({source.topic: {str(group): begin for group, (begin, _) in spans.items()}}),
        "endingOffsets": json.dumps({source.topic: {str(group): until for group, (_, until) in spans.items()}}),
        "failOnDataLoss": "true",
    }
    times = event_times(session.read.format("kafka").options(**options).load(), source)
    beyond = times.where(F.col("millis") > event_time_ms)
    return {row[0]: row[1] for row in beyond.groupBy("partition").agg(F.min("offset")).collect()}
