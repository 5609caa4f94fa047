"""The graph of jobs and topics around a job: who is in it, and what of theirs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.config.topic_patterns import covers, is_pattern, name_for_people
from penstock.wire.lineage import Dataset, DatasetKind, LineageEdge, Use
from services.job_service.flows import Flow, is_path, is_table

MOST_JOBS = 200
Step = Callable[[Sequence[Flow], AbstractSet[str], int], Sequence[Flow]]
"""The jobs next to these, but for those seen, at most so many."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@:]*:[^/@]*@")


class Found(NamedTuple):
    """A job, and how many jobs away it is: below 0 upstream."""

    flow: Flow
    distance: int


class Around(NamedTuple):
    """The jobs of the graph, from the farthest upstream to the farthest downstream. `complete`: none was left out."""

    found: Sequence[Found]
    complete: bool


class Shape(NamedTuple):
    """What the jobs of a graph use."""

    datasets: list[Dataset]
    edges: list[LineageEdge]


def around(start: Flow, upstream: Step, downstream: Step, depth: int, most: int = MOST_JOBS) -> Around:
    """The job, and those up to `depth` jobs away, at most `most` in all, the nearest first.

    Of a job with many neighbours on both sides each side gets half. What one side does not need, the other side gets.
    """
    room = most - 1
    above, above_is_whole = _walk(start, upstream, depth, room)
    below, below_is_whole = _walk(start, downstream, depth, room)
    kept_above = above[: max(room // 2, room - len(below))]
    kept_below = below[: room - len(kept_above)]
    is_whole = above_is_whole and below_is_whole and len(kept_above) + len(kept_below) == len(above) + len(below)
    nearest = {start.job: Found(start, 0)}
    for each in (*(Found(flow, -distance) for flow, distance in kept_above), *kept_below):
        known = nearest.setdefault(each.flow.job, each)
        if abs(each.distance) < abs(known.distance):
            nearest[each.flow.job] = each
    return Around(sorted(nearest.values(), key=lambda each: (each.distance, each.flow.job)), is_whole)


def _walk(start: Flow, step: Step, depth: int, most: int) -> tuple[list[Found], bool]:
    """Breadth first, at most `most` jobs; whether these are all. A loop ends, since no job is met twice."""
    found: list[Found] = []
    level: Sequence[Flow] = [start]
    seen = {start.job}
    for distance in range(1, depth + 1):
        room = most - len(found)
        level = step(level, seen, room + 1)
        found += [Found(flow, distance) for flow in level[:room]]
        if len(level) > room:
            return found, False
        if not level:
            break
        seen |= {flow.job for flow in level}
    return found, True


def topics_read(flows: Iterable[Flow]) -> set[str]:
    """The topics and folders from which rows come to these jobs."""
    return {topic for flow in flows for topic in flow.reads}


def topics_filled(flows: Iterable[Flow]) -> set[str]:
    """The topics and folders to which rows, or malformed records, of these jobs go."""
    return {
        name
        for flow in flows
        for name in (*flow.topics, *flow.side_stores, flow.dead_letters, flow.folder)
        if name is not None
    }


def shape(found: Sequence[Found], stores: Mapping[str, str]) -> Shape:
    """What is between the jobs, what comes to those upstream, and what those downstream write.

    `stores`: the folder or table of each job that writes to one. A topic of malformed records is there if a job of
    these reads it.
    """
    kinds = {name: kind for each in found for name, kind in _shown(each, stores)}
    flows = [flow for flow, _ in found]
    read, letters = topics_read(flows), {flow.dead_letters for flow in flows if flow.dead_letters is not None}
    mended = {topic for topic in letters if any(covers(name, topic) for name in read)}
    kinds |= dict.fromkeys(mended | _matched(found), DatasetKind.TOPIC)
    edges = [
        LineageEdge(job=flow.job, dataset=_plain(dataset), use=use)
        for flow, _ in found
        for name, use in _uses(flow, stores)
        for dataset in _meant(name, kinds)
    ]
    datasets = {_plain(name): kind for name, kind in kinds.items()}
    return Shape([Dataset(name=name, kind=kind) for name, kind in sorted(datasets.items())], edges)


def _matched(found: Iterable[Found]) -> set[str]:
    """The topics written by jobs of the graph that a pattern matches, of a job that shows what it reads."""
    patterns = {name for flow, distance in found if distance <= 0 for name in flow.reads if is_pattern(name)}
    written = {topic for flow, _ in found for topic in flow.topics}
    return {topic for topic in written if any(covers(name, topic) for name in patterns)}


def _shown(found: Found, stores: Mapping[str, str]) -> Iterator[tuple[str, DatasetKind]]:
    """What a job brings into the graph: its inputs if it is not downstream, its output if it is not upstream."""
    flow, distance = found
    if distance <= 0:
        yield from ((name, _kind_of(name)) for name in flow.reads)
    if distance >= 0:
        yield from ((topic, DatasetKind.TOPIC) for topic in flow.topics)
        for store in _stores_of(flow, stores):
            yield store, DatasetKind.TABLE if is_table(store) else DatasetKind.FOLDER


def _stores_of(flow: Flow, stores: Mapping[str, str]) -> Iterator[str]:
    yield from ([stores[flow.job]] if flow.job in stores else [])
    yield from flow.side_stores


def _kind_of(read: str) -> DatasetKind:
    if is_pattern(read):
        return DatasetKind.PATTERN
    return DatasetKind.FOLDER if is_path(read) else DatasetKind.TOPIC


def _meant(name: str, kinds: Mapping[str, DatasetKind]) -> Iterator[str]:
    """The datasets of the graph that a job uses under a name: of a pattern also the topics that it matches."""
    yield from ([name] if name in kinds else [])
    if is_pattern(name):
        yield from (topic for topic, kind in kinds.items() if kind is DatasetKind.TOPIC and covers(name, topic))


def _uses(flow: Flow, stores: Mapping[str, str]) -> Iterator[tuple[str, Use]]:
    yield from ((topic, Use.READS) for topic in flow.reads)
    yield from ((place, Use.WRITES) for place in (*sorted(flow.topics), *_stores_of(flow, stores)))
    if flow.dead_letters is not None:
        yield flow.dead_letters, Use.DEAD_LETTERS


def _plain(dataset: str) -> str:
    """A name for people, without the user and the password that a path may have."""
    return _CREDENTIALS.sub("", name_for_people(dataset))
