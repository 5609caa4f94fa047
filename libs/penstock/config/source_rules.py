"""Rules that inputs and streams share. `field` names the source, such as `inputs.flights`."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.event_time import LONGEST_DELAY_DAYS, LONGEST_DELAY_MILLIS, delay_millis
from penstock.config.model import Input
from penstock.config.problems import Problem
from penstock.config.starting import starting_millis, starting_offsets
from penstock.config.stream import Stream


def starting_moment(field: str, source: Input | Stream, what: str) -> Iterator[Problem]:
    """A moment to begin at is one that can be. `what`: of what a source has none there, such as `record`."""
    field = f"{field}.starting_position"
    try:
        starting_millis(source.starting_position)
    except ValueError as error:
        detail = f"{field} is {source.starting_position}, where no {what} can be: {error}"
        yield Problem(field, "starting_moment", detail)


def starting_offsets_of_each_key_group(field: str, source: Input) -> Iterator[Problem]:
    """Offsets to begin at are of one topic, and name each of its key groups once."""
    offsets = starting_offsets(source.starting_position)
    if offsets is None:
        return
    field = f"{field}.starting_position"
    if source.topic is None:
        detail = f"{field} has offsets, which are of one topic: with topic_pattern it is earliest, latest or a moment"
        yield Problem(field, "offsets_of_one_topic", detail)
        return
    wrong = _miscounted(offsets, source.starting_position.count(":"), source.key_groups)
    if wrong is not None:
        detail = f"{field} {wrong}: name each of the key groups 0 to {source.key_groups - 1} once"
        yield Problem(field, "offset_of_each_key_group", detail)


def _miscounted(offsets: dict[int, int], written: int, key_groups: int) -> str | None:
    if written != len(offsets):
        return "names a key group twice"
    unknown = sorted(offsets.keys() - range(key_groups))
    missing = sorted(set(range(key_groups)) - offsets.keys())
    if unknown:
        return f"names the key group {unknown[0]}, which the input does not have"
    return f"has no offset of the key group {missing[0]}" if missing else None


def watermark(field: str, source: Input | Stream) -> Iterator[Problem]:
    """The event time and how late it may be need each other."""
    if source.event_time_column is not None and source.watermark_delay is None:
        detail = f"{field} has an event_time_column, so it needs a watermark_delay"
        yield Problem(f"{field}.watermark_delay", "watermark_pair", detail)
    if source.watermark_delay is not None and source.event_time_column is None:
        detail = f"{field} has a watermark_delay, so it needs an event_time_column"
        yield Problem(f"{field}.event_time_column", "watermark_pair", detail)
    if source.watermark_delay is not None and delay_millis(source.watermark_delay) > LONGEST_DELAY_MILLIS:
        detail = f"{field}.watermark_delay is {source.watermark_delay}: write at most {LONGEST_DELAY_DAYS} days"
        yield Problem(f"{field}.watermark_delay", "watermark_delay_limit", detail)
