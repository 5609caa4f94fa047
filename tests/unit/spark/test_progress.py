"""`task_progress` on records that Spark 4.2 wrote (`recorded_progress.json`), and on what they might lack."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.model.alerts import INPUT_ALERTS, AlertKind
from penstock.model.reports import TaskProgress
from penstock.spark.measure.progress import (
    not_awaited,
    rows_per_offset,
    task_progress,
    with_open_batch,
    with_unreadable,
)

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_progress.json").read_text())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "stateless, behind",
            {"batch_id": 0, "input_rows": 1500, "backlog_records": 2500, "state_rows": None, "watermark": None},
        ),
        (
            "stateless, second batch",
            {"batch_id": 1, "input_rows_per_second": 325.4, "processed_rows_per_second": 2173.9, "batch_seconds": 0.69},
        ),
        (
            "stateful, first batch",
            {"state_rows": 42, "state_memory_bytes": 10280, "backlog_records": 0, "late_rows_dropped": 0},
        ),
        (
            "stateful, late row dropped",
            {"late_rows_dropped": 1, "state_rows": 8, "watermark": "2024-01-01T00:58:00.000Z", "input_rows": 2},
        ),
        ("stateful, idle", {"batch_id": 4, "input_rows": 0, "backlog_records": 0, "state_rows": 1}),
    ],
)
def test_recorded(name: str, expected: dict[str, Any]) -> None:
    progress = task_progress(RECORDED[name])
    assert {field: getattr(progress, field) for field in expected} == expected
    assert progress.observed_at == RECORDED[name]["timestamp"]


def test_offsets_are_those_that_were_read() -> None:
    assert task_progress(RECORDED["stateless, behind"]).offsets == {"events": {"0": 375, "1": 375, "2": 375, "3": 375}}


def test_backlog_bytes_only_where_kafka_estimates_them() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    assert task_progress(record).backlog_bytes is None
    record["sources"][0]["metrics"]["estimatedTotalBytesBehindLatest"] = "81234.0"
    assert task_progress(record).backlog_bytes == 81234


@pytest.mark.parametrize(("skews", "seconds"), [([None], None), (["90000"], 90.0), (["0", None, "1500"], 1.5)])
def test_the_greatest_skew_of_the_sources_that_measure_it(skews: list[str | None], seconds: float | None) -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    metrics = [{} if skew is None else {"eventTimeSkewMillis": skew} for skew in skews]
    record["sources"] = [record["sources"][0] | {"metrics": measured} for measured in metrics]
    assert task_progress(record).event_time_skew_seconds == seconds


def test_the_producer_that_has_been_waited_for_longest() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    waits = [("a/0/1", "1500"), ("b/1/2", "90000"), (None, None)]
    metrics = [{} if by is None else {"heldBackBy": by, "heldBackMillis": millis} for by, millis in waits]
    record["sources"] = [record["sources"][0] | {"metrics": measured} for measured in metrics]
    progress = task_progress(record)
    assert (progress.held_back_by, progress.held_back_seconds) == ("b/1/2", 90.0)


def test_producers_that_are_not_waited_for_are_named_as_what_is_wrong_with_the_inputs() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    assert not_awaited(record) == {}
    metrics = [{"notAwaited": "a/0/1, a/1/1"}, {}, {"notAwaited": "b/1/2"}]
    record["sources"] = [record["sources"][0] | {"metrics": measured} for measured in metrics]
    (kind,) = found = not_awaited(record)
    assert (AlertKind(kind), kind in INPUT_ALERTS) == (AlertKind.NOT_AWAITED, True)
    assert "a/0/1, a/1/1, b/1/2 came no further" in found[kind]


def test_producers_without_event_time_are_named_unless_the_job_accepts_them() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    metrics = [{"withoutTime": "a/0/1, a/1/1"}, {"notAwaited": "b/1/2"}]
    record["sources"] = [record["sources"][0] | {"metrics": measured} for measured in metrics]
    told = not_awaited(record)[AlertKind.NOT_AWAITED]
    assert "a/0/1, a/1/1 writes to an input and knows no event time" in told
    assert "b/1/2 came no further" in told
    accepted = not_awaited(record, accepts_late=True)[AlertKind.NOT_AWAITED]
    assert "b/1/2 came no further" in accepted
    assert "knows no event time" not in accepted


def test_an_input_that_cannot_be_read_is_told_though_no_batch_ends() -> None:
    """1. All is well. 2. A topic is gone, before the first batch and after. 3. It is back."""
    known = task_progress(RECORDED["stateless, behind"])
    known = known.model_copy(update={"input_problems": {"malformed_records": "3"}})
    assert with_unreadable(None, {}) is None
    assert with_unreadable(known, {"partitions_not_read": "4 of 8"}) is known
    gone = {"input_unreadable": "no topic", "partitions_not_read": "4 of 8"}
    first = with_unreadable(None, gone)
    assert (first and first.input_problems, first and first.batch_id) == ({"input_unreadable": "no topic"}, None)
    told = with_unreadable(known, gone)
    assert told is not None
    assert told.input_problems == {"malformed_records": "3", "input_unreadable": "no topic"}
    assert with_unreadable(told, {}) == known


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ({}, None),
        ({"addBatch": 900}, None),
        (
            {"triggerExecution": 1000, "addBatch": 900, "walCommit": 50, "getBatch": 49},
            {"addBatch": 0.9, "walCommit": 0.05},
        ),
        ({"triggerExecution": 0, "latestOffset": 0}, {}),
        ({"triggerExecution": 10, "addBatch": "?"}, {}),
    ],
)
def test_the_phases_that_took_a_good_part_of_a_batch(
    durations: dict[str, Any], expected: dict[str, float] | None
) -> None:
    assert task_progress({"durationMs": durations}).phase_seconds == expected


def test_an_empty_record_is_unknown_in_everything() -> None:
    assert task_progress({}) == TaskProgress()


@pytest.mark.parametrize("broken", [None, "no json", 7, {"events": None}])
def test_unreadable_offsets_are_an_unknown_backlog_not_none(broken: Any) -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    record["sources"][0]["latestOffset"] = broken
    assert task_progress(record).backlog_records is None


def test_one_partition_unread_makes_the_backlog_unknown() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    del record["sources"][0]["endOffset"]["events"]["3"]
    assert task_progress(record).backlog_records is None


def test_one_source_unknown_makes_the_sum_unknown() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    record["sources"].append({**record["sources"][0], "latestOffset": None})
    assert task_progress(record).backlog_records is None


def test_backlogs_of_several_sources_add_up() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    other = copy.deepcopy(record["sources"][0])
    other["endOffset"]["events"]["0"] = 300
    record["sources"].append(other)
    progress = task_progress(record)
    assert progress.backlog_records == 2500 + 2575
    assert progress.offsets["events"]["0"] == 300


@pytest.mark.parametrize(
    ("read", "latest", "expected"),
    [
        pytest.param([375] * 4, [1000] * 4, {"0": 625, "1": 625, "2": 625, "3": 625}, id="even"),
        pytest.param([375, 375, 375, 375], [375, 400, 375, 975], {"1": 25, "3": 600}, id="only where rows wait"),
        pytest.param([375] * 4, [375] * 4, {}, id="none waits"),
        pytest.param([375] * 3, [1000] * 4, None, id="a key group that is not known to be read"),
        pytest.param([], [1000] * 4, None, id="nothing known"),
    ],
)
def test_the_backlog_of_each_key_group(read: list[int], latest: list[int], expected: dict[str, int] | None) -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    (source,) = record["sources"]
    for name, offsets in (("endOffset", read), ("latestOffset", latest)):
        source[name] = {"events": {str(partition): offset for partition, offset in enumerate(offsets)}}
    source["numInputRows"] = 1500
    assert task_progress(record).key_group_backlogs == expected


def test_the_backlog_of_a_key_group_is_that_of_all_inputs() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    record["sources"].append(copy.deepcopy(record["sources"][0]))
    assert task_progress(record).key_group_backlogs == dict.fromkeys("0123", 1250)
    record["sources"][1]["latestOffset"] = None
    assert task_progress(record).key_group_backlogs is None


def test_offsets_given_as_text_count_the_same() -> None:
    record = copy.deepcopy(RECORDED["stateless, behind"])
    source = record["sources"][0]
    source["latestOffset"], source["endOffset"] = json.dumps(source["latestOffset"]), json.dumps(source["endOffset"])
    assert task_progress(record).backlog_records == 2500


@pytest.mark.parametrize("value", ["NaN", "Infinity", None, "fast"])
def test_a_rate_that_is_no_number_is_unknown(value: Any) -> None:
    record = {**RECORDED["stateless, behind"], "processedRowsPerSecond": value}
    assert task_progress(record).processed_rows_per_second is None


@pytest.mark.parametrize(
    ("story", "rows", "expected"),
    [
        ("every offset was a row", 1000, 300),
        ("one transaction marker in every ten offsets", 900, 270),
        ("only markers: something is behind all the same", 0, 1),
        ("a self-join reads rows twice", 2000, 300),
        ("Spark does not say how many rows", None, 300),
    ],
)
def test_the_backlog_is_rows_not_offsets(story: str, rows: int | None, expected: int) -> None:
    source = {
        "startOffset": {"events": {"0": 100, "1": 100}},
        "endOffset": {"events": {"0": 600, "1": 600}},
        "latestOffset": {"events": {"0": 800, "1": 700}},
        "numInputRows": rows,
    }
    assert task_progress({"sources": [source]}).backlog_records == expected, story


def test_a_batch_that_read_nothing_tells_no_share_of_rows() -> None:
    same = {"events": {"0": 100}}
    source = {"startOffset": same, "endOffset": same, "latestOffset": {"events": {"0": 140}}, "numInputRows": 0}
    assert task_progress({"sources": [source]}).backlog_records == 40


def opened(start: int | None, end: int | None, latest: int | None, millis: int = 90_000) -> dict[str, Any]:
    """An unfinished batch of one source with one partition."""
    offsets = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    texts = {name: None if value is None else json.dumps({"t": {"0": value}}) for name, value in offsets.items()}
    return {"millis": millis, "sources": [texts]}


@pytest.mark.parametrize(
    ("batch", "shares", "backlog", "oldest"),
    [
        (opened(100, 600, 1100), (), 1000, 90.0),
        (opened(100, 600, 1100), (0.5,), 500, 90.0),
        (opened(100, 600, 1100), (0.5, 0.5), 1000, 90.0),
        (opened(100, 600, None), (), None, 90.0),
        (opened(None, 600, 1100), (), None, None),
        (opened(100, 100, 100), (), 0, None),
        ({"millis": 90_000, "sources": []}, (), None, None),
    ],
)
def test_what_an_unfinished_batch_reads_is_not_done_yet(
    batch: dict[str, Any], shares: tuple[float, ...], backlog: int | None, oldest: float | None
) -> None:
    before = TaskProgress(batch_id=4, backlog_records=7, backlog_bytes=70, processed_rows_per_second=5.0)
    after = with_open_batch(before, batch, shares)
    assert (after.backlog_records, after.backlog_bytes, after.oldest_unread_seconds) == (backlog, None, oldest)
    assert after.key_group_backlogs == (None if backlog is None else {"0": backlog} if backlog else {})
    assert (after.batch_id, after.processed_rows_per_second) == (4, 5.0)


@pytest.mark.parametrize(("millis", "busy"), [(59_000, 0.4), (60_000, 1.0)])
def test_a_task_whose_batch_lasts_a_minute_is_busy(millis: int, busy: float) -> None:
    after = with_open_batch(TaskProgress(busy_share=0.4), opened(100, 600, 1100, millis), ())
    assert after.busy_share == busy


def test_the_share_of_offsets_that_were_rows_by_source() -> None:
    record = copy.deepcopy(RECORDED["stateless, second batch"])
    source = record["sources"][0] | {"startOffset": {"t": {"0": 0}}, "endOffset": {"t": {"0": 10}}, "numInputRows": 5}
    assert rows_per_offset({"sources": [source, source | {"numInputRows": 10}]}) == (0.5, 1.0)
    assert rows_per_offset({}) == ()
