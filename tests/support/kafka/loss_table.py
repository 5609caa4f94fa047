"""Rows that a catch-up loses as late, with Spark's source and with `penstock-kafka`, by the shape of the input.

Six hours of event time lie in a topic; a windowed count with a watermark catches up in limited batches. The partitions
differ in volume in all shapes; what else differs is the shape's name.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.kafka.event_topics import topic_of
from tests.support.kafka.windowed import CatchUp, catch_up, read, windowed

_HOUR_S = 3600
_SPAN_S = 6 * _HOUR_S
_VOLUMES = (1, 2, 3, 4)
Rate = Callable[[int], float]


@dataclass(frozen=True)
class Shape:
    """Rows per second of each partition over the seconds of the span, and how far rows are out of order."""

    name: str
    rates: tuple[Rate, ...]
    disorder_s: float
    spark_loses: bool

    def times(self, rows: int) -> dict[int, list[int]]:
        """Event times in milliseconds by partition, in the order of arrival; `rows` in all, within a few."""
        volume = sum(rate(second) for rate in self.rates for second in range(0, _SPAN_S, 60)) * 60
        return {
            partition: list(_arrivals(rate, rows / volume, self.disorder_s, random.Random(partition)))
            for partition, rate in enumerate(self.rates)
        }


def _arrivals(rate: Rate, scale: float, disorder_s: float, chance: random.Random) -> Iterator[int]:
    """Arrivals follow the rate; a row happened up to `disorder_s` before it arrived."""
    due = 0.0
    for second in range(_SPAN_S):
        due += rate(second) * scale
        count, due = int(due), due - int(due)
        for place in range(count):
            yield max(0, second * 1000 + place * 1000 // count - int(chance.random() * disorder_s * 1000))


def _steady(volume: float) -> Rate:
    return lambda second: volume


def _between(volume: float, start_h: float, end_h: float) -> Rate:
    return lambda second: volume if start_h * _HOUR_S <= second < end_h * _HOUR_S else 0.0


def _idle_between(volume: float, start_h: float, end_h: float) -> Rate:
    return lambda second: 0.0 if start_h * _HOUR_S <= second < end_h * _HOUR_S else volume


def _bursts(volume: float, place: int) -> Rate:
    return lambda second: volume * (20 if second // 1200 % 9 == place else 0.2)


def _daily(volume: float, phase: float) -> Rate:
    return lambda second: volume * (1 + 0.95 * math.sin(2 * math.pi * (second / _SPAN_S + phase)))


_ALL = tuple(map(_steady, _VOLUMES))
SHAPES = {
    shape.name: shape
    for shape in [
        Shape("constant", _ALL, 60, spark_loses=False),
        Shape("early end", (*_ALL, _between(2, 0, 2)), 60, spark_loses=True),
        Shape("late start", (*_ALL, _between(2, 4, 6)), 60, spark_loses=True),
        Shape("idle", (*_ALL, _idle_between(2, 1, 5)), 60, spark_loses=True),
        Shape("bursty", tuple(_bursts(volume, 2 * place) for place, volume in enumerate(_VOLUMES)), 60, True),
        Shape("daily", tuple(_daily(volume, place / 8) for place, volume in enumerate(_VOLUMES * 2)), 120, True),
    ]
}


@dataclass(frozen=True)
class Case:
    """One line of the table. `limit` is in rows a batch, `delay_minutes` the watermark's."""

    shape: Shape
    delay_minutes: int
    limit: int
    rows: int


@dataclass(frozen=True)
class Outcome:
    """What both sources made of a case."""

    case: Case
    rows: int
    own_lost: int
    spark_lost: int
    own_batches: int
    spark_batches: int
    lookup_millis_per_batch: float


def cases(delays_minutes: tuple[int, ...], shares: tuple[float, ...], rows: int) -> list[Case]:
    """Every shape with every delay and limit; a limit is a share of all rows."""
    return [
        Case(shape, delay, int(share * rows), rows)
        for shape, delay, share in itertools.product(SHAPES.values(), delays_minutes, shares)
    ]


def outcomes(session: SparkSession, bootstrap: str, wanted: Iterable[Case], folder: Path) -> Iterator[Outcome]:
    """Runs the cases, one topic for all cases of a shape; they must be sorted by shape."""
    for shape, group in itertools.groupby(wanted, key=lambda case: case.shape):
        some = list(group)
        times = shape.times(some[0].rows)
        topic = topic_of(bootstrap, times)
        for case in some:
            place = folder / f"{shape.name}-{case.delay_minutes}-{case.limit}"
            own = _run(session, bootstrap, topic, "penstock-kafka", case, place / "own")
            plain = _run(session, bootstrap, topic, "kafka", case, place / "spark")
            yield _outcome(case, [at for column in times.values() for at in column], own, plain)


def _run(session: SparkSession, bootstrap: str, topic: str, source: str, case: Case, checkpoint: Path) -> CatchUp:
    records = read(session, bootstrap, topic, source, maxOffsetsPerTrigger=case.limit)
    return catch_up(windowed(records, f"{case.delay_minutes} minutes"), checkpoint)


def _outcome(case: Case, times: list[int], own: CatchUp, plain: CatchUp) -> Outcome:
    batches = len(own.rows_by_batch())
    return Outcome(
        case=case,
        rows=len(times),
        own_lost=own.rows_lost(times),
        spark_lost=plain.rows_lost(times),
        own_batches=batches,
        spark_batches=len(plain.rows_by_batch()),
        lookup_millis_per_batch=int(own.metrics()[-1]["balanceLookupMillis"]) / batches,
    )
