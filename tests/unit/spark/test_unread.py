"""How old unread records are at most: stories of offsets."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.model.reports import TaskProgress
from penstock.spark.measure.unread import Seen, oldest_at_most, unread_since, with_newest, with_open_newest
from penstock.tasks.lag import lag_of

START = 1_000_000.0
Offsets = dict[str, dict[str, int]]


def record(at: float, read: Offsets, newest: Offsets | None) -> dict[str, Any]:
    """A batch that began at `at` seconds after the start, of a source for each topic."""
    stamp = datetime.fromtimestamp(START + at, UTC).isoformat().replace("+00:00", "Z")
    known = newest or {}
    sources = [{"endOffset": {topic: read[topic]}, "latestOffset": {topic: known.get(topic)}} for topic in read]
    return {"timestamp": stamp, "sources": sources if newest else [{"endOffset": read}]}


def of_one(at: float, read: int, newest: int) -> dict[str, Any]:
    return record(at, {"t": {"0": read}}, {"t": {"0": newest}})


def after(*records: dict[str, Any]) -> Seen:
    seen: Seen = ()
    for each in records:
        seen = with_newest(seen, each)
    return seen


def at_most(*records: dict[str, Any], now: float) -> float | None:
    seen = after(*records)
    since = unread_since(seen, records[-1])
    return oldest_at_most(TaskProgress(backlog_records=9), seen, since, START + now).oldest_unread_at_most_seconds


def test_records_beyond_the_newest_offset_of_a_moment_came_after_it() -> None:
    """1. All was read at 0 s. 2. A thousand came until 10 s, of which a hundred are read. 3. Half are, at 20 s. 4. All
    that was there at 10 s is."""
    story = [of_one(0, 50, 50), of_one(10, 150, 1050), of_one(20, 550, 1100), of_one(30, 1060, 1200)]
    assert [at_most(*story[: n + 1], now=10.0 * n + 2) for n in range(4)] == [2.0, 12.0, 22.0, 22.0]


def test_what_came_before_the_first_sample_has_no_known_age() -> None:
    assert at_most(of_one(0, 100, 5000), of_one(10, 200, 5000), now=11) is None
    assert unread_since((), of_one(0, 100, 100)) is None
    assert at_most(record(0, {"t": {"0": 5}}, None), now=1) is None


def test_each_partition_of_each_topic_counts() -> None:
    """Of one, a record is unread that was there at 0 s."""
    both = {"a": {"0": 10, "1": 10}, "b": {"0": 10}}
    begin = record(0, both, both)
    later = {"a": {"0": 90, "1": 90}, "b": {"0": 90}}
    assert at_most(begin, record(10, both, later), now=12) == 12.0
    for topic, partition in (("a", "0"), ("a", "1"), ("b", "0")):
        read = {name: dict(parts) for name, parts in later.items()}
        read[topic][partition] = 9
        assert at_most(begin, record(10, read, later), now=12) is None
    taken_in = later | {"c": {"0": 7}}
    assert at_most(begin, record(10, later | {"c": {"0": 0}}, taken_in), now=12) == 12.0


def test_a_batch_that_lasts_has_read_up_to_its_begin() -> None:
    """It began at 10 s, and is seen twice: the second time a moment off."""
    seen = after(of_one(0, 50, 50))
    text = {name: json.dumps({"t": {"0": value}}) for name, value in {"startOffset": 50, "latestOffset": 1050}.items()}
    for now, millis in ((13.0, 3_000), (14.0, 4_010)):
        opened = {"millis": millis, "sources": [text]}
        seen = with_open_newest(seen, opened, START + now)
        assert unread_since(seen, opened, read="startOffset") == START
    seen = with_newest(seen, of_one(10.0, 1050, 1050))
    assert [each.at - START for each in seen] == [0.0, pytest.approx(10.0, abs=0.1)]


def test_offsets_or_clocks_that_went_back_begin_anew() -> None:
    assert at_most(of_one(0, 50, 50), of_one(10, 0, 20), of_one(20, 20, 30), now=21) == 11.0
    assert at_most(of_one(100, 50, 50), of_one(10, 50, 60), now=12) is None


def test_an_age_is_unknown_after_the_clock_went_back() -> None:
    """A clock that is set back by ten minutes makes no record young. 1. Before all samples. 2. After the oldest of
    them, which has the age, and before the newest. 3. What was told before is taken back, and stays so."""
    story = [of_one(0, 50, 50), of_one(700, 100, 1050)]
    assert at_most(*story, now=701) == 701.0
    assert [at_most(*story, now=now) for now in (-600, 101)] == [None, None]
    told = TaskProgress(backlog_records=10_000, processed_rows_per_second=10.0, oldest_unread_at_most_seconds=5.0)
    unknown = oldest_at_most(told, (), START + 10, START)
    assert lag_of(unknown.backlog_records, 10.0, None, unknown.oldest_unread_at_most_seconds).seconds == 1000.0
    assert oldest_at_most(unknown, (), START + 10, START) is unknown


def test_a_day_of_samples_is_few_and_a_quarter_off_at_most() -> None:
    """A row a second comes, for two days, and none of the last `unread` ones is read."""
    seen: Seen = ()
    for second in range(0, 2 * 86_400, 10):
        seen = with_newest(seen, of_one(second, second, second))
    assert len(seen) < 60
    end = 2 * 86_400 - 10
    for unread in (15, 60, 600, 7_000, 50_000):
        since = unread_since(seen, of_one(end, end - unread, end))
        assert since is not None
        assert unread <= START + end - since <= 1.25 * unread + 10


def test_what_waits_for_the_next_batch_grows_older_and_nothing_else_changes() -> None:
    """The next batch is minutes away. What has nothing to read is told once: reports are many."""
    told = TaskProgress(backlog_records=900, oldest_unread_at_most_seconds=5.0)
    assert oldest_at_most(told, (), START, START + 300.0).oldest_unread_at_most_seconds == 300.0
    assert oldest_at_most(told, (), None, START + 300.0).oldest_unread_at_most_seconds is None
    idle = TaskProgress(backlog_records=0, oldest_unread_at_most_seconds=5.0)
    assert oldest_at_most(idle, (), START, START + 300.0) is idle
    unknown = TaskProgress(backlog_records=900)
    assert oldest_at_most(unknown, (), None, START) is unknown
