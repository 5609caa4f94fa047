"""How old the oldest unread record of a task is at most, from the newest offsets of its topics at times before. Pure.

A record beyond the newest offset of a moment came after that moment. So where all unread records are beyond the newest
offsets of a sample, none of them is older than the sample. Samples are kept for a day, closer to each other the newer
they are: the answer is too great by a quarter at most. What came before the first sample has no known age.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from penstock.model.reports import TaskProgress
from penstock.spark.measure.progress import Offsets, newest_offsets, read_offsets

_KEPT_SECONDS = 86_400.0
_GAP_SHARE = 0.2
_SAME_SECONDS = 1.0


class Newest(NamedTuple):
    """The newest offsets by topic and partition at a time in seconds."""

    at: float
    offsets: Offsets


Seen = tuple[Newest, ...]
"""The oldest first."""


def with_newest(seen: Seen, record: Mapping[str, Any]) -> Seen:
    """The samples after one more progress record. One without the newest offsets of all sources adds nothing."""
    stamp = record.get("timestamp")
    return _with(seen, record, datetime.fromisoformat(stamp).timestamp()) if isinstance(stamp, str) else seen


def with_open_newest(seen: Seen, opened: Mapping[str, Any], now: float) -> Seen:
    """The same for a batch that lasts, and began `millis` before `now`."""
    return _with(seen, opened, now - float(opened["millis"]) / 1000)


def unread_since(seen: Seen, record: Mapping[str, Any], *, read: str = "endOffset") -> float | None:
    """The time, in seconds, after which all unread records came; None when that is unknown. `read`: the name of the
    offsets up to which the sources of the record have been read, `startOffset` of a batch that lasts."""
    done = read_offsets(record, read)
    if done is None:
        return None
    known = (newest.at for newest in reversed(seen) if _is_beyond(done, newest.offsets))
    return next(known, None)


def oldest_at_most(progress: TaskProgress, seen: Seen, since: float | None, now: float) -> TaskProgress:
    """The progress with the greatest age of an unread record, which grows until the next batch; it is the same object
    where that is told already, or nothing is unread. The age is unknown if `now` is before a sample or `since`: the
    clock went back."""
    age = None if since is None or now < max([since, *(each.at for each in seen)]) else round(now - since, 3)
    if age is None and progress.oldest_unread_at_most_seconds is None:
        return progress
    if progress.oldest_unread_at_most_seconds is not None and progress.backlog_records == 0:
        return progress
    return progress.model_copy(update={"oldest_unread_at_most_seconds": age})


def _with(seen: Seen, record: Mapping[str, Any], at: float) -> Seen:
    """Clocks or offsets that went back begin anew: the topic may be another one."""
    offsets = newest_offsets(record)
    if offsets is None or (seen and _is_same(seen[-1], Newest(at, offsets))):
        return seen
    newest = Newest(at, offsets)
    if seen and (at < seen[-1].at or not _is_beyond(offsets, seen[-1].offsets)):
        return (newest,)
    return _thinned((*(each for each in seen if at - each.at <= _KEPT_SECONDS), newest))


def _is_same(before: Newest, after: Newest) -> bool:
    """A batch is seen while it lasts and when it has ended, and the two tell its begin to a moment."""
    return before.offsets == after.offsets and abs(after.at - before.at) <= _SAME_SECONDS


def _thinned(seen: Seen) -> Seen:
    """Without each sample whose neighbours are close to each other, for the age of the older one."""
    kept = list(seen[:1])
    for middle, after in pairwise(seen[1:]):
        if after.at - kept[-1].at > _GAP_SHARE * (seen[-1].at - kept[-1].at):
            kept.append(middle)
    return (*kept, *seen[-1:]) if len(seen) > 1 else seen


def _is_beyond(offsets: Offsets, others: Offsets) -> bool:
    """Whether all partitions of `others` are in `offsets`, with no smaller offsets."""
    return all(
        offsets.get(topic, {}).get(partition, -1) >= offset
        for topic, partitions in others.items()
        for partition, offset in partitions.items()
    )
