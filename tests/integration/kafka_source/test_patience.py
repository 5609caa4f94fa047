"""Who a reader waits for, and for how long: the rule in Java, asked with marks and a clock of the test; and a reader
that goes on without a producer, and says so."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.model.alerts import AlertKind
from penstock.spark.measure.progress import late_rows, not_awaited
from tests.support.kafka.event_topics import T0_MILLIS, topic_of, write_times
from tests.support.kafka.hops import Reader, Shuffle, Topics
from tests.support.kafka.windowed import WINDOW_MILLIS

_SECOND = 1_000_000_000
_MINUTE = 60_000
_LIMIT_MILLIS = 1_500


@dataclass
class Waiting:
    """The Java rule of one reader that gives a silent producer up after 1.5 s; times of marks are in ms."""

    jvm: Any
    offset: int = 0
    marks: Any = field(init=False)
    patience: Any = field(init=False)

    def __post_init__(self) -> None:
        self.marks = self.jvm.io.penstock.kafka.marks.ProducerMarks()
        limit = self.jvm.java.util.OptionalLong.of(_LIMIT_MILLIS)
        self.patience = self.jvm.io.penstock.kafka.source.hold.Patience(limit)

    def mark(self, index: int, time: int, end: int, generation: int = 3) -> None:
        """Producer `index` of two has come to `time`, and has written up to `end` of partition 0."""
        self.offset += 1
        self.marks.add(self.offset, self._mark(index, time, end, generation))

    def read(self, end: int) -> None:
        self.marks.advance(self._mark(0, 0, end).ends())

    def bound(self, at_seconds: float) -> tuple[str, int] | None:
        """Whom the reader waits for then, and the time that this one has come to."""
        found = self.patience.apply(self.marks, int(at_seconds * _SECOND))
        return (found.get().producer(), found.get().millis()) if found.isPresent() else None

    def given_up(self) -> list[str]:
        return list(self.patience.givenUp())

    def _mark(self, index: int, time: int, end: int, generation: int = 3) -> Any:
        fields = {"g": "shuf", "gen": generation, "i": index, "n": 2, "t": time, "at": {"0": end}}
        return self.jvm.io.penstock.kafka.marks.Mark.of(json.dumps(fields).encode())


def test_a_silent_producer_is_given_up_after_the_time_and_counts_again_when_it_speaks(spark: SparkSession) -> None:
    """1. Two producers; the slow one is silent, and is given up 1.5 s after that was seen, not before. 2. The fast one
    bounds the readers, and stays silent as long: the reader waits for nobody. 3. Both speak again, in turn: each bounds
    the readers from then on."""
    waiting = Waiting(spark._jvm)
    waiting.mark(0, 5_000, end=10)
    waiting.mark(1, 1_000, end=20)
    waiting.read(20)
    assert [waiting.bound(at) for at in (100.0, 101.4)] == [("shuf/1/3", 1_000)] * 2
    assert waiting.given_up() == []
    assert (waiting.bound(101.5), waiting.given_up()) == (("shuf/0/3", 5_000), ["shuf/1/3"])
    assert (waiting.bound(103.0), waiting.given_up()) == (None, ["shuf/1/3", "shuf/0/3"])
    waiting.mark(1, 2_000, end=30)
    waiting.read(30)
    assert (waiting.bound(103.1), waiting.given_up()) == (("shuf/1/3", 2_000), ["shuf/0/3"])
    waiting.mark(0, 9_000, end=40)
    waiting.read(40)
    assert (waiting.bound(103.2), waiting.given_up()) == (("shuf/1/3", 2_000), [])


def test_a_producer_with_unread_rows_is_not_silent(spark: SparkSession) -> None:
    """1. The reader is in a backlog: however long it takes, nobody is given up. 2. It has read all: from then on the
    time counts."""
    waiting = Waiting(spark._jvm)
    waiting.mark(0, 5_000, end=10)
    waiting.mark(1, 1_000, end=20)
    waiting.read(20)
    waiting.mark(1, 3_000, end=30)
    assert [waiting.bound(at) for at in (0.0, 1_000.0)] == [("shuf/1/3", 1_000)] * 2
    waiting.read(30)
    assert [waiting.bound(at) for at in (1_000.1, 1_001.5)] == [("shuf/1/3", 3_000)] * 2
    assert (waiting.bound(1_001.6), waiting.given_up()) == (("shuf/0/3", 5_000), ["shuf/1/3"])


def test_a_producer_that_is_back_is_waited_for_before_its_rows_are_read(spark: SparkSession) -> None:
    """1. A silent producer is given up. 2. It writes: the reader, which is in a backlog, must not go on without it, for
    its rows would be late."""
    waiting = Waiting(spark._jvm)
    waiting.mark(0, 5_000, end=10)
    waiting.mark(1, 1_000, end=20)
    waiting.read(20)
    assert [waiting.bound(at) for at in (0.0, 1.5)] == [("shuf/1/3", 1_000), ("shuf/0/3", 5_000)]
    waiting.mark(1, 4_000, end=30)
    assert (waiting.bound(1.6), waiting.given_up()) == (("shuf/1/3", 1_000), [])


def test_a_producer_that_speaks_and_stands_still_is_given_up_until_it_comes_further(spark: SparkSession) -> None:
    """1. Every half second the slow producer writes, and says the same time; the reader reads it half a second later.
    The time of waiting goes on, also for the report, and 1.5 s after it began the producer is given up. 2. It goes on
    like that: it stays given up. 3. It comes further: it counts before its rows are read."""
    waiting = Waiting(spark._jvm)
    waiting.mark(0, 5_000, end=10)
    waiting.mark(1, 1_000, end=20)
    waiting.read(20)
    found = []
    for number in range(6):
        at = number / 2
        found.append((waiting.bound(at), waiting.patience.waitedMillis(int(at * _SECOND))))
        waiting.mark(1, 1_000, end=21 + number)
        waiting.mark(0, 6_000 + number, end=21 + number)
        waiting.bound(at + 0.1)
        waiting.read(21 + number)
    assert found[:3] == [(("shuf/1/3", 1_000), waited) for waited in (0, 500, 1_000)]
    assert [bound for bound, _ in found[3:]] == [("shuf/0/3", 6_002 + number) for number in range(3)]
    assert waiting.given_up() == ["shuf/1/3"]
    waiting.mark(1, 1_001, end=40)
    assert (waiting.bound(3.0), waiting.given_up()) == (("shuf/1/3", 1_000), [])


def test_the_next_generation_is_waited_for_anew(spark: SparkSession) -> None:
    """1. A silent producer is given up. 2. Its job is rescaled: the first task that speaks brings back the time of the
    one that was given up, whom the reader waits for again, and gives up again. 3. That one speaks, too."""
    waiting = Waiting(spark._jvm)
    waiting.mark(0, 5_000, end=10)
    waiting.mark(1, 1_000, end=20)
    waiting.read(20)
    assert [waiting.bound(at) for at in (0.0, 1.5)] == [("shuf/1/3", 1_000), ("shuf/0/3", 5_000)]
    waiting.mark(0, 6_000, end=30, generation=4)
    waiting.read(30)
    assert (waiting.bound(1.6), waiting.given_up()) == (("shuf/1/4", 1_000), [])
    assert (waiting.bound(3.1), waiting.given_up()) == (("shuf/0/4", 6_000), ["shuf/1/4"])
    waiting.mark(1, 5_500, end=40, generation=4)
    waiting.read(40)
    assert (waiting.bound(3.2), waiting.given_up()) == (("shuf/1/4", 5_500), [])


@pytest.mark.long
def test_a_reader_that_drops_late_rows_goes_on_without_a_producer_and_names_it(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. The second task writes ten minutes and dies; the first goes on. 2. After 1.5 s its windows come out, and the
    reader names the dead task. 3. That one comes back with what it had not read: its rows are late, are counted as
    such, and nobody is named any more."""
    begun, rest = range(0, 10 * _MINUTE, 1_000), range(10 * _MINUTE, 40 * _MINUTE, 1_000)
    topics = Topics.of(kafka.bootstrap, topic_of(kafka.bootstrap, {0: [*begun, *rest], 1: begun}))
    first, second = (Shuffle(spark, topics, tmp_path, partition) for partition in (0, 1))
    second.run_to_end()
    reader = Reader.of(spark, topics, tmp_path / "own", producerPatienceMillis=_LIMIT_MILLIS, idleTimeoutMillis=500)
    running = {"first": first.start(), "reader": reader.start()}
    try:
        wait_until(lambda: "shuf/1/0" in _told(running["reader"]), 60, "the dead task to be named")
        late = T0_MILLIS + 3 * WINDOW_MILLIS
        wait_until(lambda: late in reader.emitted.counts(), 60, "windows without its rows")
        before = reader.emitted.counts()
        write_times(kafka.bootstrap, topics.first, {1: rest})
        running["second"] = second.start()
        wait_until(lambda: _late(running["reader"]) > 0, 60, "late rows")
        wait_until(lambda: "shuf/1/0" not in _told(running["reader"]), 60, "the task to count again")
    finally:
        for query in running.values():
            query.stop()
    assert before[late] == WINDOW_MILLIS // 1_000, "of the first task alone"
    assert reader.emitted.counts()[late] == before[late]


@pytest.mark.long
def test_a_reader_names_producers_that_know_no_event_time(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. Of two tasks without event time both write ten minutes, and one of them thirty more. The reader waits for
    nobody, and names both. 2. The other goes on: its rows are late, as the reader said."""
    begun, rest = range(0, 10 * _MINUTE, 1_000), range(10 * _MINUTE, 40 * _MINUTE, 1_000)
    topics = Topics.of(kafka.bootstrap, topic_of(kafka.bootstrap, {0: [*begun, *rest], 1: begun}))
    first, second = (Shuffle(spark, topics, tmp_path, partition, timed=False) for partition in (0, 1))
    for shuffle in (second, first):
        shuffle.run_to_end()
    reader = Reader.of(spark, topics, tmp_path / "own", idleTimeoutMillis=500)
    query = reader.start()
    try:
        both = "shuf/0/0, shuf/1/0 writes to an input and knows no event time"
        wait_until(lambda: both in _told(query), 60, "their names")
        wait_until(lambda: T0_MILLIS + 3 * WINDOW_MILLIS in reader.emitted.counts(), 60, "windows")
        write_times(kafka.bootstrap, topics.first, {1: rest})
        second.run_to_end()
        wait_until(lambda: _late(query) > 0, 60, "late rows")
    finally:
        query.stop()


def _told(query: StreamingQuery) -> str:
    return not_awaited(_record(query)).get(AlertKind.NOT_AWAITED.value, "")


def _late(query: StreamingQuery) -> int:
    """Late sums of all batches that are kept."""
    return sum(late_rows(json.loads(progress.json)) or 0 for progress in query.recentProgress)


def _record(query: StreamingQuery) -> dict[str, Any]:
    progress = query.lastProgress
    found: dict[str, Any] = {} if progress is None else json.loads(progress.json)
    return found
