"""How many malformed records come, from the counts that progress records bring. Pure."""

from __future__ import annotations

from typing import NamedTuple

from penstock.config.model import JobConfig
from penstock.model.alert_rules import MALFORMED_WINDOW_SECONDS
from penstock.model.alerts import AlertKind
from penstock.tasks.dead_letters import dead_letter_topic


class Count(NamedTuple):
    """The malformed records since the query's start, at a time in seconds."""

    at: float
    records: int


Counts = tuple[Count, ...]


def with_count(counts: Counts, count: Count) -> Counts:
    """The counts after one more: the changes in the window, and the last count before it.

    A query counts from zero, so a smaller count than before is of a query that started again.
    """
    if not counts or count.records < counts[-1].records:
        counts = (Count(count.at, 0),)
    if count.records > counts[-1].records:
        counts = (*counts, count)
    while len(counts) > 1 and count.at - counts[1].at >= MALFORMED_WINDOW_SECONDS:
        counts = counts[1:]
    return counts


def recent(counts: Counts) -> int:
    """How many came in the window."""
    return counts[-1].records - counts[0].records if counts else 0


def reason(counts: Counts, job: str, config: JobConfig) -> dict[str, str]:
    """The alert, if malformed records came."""
    came = recent(counts)
    if not came:
        return {}
    modes = {source.malformed for source in config.inputs.values()}
    topic = f"those with malformed dead_letter are in the topic {dead_letter_topic(job, config)}"
    where = "the query has them as nulls" if modes == {"null"} else topic
    records = "record" if came == 1 else "records"
    minutes = f"{MALFORMED_WINDOW_SECONDS / 60:.0f} minutes"
    return {AlertKind.MALFORMED_RECORDS: f"{came} malformed {records} in {minutes}; {where}"}
