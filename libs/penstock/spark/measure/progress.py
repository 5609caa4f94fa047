"""Spark's progress records to `TaskProgress`. Pure; what a record does not say stays None, which is unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from penstock.config.stream_names import is_stream_log
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskProgress

Record = Mapping[str, Any]
Offsets = dict[str, dict[str, int]]
_OFFSETS = TypeAdapter(Offsets)
_BYTES_BEHIND = "estimatedTotalBytesBehindLatest"
_HELD_BY, _HELD_MILLIS = "heldBackBy", "heldBackMillis"
_NOT_AWAITED, _WITHOUT_TIME = "notAwaited", "withoutTime"
_SKEW_MILLIS = "eventTimeSkewMillis"
_MINUTE_MILLIS = 60_000
_WHOLE = "triggerExecution"
_LEAST_PHASE = 0.05
"""Reports are many: a phase that takes less of a batch is not told."""


def task_progress(record: Record) -> TaskProgress:
    """What a query's `lastProgress` (parsed JSON) says of its task.

    Rates are rows per second of this batch alone (`penstock.spark.measure.rates` has those of a minute),
    `batch_seconds` is the duration of the micro-batch. `backlog_records` is Kafka's latest offsets less the offsets
    read, times the share of offsets that were rows in this batch: the markers of transactions, aborted rows and
    compacted ones have offsets too.
    `event_time_skew_seconds` is the greatest of the sources that measure it: how far unread rows lie behind the latest
    event time read.
    """
    sources = record.get("sources") or []
    operators = record.get("stateOperators") or []
    return TaskProgress(
        batch_id=_integer(record.get("batchId")),
        batch_seconds=_thousandth(record.get("batchDuration")),
        input_rows=_integer(record.get("numInputRows")),
        input_rows_per_second=_number(record.get("inputRowsPerSecond")),
        processed_rows_per_second=_number(record.get("processedRowsPerSecond")),
        backlog_records=_total(_backlog_records(source) for source in sources),
        backlog_bytes=_total(_integer(_metric(source, _BYTES_BEHIND)) for source in sources),
        key_group_backlogs=_by_key_group((source, "endOffset", _rows_per_offset(source)) for source in sources),
        watermark=(record.get("eventTime") or {}).get("watermark"),
        state_rows=_total(_integer(operator.get("numRowsTotal")) for operator in operators),
        state_memory_bytes=_total(_integer(operator.get("memoryUsedBytes")) for operator in operators),
        late_rows_dropped=late_rows(record),
        event_time_skew_seconds=_greatest(_thousandth(_metric(source, _SKEW_MILLIS)) for source in sources),
        offsets=_offsets_read(sources),
        **_held_back(sources),
        observed_at=record.get("timestamp"),
        phase_seconds=_phases(record.get("durationMs") or {}),
    )


def late_rows(record: Record) -> int | None:
    """The rows that a batch dropped because they are late; None of a query without state."""
    operators = record.get("stateOperators") or []
    return _total(_integer(operator.get("numRowsDroppedByWatermark")) for operator in operators)


def with_unreadable(progress: TaskProgress | None, problems: Mapping[str, str]) -> TaskProgress | None:
    """With the input that cannot be read, or without: a task that waits for its topic finishes no batch that would tell
    it. Pure."""
    kind = AlertKind.INPUT_UNREADABLE.value
    known = {} if progress is None else progress.input_problems
    if known.get(kind) == problems.get(kind):
        return progress
    others = {name: why for name, why in known.items() if name != kind}
    now = others | {name: why for name, why in problems.items() if name == kind}
    return (progress or TaskProgress()).model_copy(update={"input_problems": now})


def not_awaited(record: Record, *, accepts_late: bool = False) -> dict[str, str]:
    """The reason by its kind of alert, when an input does not wait for all producers of its topic any more, or for some
    that know no event time; unless the job accepts that they are late."""
    silent, without_time = _named(record, _NOT_AWAITED), _named(record, _WITHOUT_TIME)
    told = []
    if silent:
        told.append(
            f"{silent} came no further for completeness_wait_seconds and is not waited for: its rows that come now may "
            "be late, and are dropped then (late_rows_per_second)"
        )
    if without_time and not accepts_late:
        told.append(
            f"{without_time} writes to an input and knows no event time, so it is never waited for: rows of a slow "
            "task may be late, and are dropped then (late_rows_per_second). Set event_time_column and watermark_delay "
            "of the inputs of that job, or accept it by allow_late_producers"
        )
    return {AlertKind.NOT_AWAITED.value: "; ".join(told)} if told else {}


def _named(record: Record, metric: str) -> str:
    """The producers that a metric of the sources names."""
    names = (_metric(source, metric) for source in record.get("sources") or [])
    return ", ".join(name for name in names if isinstance(name, str))


def rows_per_offset(record: Record) -> tuple[float, ...]:
    """Of each source, the share of the batch's offsets that were rows."""
    return tuple(_rows_per_offset(source) for source in record.get("sources") or [])


def with_open_batch(progress: TaskProgress, opened: Record, shares: Sequence[float]) -> TaskProgress:
    """The progress while a batch lasts: what it reads is not done yet, and grows older.

    The batch began `millis` ago. Each source has the offsets where it begins and ends, and the newest ones at that
    time. The backlog counts from the beginning, in rows by the `shares` of the batch before. What came since then is
    not in it. `oldest_unread_seconds` is the least that is sure. A task whose batch lasts a minute has been busy in all
    of it.
    """
    sources = opened["sources"]
    known = shares if len(shares) == len(sources) else [1.0] * len(sources)
    backlog = [_beyond(source, "latestOffset", share) for source, share in zip(sources, known, strict=True)]
    planned = [_beyond(source, "endOffset", 1.0) for source in sources]
    has_rows = any(planned)
    changed: dict[str, Any] = {
        "backlog_records": _total(backlog),
        "backlog_bytes": None,
        "key_group_backlogs": _by_key_group(
            (source, "startOffset", share) for source, share in zip(sources, known, strict=True)
        ),
        "oldest_unread_seconds": _thousandth(opened["millis"]) if has_rows else None,
    }
    if opened["millis"] >= _MINUTE_MILLIS:
        changed["busy_share"] = 1.0
    return progress.model_copy(update=changed)


def newest_offsets(record: Record) -> Offsets | None:
    """The newest offsets by topic and partition when the batch began; None unless every source tells them."""
    newest: Offsets = {}
    for source in record.get("sources") or []:
        found = _offsets(source.get("latestOffset"))
        if not found:
            return None
        newest |= found
    return newest or None


def read_offsets(record: Record, name: str) -> Offsets | None:
    """The offsets of this name by topic and partition; None unless every source tells them."""
    sources = record.get("sources") or []
    known = all(_offsets(source.get(name)) for source in sources)
    return _offsets_read(sources, name) if sources and known else None


def _phases(durations: Record) -> dict[str, float] | None:
    """The phases of a batch that took a good part of it, by Spark's names; None without a batch."""
    whole = _number(durations.get(_WHOLE))
    if whole is None:
        return None
    known = {name: _number(millis) for name, millis in durations.items() if name != _WHOLE}
    return {name: ms / 1000 for name, ms in known.items() if ms is not None and ms > 0 and ms >= whole * _LEAST_PHASE}


def _held_back(sources: Iterable[Record]) -> dict[str, Any]:
    """Who has been waited for longest."""
    waits = [(_thousandth(_metric(source, _HELD_MILLIS)), _metric(source, _HELD_BY)) for source in sources]
    known = [(seconds, by) for seconds, by in waits if seconds is not None and isinstance(by, str)]
    if not known:
        return {}
    seconds, by = max(known)
    return {"held_back_by": by, "held_back_seconds": seconds}


def _backlog_records(source: Record) -> int | None:
    latest, read = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if not latest or not read:
        return None
    offsets = _total(_behind(read, latest))
    return None if offsets is None else math.ceil(offsets * _rows_per_offset(source))


def _by_key_group(sources: Iterable[tuple[Record, str, float]]) -> dict[str, int] | None:
    """Rows behind the newest offsets by partition, where there are any. Of each source: the name of the offsets that
    count as read, and the share of offsets that are rows. None unless every partition of every source tells it."""
    rows: dict[str, int] = {}
    known = list(sources)
    for source, read, share in known:
        latest, done = _offsets(source.get("latestOffset")), _offsets(source.get(read))
        if not latest or not done:
            return None
        partitions = [partition for of_topic in latest.values() for partition in of_topic]
        for partition, offsets in zip(partitions, _behind(done, latest), strict=True):
            if offsets is None:
                return None
            if offsets:
                rows[partition] = rows.get(partition, 0) + math.ceil(offsets * share)
    return rows if known else None


def _beyond(source: Record, end: str, share: float) -> int | None:
    start, until = _offsets(source.get("startOffset")), _offsets(source.get(end))
    offsets = _total(_behind(start, until)) if start and until else None
    return None if offsets is None else math.ceil(offsets * share)


def _rows_per_offset(source: Record) -> float:
    """The share of the batch's offsets that were rows; 1 when there is nothing to tell it from.

    A batch that read offsets and found no row (only markers) counts as half a row: what is behind is not nothing.
    """
    start, end = _offsets(source.get("startOffset")), _offsets(source.get("endOffset"))
    span = _total(_behind(start, end)) if start and end else None
    rows = _integer(source.get("numInputRows"))
    return 1.0 if not span or rows is None else min(1.0, max(rows, 0.5) / span)


def _behind(read: Offsets, newest: Offsets) -> list[int | None]:
    """How many offsets each partition of `newest` has more than `read`; None where `read` does not know it."""
    known = [
        (read.get(topic, {}).get(partition), offset)
        for topic, partitions in newest.items()
        for partition, offset in partitions.items()
    ]
    return [None if offset is None else max(0, end - offset) for offset, end in known]


def _metric(source: Record, name: str) -> Any:
    return (source.get("metrics") or {}).get(name)


def _offsets_read(sources: Iterable[Record], name: str = "endOffset") -> Offsets:
    """Several sources may read the same topic (a self-join): the one that is behind counts."""
    read: Offsets = {}
    for source in sources:
        for topic, partitions in (_offsets(source.get(name)) or {}).items():
            known = read.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(offset, known.get(partition, offset))
    return read


def _offsets(value: Any) -> Offsets | None:
    """Kafka's offsets by topic and partition, given as an object or as its JSON text; None for anything else. The
    sections of a stream are no records, so they tell no backlog."""
    try:
        found = _OFFSETS.validate_json(value) if isinstance(value, str) else _OFFSETS.validate_python(value)
    except ValidationError:
        return None
    return None if any(map(is_stream_log, found)) else found


def _total(parts: Iterable[int | None]) -> int | None:
    """The sum; None when there is nothing to add or a part is unknown, for then the sum is unknown too."""
    known = list(parts)
    numbers = [part for part in known if part is not None]
    return sum(numbers) if numbers and len(numbers) == len(known) else None


def _greatest(parts: Iterable[float | None]) -> float | None:
    return max((part for part in parts if part is not None), default=None)


def _number(value: Any) -> float | None:
    """A finite number, also given as text; None for anything else (Spark writes NaN where it has no rate)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _integer(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _thousandth(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else number / 1000
