"""The samples that one analysis of a job takes, with one deadline for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import NamedTuple

from penstock.config.model import Input
from penstock.control.errors import Unavailable
from penstock.kafka.access import Brokers
from penstock.spark.inputs.key_sample import Sample, SampledKey, sample

ENOUGH_RECORDS = 16
"""A sample of fewer that was cut short says nothing."""
_MOST_AT_ONCE = 8
_LEAST_SHOWN = 0.01


class Wanted(NamedTuple):
    """An input, and one of its topics by the full name."""

    name: str
    source: Input
    topic: str
    brokers: Brokers


class Samples:
    """Of each topic of an input one sample, for all that is to be known of it. The deadline begins with this object."""

    def __init__(self, within_seconds: float) -> None:
        self._within_seconds = max(0.0, within_seconds)
        self._until = monotonic() + self._within_seconds
        self._taken: dict[tuple[str, str], Sample | Unavailable] = {}

    def take(self, wanted: Iterable[Wanted]) -> None:
        """Reads samples, several at once: a cluster that is slow takes the time of its own topics only."""
        asked = list(wanted)
        if asked:
            with ThreadPoolExecutor(min(len(asked), _MOST_AT_ONCE)) as pool:
                found = pool.map(self._sample, asked)
                self._taken |= {(each.name, each.topic): taken for each, taken in zip(asked, found, strict=True)}

    def of(self, name: str, topic: str) -> list[SampledKey]:
        """The records of a sample that was taken. Raises Unavailable, with the input and the topic, when they were not
        read in time, or too few of them to tell anything."""
        taken = self._taken[name, topic]
        if isinstance(taken, Unavailable):
            told = f"inputs.{name}: the newest records of the topic {topic} were not checked: {taken.detail}"
            raise Unavailable(told, **taken.extra) from taken
        return taken.records

    def _sample(self, wanted: Wanted) -> Sample | Unavailable:
        left = self._until - monotonic()
        if left <= 0:
            return Unavailable(_no_time(self._within_seconds))
        try:
            taken = sample(wanted.source, wanted.topic, wanted.brokers, left)
        except Unavailable as error:
            return error
        count = len(taken.records)
        if taken.is_cut and count < ENOUGH_RECORDS:
            return Unavailable(f"kafka sent {f'only {count}' if count else 'none'} within {_shown(left)} s")
        return taken


def _no_time(within_seconds: float) -> str:
    """Where there was hardly any time, no other topic took it."""
    told = "no time was left"
    return told if within_seconds < _LEAST_SHOWN else f"{told}: the other topics took all {_shown(within_seconds)} s"


def _shown(seconds: float) -> str:
    """Seconds with two digits, and never as 0."""
    return f"{max(seconds, _LEAST_SHOWN):.2g}" if seconds < 10 else f"{seconds:,.0f}"
