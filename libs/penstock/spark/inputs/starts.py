"""Offsets at which inputs are to begin, against what their topics have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.config.starting import starting_offsets
from penstock.kafka.access import Clusters
from penstock.spark.inputs.topic_checks import Topics
from penstock.spark.redistribute.bus import InputEnds
from penstock.tasks.analysis import OFFSET_KEPT


def start_problems(
    config: JobConfig, clusters: Clusters, topics: Topics, until: float | None = None
) -> Iterator[Problem]:
    """Offsets in `starting_position` that a topic does not have yet, or does not have any more. Missing topics, and
    those with another number of partitions, are left out.

    A job that has read from there once does not begin there again, so `OFFSET_KEPT` says nothing against it. `until`:
    by when Kafka must have answered, by `monotonic`. Raises Unavailable when it does not answer.
    """
    bus = InputEnds(clusters, until)
    for name, source in config.inputs.items():
        offsets = starting_offsets(source.starting_position)
        if offsets is None or topics[source.full_topic].partitions != source.key_groups:
            continue
        groups = range(source.key_groups)
        begins, ends = bus.beginnings(source.full_topic, groups), bus.ends(source.full_topic, groups)
        yield from _beyond(f"inputs.{name}.starting_position", source.full_topic, offsets, begins, ends)


def _beyond(
    field: str, topic: str, offsets: Mapping[int, int], begins: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[Problem]:
    """Of each rule the first key group. Pure."""
    for group in sorted(offsets):
        if offsets[group] > ends[group]:
            yield Problem(field, "offset_there", _told(field, topic, group, offsets[group], f"ends at {ends[group]}"))
            break
    for group in sorted(offsets):
        if offsets[group] < begins[group]:
            where = f"begins at {begins[group]}, since Kafka deleted what was before"
            yield Problem(field, OFFSET_KEPT, _told(field, topic, group, offsets[group], where))
            break


def _told(field: str, topic: str, group: int, offset: int, where: str) -> str:
    return f"{field} is {offset} for the key group {group}, but that partition of the topic {topic} {where}"
