"""The rate of one task from all progress records of a run of its query. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.spark.measure.progress import task_progress
from penstock.tasks.profile import ProfileReport
from penstock.tasks.warm_up import COLD_BATCHES

Record = Mapping[str, Any]
_LOW_SHARE = 0.1


class _Batch(NamedTuple):
    rows: int
    seconds: float


def profile_of(records: Sequence[Record], *, read_all: bool, key_groups: int) -> ProfileReport:
    """What a run shows. The first two batches do not count if at least as many with rows follow, or the first one if
    another follows: in these Spark plans and compiles. A batch without rows says nothing of the rate."""
    working = [batch for record in records if (batch := _batch(record)) is not None]
    cold = COLD_BATCHES if len(working) >= 2 * COLD_BATCHES else min(1, max(0, len(working) - 1))
    warm = working[cold:]
    rows, seconds = sum(batch.rows for batch in warm), sum(batch.seconds for batch in warm)
    rates = sorted(batch.rows / batch.seconds for batch in warm)
    last = task_progress(records[-1]) if records else None
    return ProfileReport(
        rows=rows,
        batches=len(warm),
        seconds=round(seconds, 3),
        rows_per_second=round(rows / seconds, 3) if warm else None,
        low_rows_per_second=round(rates[int(_LOW_SHARE * (len(rates) - 1))], 3) if rates else None,
        state_rows=None if last is None else last.state_rows,
        state_memory_bytes=None if last is None else last.state_memory_bytes,
        read_all=read_all,
        key_groups=key_groups,
    )


def is_at_the_end(record: Record) -> bool:
    """Whether nothing was left to read after a batch; False when that is unknown."""
    return task_progress(record).backlog_records == 0


def _batch(record: Record) -> _Batch | None:
    rows, millis = record.get("numInputRows"), record.get("batchDuration")
    if not isinstance(rows, int) or not isinstance(millis, int | float) or rows <= 0 or millis <= 0:
        return None
    return _Batch(rows, millis / 1000)
