"""The time that all producers of a topic have come to (Java: `ProducerMarks`), with many producers and any order."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

_PARTITIONS = 3


class Step(NamedTuple):
    """A producer writes rows, each to a partition and so much later than the one before, and its mark."""

    producer: int
    rows: tuple[tuple[int, int], ...]


@dataclass
class Topic:
    """What producers wrote: times of rows by partition, each with its producer; and how far each one has come."""

    marks: Any
    jvm: Any
    producers: int
    rows: defaultdict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    come_to: dict[int, int] = field(default_factory=dict)

    def take(self, step: Step, offset: int) -> None:
        time = self.come_to.get(step.producer, 0)
        for partition, later in step.rows:
            time += later
            self.rows[partition].append((time, step.producer))
        self.come_to[step.producer] = time
        ends = {partition: len(self.rows[partition]) for partition, _ in step.rows}
        self.marks.add(offset, self._mark(step.producer, time, ends))

    def read(self, ends: dict[int, int]) -> None:
        self.marks.advance(self._mark(0, 0, ends).ends())

    def bound(self) -> int | None:
        found = self.marks.bound(self.jvm.java.util.function.Predicate.isEqual("nobody"))
        return int(found.get().millis()) if found.isPresent() else None

    def _mark(self, producer: int, time: int, ends: dict[int, int]) -> Any:
        at = {str(partition): end for partition, end in ends.items()}
        fields = {"g": "shuf", "gen": 1, "i": producer, "n": self.producers, "t": time, "at": at}
        return self.jvm.io.penstock.kafka.marks.Mark.of(json.dumps(fields).encode())


@st.composite
def stories(draw: st.DrawFn) -> tuple[int, list[Step], list[dict[int, int]]]:
    """The number of producers, what they write in turn, and after each step how far the reader has read in percent."""
    producers = draw(st.integers(1, 6))
    rows = st.lists(st.tuples(st.integers(0, _PARTITIONS - 1), st.integers(1, 9)), max_size=4).map(tuple)
    steps = draw(st.lists(st.builds(Step, st.integers(0, producers - 1), rows), min_size=1, max_size=12))
    share = st.fixed_dictionaries({partition: st.integers(0, 100) for partition in range(_PARTITIONS)})
    return producers, steps, draw(st.lists(share, min_size=len(steps), max_size=len(steps)))


@given(stories())
def test_no_row_that_is_unread_or_to_come_is_before_the_bound(
    spark: SparkSession, story: tuple[int, list[Step], list[dict[int, int]]]
) -> None:
    """1. After each step the reader has read more of each partition: all other rows are later than the bound, and so is
    what each producer writes next. A producer that has said nothing yet holds all back. 2. All is read: the bound is
    how far the slowest has come."""
    producers, steps, shares = story
    topic = Topic(spark._jvm.io.penstock.kafka.marks.ProducerMarks(), spark._jvm, producers)
    ends = dict.fromkeys(range(_PARTITIONS), 0)
    for offset, (step, share) in enumerate(zip(steps, shares, strict=True)):
        topic.take(step, offset)
        for partition in ends:
            unread = len(topic.rows[partition]) - ends[partition]
            ends[partition] += unread * share[partition] // 100
        topic.read(ends)
        bound = topic.bound()
        assert bound is not None
        assert bound < 0 or len(topic.come_to) == producers
        assert all(time > bound for partition, end in ends.items() for time, _ in topic.rows[partition][end:])
        assert all(time >= bound for time in topic.come_to.values())
    topic.read({partition: len(topic.rows[partition]) for partition in ends})
    slowest = min(topic.come_to.values()) if len(topic.come_to) == producers else -(2**63)
    assert topic.bound() == slowest
