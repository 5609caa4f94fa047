"""What comes into each key group of a task, from the newest offsets that its progress records tell. Pure.

The newest offsets, not those read: a task that lags reads what it can, not what comes. A record whose newest offsets
are not whole is passed over. At most 22 samples are kept, each of one number a key group.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from penstock.model.reports import KeyGroupRates
from penstock.spark.measure.progress import newest_offsets

WINDOW_SECONDS = 600.0
SAMPLE_SECONDS = 30.0


class Sample(NamedTuple):
    """Newest offsets of the key groups from `first` on, summed over the topics, at a time in seconds. `topics`: how
    many these are."""

    at: float
    first: int
    offsets: tuple[int, ...]
    topics: int = 1


Samples = tuple[Sample, ...]


def with_record(samples: Samples, record: Mapping[str, Any]) -> Samples:
    """The samples after one more progress record, the oldest first. Offsets or clocks that went back begin anew.

    So does another number of topics: what was in a topic before it was taken in did not come in since.
    """
    sample = _sample(record)
    if sample is None:
        return samples
    if not samples or not _follows(samples[-1], sample):
        return (sample,)
    kept = samples
    if len(kept) > 1 and kept[-1].at - kept[-2].at < SAMPLE_SECONDS:
        kept = kept[:-1]
    while len(kept) > 1 and sample.at - kept[1].at >= WINDOW_SECONDS:
        kept = kept[1:]
    return (*kept, sample)


def rates(samples: Samples) -> KeyGroupRates | None:
    """From the oldest sample to the newest; None before there is time between them."""
    if not samples or samples[-1].at <= samples[0].at:
        return None
    old, new = samples[0], samples[-1]
    seconds = new.at - old.at
    came = [(after - before) / seconds for before, after in zip(old.offsets, new.offsets, strict=True)]
    return KeyGroupRates(first=new.first, records_per_second=tuple(map(_rounded, came)), seconds=round(seconds, 1))


def _rounded(rate: float) -> float:
    """Four digits that count: reports are many."""
    return float(f"{rate:.4g}")


def _follows(before: Sample, after: Sample) -> bool:
    same = (before.first, len(before.offsets), before.topics) == (after.first, len(after.offsets), after.topics)
    return same and after.at >= before.at and all(a >= b for a, b in zip(after.offsets, before.offsets, strict=True))


def _sample(record: Mapping[str, Any]) -> Sample | None:
    """None unless every source tells the offsets of the same unbroken range of partitions."""
    offsets, timestamp = newest_offsets(record), record.get("timestamp")
    if not offsets or not isinstance(timestamp, str):
        return None
    by_topic = [{int(partition): offset for partition, offset in parts.items()} for parts in offsets.values()]
    groups = sorted(by_topic[0])
    if not groups or groups != list(range(groups[0], groups[-1] + 1)) or any(sorted(p) != groups for p in by_topic):
        return None
    summed = tuple(sum(parts[group] for parts in by_topic) for group in groups)
    return Sample(datetime.fromisoformat(timestamp).timestamp(), groups[0], summed, len(by_topic))
