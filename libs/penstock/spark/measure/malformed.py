"""How many malformed records come, and whether any record has an event time, from counts in progress records. Pure.

Records that a batch reads again, after an error or for another sink, count again: shares are about right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from penstock.config.model import Input, JobConfig
from penstock.model.alert_rules import MALFORMED_WINDOW_SECONDS, limit_of
from penstock.model.alerts import AlertKind
from penstock.tasks.dead_letters import dead_letter_topic

_STEP_SECONDS = MALFORMED_WINDOW_SECONDS / 30
_MINUTES = f"{MALFORMED_WINDOW_SECONDS / 60:.0f} minutes"


class Seen(NamedTuple):
    """Records of an input since the query's start: all, those that were malformed, and whole ones without an event
    time."""

    records: int = 0
    malformed: int = 0
    without_time: int = 0


class Count(NamedTuple):
    """What the query has seen since its start, by input, at a time in seconds."""

    at: float
    inputs: Mapping[str, Seen]


Counts = tuple[Count, ...]


def with_count(counts: Counts, count: Count) -> Counts:
    """The counts after one more: those of the window, at most one for each thirtieth of it, and the last before it.

    A query counts from zero, so a smaller count than before is of a query that started again.
    """
    if not counts or _is_smaller(count, counts[-1]):
        counts = (Count(count.at, {}),)
    if len(counts) > 1 and count.at - counts[-2].at < _STEP_SECONDS:
        counts = counts[:-1]
    counts = (*counts, count)
    while len(counts) > 1 and count.at - counts[1].at >= MALFORMED_WINDOW_SECONDS:
        counts = counts[1:]
    return counts


def _is_smaller(count: Count, before: Count) -> bool:
    return any(count.inputs.get(name, Seen()).records < seen.records for name, seen in before.inputs.items())


def recent(counts: Counts) -> dict[str, Seen]:
    """What came in the window, by input."""
    if not counts:
        return {}
    before = counts[0].inputs
    return {
        name: Seen(*(new - old for new, old in zip(seen, before.get(name, Seen()), strict=True)))
        for name, seen in counts[-1].inputs.items()
    }


def reason(counts: Counts, job: str, config: JobConfig, goes_by_time: Callable[[], bool]) -> dict[str, str]:
    """The alerts: too many malformed records, and inputs of which no record has an event time, where the query has an
    operator that goes by it (`goes_by_time`, which is asked for such an input only)."""
    found = [(name, config.inputs[name], seen) for name, seen in recent(counts).items() if name in config.inputs]
    malformed = [_told(name, source, seen, job, config) for name, source, seen in found if _are_many(source, seen)]
    timeless = list(_without_time(found))
    if timeless and not goes_by_time():
        timeless = []
    told = {AlertKind.MALFORMED_RECORDS: malformed, AlertKind.NO_EVENT_TIME: timeless}
    return {kind: "; ".join(texts) for kind, texts in told.items() if texts}


def _are_many(source: Input, seen: Seen) -> bool:
    share = seen.malformed > source.malformed_alert_share * seen.records
    return seen.malformed > 0 and (share or seen.malformed >= source.malformed_alert_records)


def _told(name: str, source: Input, seen: Seen, job: str, config: JobConfig) -> str:
    share = f"{100 * seen.malformed / seen.records:.3g} %" if seen.records else "an unknown share"
    where = "the query has them as nulls"
    if source.malformed == "dead_letter":
        where = f"they are in the topic {dead_letter_topic(job, config)}"
    counted = f"{seen.malformed:,} of {seen.records:,} records ({share})"
    return f"inputs.{name}: {counted} were malformed in {_MINUTES}; {where}"


def _without_time(found: list[tuple[str, Input, Seen]]) -> Iterator[str]:
    for name, source, seen in found:
        whole = seen.records - seen.malformed
        if source.event_time_column is not None and seen.without_time == whole >= limit_of(AlertKind.NO_EVENT_TIME):
            yield (
                f"inputs.{name}: {source.event_time_column} was null in all {whole:,} records of {_MINUTES}, so no "
                "window gets them: does value_schema name the field as the records do, with upper and lower case?"
            )
