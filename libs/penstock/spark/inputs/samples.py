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
        told = f"inputs.{name}: the newest records of the topic {topic} were not looked at"
        if isinstance(taken, Unavailable):
            raise Unavailable(f"{told}: {taken.detail}", **taken.extra) from taken
        if taken.is_cut and len(taken.records) < ENOUGH_RECORDS:
            raise Unavailable(f"{told}: kafka gave {len(taken.records)} of them within {self._within_seconds:.2g} s")
        return taken.records

    def _sample(self, wanted: Wanted) -> Sample | Unavailable:
        left = self._until - monotonic()
        if left <= 0:
            return Unavailable(f"others took the {self._within_seconds:.2g} s that there are for all")
        try:
            return sample(wanted.source, wanted.topic, wanted.brokers, left)
        except Unavailable as error:
            return error
