"""How fast a task reads and works, over the last minute, from the progress records of its batches. Pure.

A host sees a query's newest record once a second, so of quicker batches it sees some. The number of a batch says how
many it has missed: they count as the one that it sees. A query that waits for data has a record without rows every ten
seconds.

The times are those of the wall clock, as Spark tells no other. If that goes back, the batches seen before it tell no
rate by the clock: they are forgotten with the next batch, and until then the rates are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from penstock.spark.measure.progress import late_rows
from penstock.tasks.warm_up import COLD_BATCHES, WARM_UP_SECONDS

WINDOW_SECONDS = 60.0
_STEP_BACK_SECONDS = 1.0
"""A clock that is before the end of the newest batch by more than this went back. Less is the rounding of times."""


class Batch(NamedTuple):
    """The end of a batch in seconds, its rows and duration, how many batches it stands for, and its late rows. A cold
    one does not say how fast the task works."""

    ended_at: float
    number: int
    rows: int
    seconds: float
    stands_for: int
    late: int | None
    cold: bool = False


class Batches(NamedTuple):
    """The batches of the last minute, or the newest one, the oldest first; the time from which their rows came; and how
    many batches with rows were seen of the run, up to `COLD_BATCHES`."""

    since: float
    seen: tuple[Batch, ...] = ()
    worked: int = 0


class Rates(NamedTuple):
    """In rows per second: those that came in, by the clock, and those that were processed while batches ran."""

    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None


class Work(NamedTuple):
    """The share of the time in which batches ran, and the late rows dropped per second, by the clock."""

    busy_share: float | None = None
    late_rows_per_second: float | None = None


def with_batch(
    batches: Batches | None, record: Mapping[str, Any], now: float, *, warm_from: float | None = None
) -> Batches | None:
    """The batches after one more progress record. A record that is not whole is passed over. `now` in seconds.

    They begin anew if the clock went back, but the task stays as warm as it was.

    `warm_from`: when the host has warmed up; None: it has.
    """
    batch = _batch(record, batches)
    if batch is None:
        return batches
    began_at, worked = batch.ended_at - batch.seconds, 0 if batches is None else batches.worked
    batch = batch._replace(cold=worked < COLD_BATCHES or (warm_from is not None and began_at < warm_from))
    worked = min(COLD_BATCHES, worked + (batch.rows > 0))
    if batches is None or _went_back(batches, batch.ended_at):
        return Batches(began_at, (batch._replace(stands_for=1),), worked)
    since, seen = batches.since, (*batches.seen, batch)
    while len(seen) > 1 and now - seen[0].ended_at >= WINDOW_SECONDS:
        since, seen = seen[0].ended_at, seen[1:]
    return Batches(since, seen, worked)


def rates(batches: Batches | None, now: float) -> Rates:
    """Of the last minute, or since the first batch began; unknown before there was one, and after the clock went back
    until there is another. `now` in seconds.

    A minute without rows has the rates 0: how fast the task could work is not known then. While one batch lasts longer
    than a minute, the rates are those of the batch before it. Cold batches never say how fast the task works: until
    there is another one with rows, that is unknown.
    """
    if batches is None or _went_back(batches, now):
        return Rates()
    working = [batch for batch in batches.seen if batch.rows > 0]
    if not working:
        return Rates(0.0, 0.0)
    came, clock = sum(batch.rows * batch.stands_for for batch in working), _clock_seconds(batches, now)
    warm = [batch for batch in working if not batch.cold]
    rows, worked = sum(batch.rows for batch in warm), sum(batch.seconds for batch in warm)
    return Rates(came / clock if clock > 0 else None, rows / worked if worked > 0 else None)


def warm_from(known: float | None, record: Mapping[str, Any], now: float) -> float | None:
    """When a host has warmed up, after a progress record of one of its tasks; None before its first batch with rows.

    `now` in seconds. If the clock went back, the host is warm `WARM_UP_SECONDS` later at most.
    """
    if known is None:
        batch = _batch(record, None)
        if batch is None or not batch.rows:
            return None
        known = batch.ended_at - batch.seconds + WARM_UP_SECONDS
    return min(known, now + WARM_UP_SECONDS)


def work(batches: Batches | None, now: float) -> Work:
    """Over the same time as `rates`. Late rows are unknown of a query that has no state. `now` in seconds."""
    clock = 0.0 if batches is None or _went_back(batches, now) else _clock_seconds(batches, now)
    if batches is None or clock <= 0:
        return Work()
    busy = sum(batch.seconds * batch.stands_for for batch in batches.seen)
    late = [None if batch.late is None else batch.late * batch.stands_for for batch in batches.seen]
    known = [rows for rows in late if rows is not None]
    dropped = sum(known) if len(known) == len(late) else None
    return Work(round(min(1.0, busy / clock), 3), None if dropped is None else dropped / clock)


def _went_back(batches: Batches, now: float) -> bool:
    return any(now < batch.ended_at - _STEP_BACK_SECONDS for batch in batches.seen[-1:])


def _clock_seconds(batches: Batches, now: float) -> float:
    """The time in which the rows came: no less than the batches seen took, one after the other, where the clock went
    back by so little that nobody noticed."""
    return max(now - batches.since, sum(batch.seconds for batch in batches.seen))


def _batch(record: Mapping[str, Any], before: Batches | None) -> Batch | None:
    number, rows, millis = (record.get(name) for name in ("batchId", "numInputRows", "batchDuration"))
    started = record.get("timestamp")
    if not (isinstance(number, int) and isinstance(rows, int) and isinstance(started, str)):
        return None
    if not isinstance(millis, int | float):
        return None
    seconds = millis / 1000
    missed = 0 if before is None or not before.seen else number - before.seen[-1].number - 1
    ended_at = datetime.fromisoformat(started).timestamp() + seconds
    return Batch(ended_at, number, rows, seconds, 1 + max(0, missed), late_rows(record))
