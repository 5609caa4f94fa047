"""How far an input is to be read so that a query comes to a watermark and not beyond it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from penstock.config.event_time import delay_millis
from penstock.config.model import Input
from penstock.config.stream import Stream
from penstock.control.errors import Unavailable
from penstock.spark.redistribute.level import Span, cuts
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import first_beyond


def has_event_time(source: Input | Stream) -> bool:
    """Whether rows of the input have a part in a watermark."""
    return source.event_time_column is not None and source.watermark_delay is not None


def cuts_of(
    session: SparkSession,
    settings: SparkSettings,
    source: Input,
    topic: str,
    goal_ms: int,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    is_over: Callable[[], bool],
) -> dict[int, int]:
    """The cuts of a topic of an input with event time, by key group, for the watermark `goal_ms`; as `level.cuts`.

    Raises Unavailable when `is_over` says so, but not before the first span was searched.
    """
    assert source.watermark_delay is not None
    last_ms = goal_ms + delay_millis(source.watermark_delay)

    def search(spans: Mapping[int, Span]) -> dict[int, int]:
        if is_over() and any(lo > begins[group] for group, (lo, _) in spans.items()):
            raise Unavailable(f"the search for the common watermark in {topic} took too long")
        return first_beyond(session, source, topic, settings, last_ms, spans)

    return cuts(begins, ends, search)
