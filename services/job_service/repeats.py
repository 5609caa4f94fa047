"""Jobs that write rows to a topic, folder or table that are there already: who reads them counts them twice. Pure. For
users: "Rows that may come twice" in `libs/penstock/spark/SEMANTICS.md`.

What is certain: without a common source no row comes again, nor where the other job has left and all sources begin at
`latest`. All else is possible: how far the other job had come is forgotten with it, so offsets and moments do not
settle it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.config.model import DesiredState
from penstock.config.topic_patterns import covers, is_pattern, name_for_people
from services.job_service.flows import (
    choices_at,
    is_shared_at,
    places_of_repeats,
    places_of_rows,
    read_by,
    read_by_stream,
    tables_read,
    topics_read_again,
)

Config = Mapping[str, Any]
_MAKING = ("query", "args", "package", "output_mode", "tables")
_WHERE = ("inputs", "streams", "output", "side_outputs")
_DECIDING = (*_WHERE, "desired_state")


class Why(IntEnum):
    """Why rows come again; the surest first."""

    SAVED = 0
    """A restore goes back before them."""
    ANEW = 1
    """The job itself reads a topic from the beginning again."""
    SAME = 2
    """Another job is there and makes the same rows."""
    LEAVING = 3
    """Another job has yet to leave: until it has, both write."""
    LEFT = 4
    """Another job has left them, or one of this name before."""
    OTHER = 5
    """Another job is there and makes something else of the same rows: it may be the one that this one replaces."""


class Left(NamedTuple):
    """A topic, folder or table with rows of a job that writes there no more, and what it read them of.

    `makes`: of one that still writes there, as `made` gives it. `may_write`: of one that is to leave, and may not have
    yet.
    """

    place: str
    job: str
    reads: tuple[str, ...]
    left_at: datetime | None = None
    makes: str | None = None
    may_write: bool = False


class Job(NamedTuple):
    """A job that is written. `running`: what it runs, None without a checkpoint; `before`: what was expected of it,
    None where that was no job. `goes_on`: it has no checkpoint yet, and a savepoint is to become it."""

    name: str
    created_at: datetime
    running: Config | None
    before: Config | None = None
    goes_on: bool = False

    @property
    def begins_anew(self) -> bool:
        """Whether it has nothing to go on from."""
        return self.running is None and not self.goes_on


class Repeat(NamedTuple):
    """Rows that may come again: where, whose, and by which sources of the job that is written."""

    place: str
    job: str
    sources: tuple[str, ...]
    why: Why = Why.LEFT


Known = Mapping[str, Sequence[Left]]
"""What was left, by place."""


def by_place(found: Iterable[Left]) -> Known:
    """The same, by place."""
    known: defaultdict[str, list[Left]] = defaultdict(list)
    for left in found:
        known[left.place].append(left)
    return known


def left_by(job: str, configs: Iterable[Config], kept: Config | None = None) -> list[Left]:
    """Places that a job wrote to under `configs`, complete configurations that it ran or was to run, and no longer
    writes to under `kept` (None: it writes nothing any more)."""
    still = frozenset() if kept is None else places_of_rows(kept)
    reads: set[str] = set()
    places: set[str] = set()
    for config in configs:
        reads.update(sources(config))
        places |= _places(config)
    return [Left(place, job, tuple(sorted(reads)), may_write=True) for place in sorted(places - still)]


def lives_of(job: str, config: Config) -> list[Left]:
    """Places of a stored, complete configuration that the job still writes to, so they are not left behind."""
    reads = tuple(sorted(set(sources(config))))
    return [Left(place, job, reads, makes=made(config, place)) for place in sorted(_places(config))]


def made(config: Config, place: str) -> str:
    """What decides which rows a job has for a place, wherever it began to read: equal texts, equal rows."""
    read = [
        {name: {**source, "starting_position": None} for name, source in (config.get(field) or {}).items()}
        for field in ("inputs", "streams")
    ]
    decides = [config.get(field) for field in _MAKING]
    return json.dumps([decides, read, choices_at(config, place)], sort_keys=True)


def places_written(job: Job, after: Config) -> frozenset[str]:
    """Places where a job writes rows that stay beside equal ones: none of one that is to be stopped and never ran."""
    return frozenset() if writes_nothing(job, after) else places_of_repeats(after)


def repeats(job: Job, after: Config, known: Known) -> list[Repeat]:
    """The rows that may be written again because of this write, and not already because of `job.before`, or of what the
    job runs. `known`: what other jobs have written, or still write, at the places of the job."""
    return new_of(job, possible(job, after, known), known)


def new_of(job: Job, found: Sequence[Repeat], known: Known) -> list[Repeat]:
    """Those of `possible` that are not so already."""
    is_so = (job.running if job.before is None else job.before) or {}
    accepted = possible(job, is_so, known) if found and is_so.get("output") else []
    by_writer: defaultdict[tuple[str, str], list[Repeat]] = defaultdict(list)
    for each in accepted:
        by_writer[each.place, each.job].append(each)
    return sorted(
        each for each in found if not any(_is_among(job, each, other) for other in by_writer[each.place, each.job])
    )


def possible(job: Job, config: Config, known: Known) -> list[Repeat]:
    """The rows that a job of this configuration may write again, whatever was accepted before."""
    return [*_repeats(job, config, known), *_read_again(job, config)]


def _is_among(job: Job, repeat: Repeat, accepted: Repeat) -> bool:
    """Whether it is no more than what was accepted of that writer. The same rows of one that is there are more than
    other rows."""
    is_less = repeat.why is accepted.why or (repeat.why, accepted.why) == (Why.OTHER, Why.SAME)
    if job.running is None:
        return is_less and set(repeat.sources) <= set(accepted.sources)
    # With a checkpoint only the topics that a pattern leaves out can change: that is `Why.ANEW`.
    read, read_before = ({name_for_people(name) for name in each.sources} for each in (repeat, accepted))
    return is_less and read <= read_before


def may_leave(old: Config, new: Config) -> bool:
    """Whether a change of a layer's content may begin or leave a place."""
    return any(old.get(name) != new.get(name) for name in _DECIDING)


def may_repeat(old: Config, new: Config) -> bool:
    """Whether a change of a layer's content may bring rows again."""
    return any(old.get(name) != new.get(name) for name in (*_DECIDING, *_MAKING))


def may_begin(old: Config, new: Config) -> bool:
    """Whether a change of a layer's content may bring rows again of a job that goes on where it is: its start does
    not."""
    return any(old.get(name) != new.get(name) for name in (*_WHERE, *_MAKING))


def writes_nothing(job: Job, after: Config) -> bool:
    """Whether it writes nothing until another write starts it, which is judged then. One that has a checkpoint, or is
    to have one, is judged by each write: its start is not."""
    return job.begins_anew and _is_stopped(after)


def is_heir(survivor: Left, since: datetime, left: Left, left_since: datetime) -> bool:
    """Whether a job that was made at `since` and writes where another one leaves may take the place of that."""
    return since > left_since and any(_may_meet(one, other) for one in survivor.reads for other in left.reads)


def sources_begun(job: Job, after: Config) -> frozenset[str]:
    """What a job begins to read by this write of the rows that are there: none of one that is to be stopped."""
    if _is_stopped(after):
        return frozenset()
    read = {*sources(after, anew=True), *tables_read(after)}
    running = job.running
    return frozenset(read) - frozenset(() if running is None else (*sources(running), *tables_read(running)))


def _repeats(job: Job, config: Config, known: Known) -> list[Repeat]:
    at_places = [left for place in places_written(job, config) for left in known.get(place, ())]
    at_places = [left for left in at_places if not _is_own(job, left)]
    if not at_places:
        return []
    read, read_anew = (sorted(set(sources(config, anew=anew))) for anew in (False, job.begins_anew))
    makes = {place: made(config, place) for place in {left.place for left in at_places if left.makes is not None}}
    found = []
    for left in at_places:
        common, common_anew = _common(tuple(read), left.reads), _common(tuple(read_anew), left.reads)
        if left.makes is not None:
            # Beside a job that is there each later row comes twice, wherever this one begins.
            why = Why.SAME if left.makes == makes[left.place] else Why.OTHER
        else:
            why = Why.LEFT if common_anew or not left.may_write else Why.LEAVING
            common = common_anew if why is Why.LEFT else common
        if common and not (why is Why.OTHER and is_shared_at(config, left.place)):
            found.append(Repeat(left.place, left.job, common, why))
    return sorted(found)


@lru_cache(maxsize=1024)
def _common(reads: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the sources that may have a row in common with others."""
    return tuple(name for name in reads if any(_may_meet(name, other) for other in others))


def _read_again(job: Job, config: Config) -> list[Repeat]:
    """Rows that a job with a checkpoint has written and forgets to have read. What was expected of it until now may be
    what it comes to run first, though a later write stands beside it."""
    if job.running is None:
        return []
    lives = [job.running, *([] if job.before is None else [job.before])]
    names = tuple(sorted({name for life in lives for name in topics_read_again(life, config)}))
    kept = places_of_repeats(config) & _places(job.running) if names else ()
    return [Repeat(place, job.name, names, Why.ANEW) for place in sorted(kept)]


def may_read_again(job: Job, config: Config) -> bool:
    """Whether it depends on what was expected of the job which rows come again: it runs, and reads a pattern."""
    return job.running is not None and any(map(is_pattern, sources(config)))


def _is_own(job: Job, left: Left) -> bool:
    """Whether it is still there itself, or has a checkpoint and would go on there."""
    if left.makes is not None:
        return left.job == job.name
    return (
        job.running is not None and left.job == job.name and left.left_at is not None and left.left_at > job.created_at
    )


def sources(config: Config, *, anew: bool = False) -> Iterator[str]:
    """What a job reads rows of, as in `Flow`; `anew`: only what a job without a checkpoint reads of what is there."""
    for source in (config.get("inputs") or {}).values():
        if not anew or _reads_what_is_there(source):
            yield read_by(source)
    for stream in (config.get("streams") or {}).values():
        path = read_by_stream(stream)
        if path is not None and (not anew or _reads_what_is_there(stream)):
            yield path


def _reads_what_is_there(source: Mapping[str, Any]) -> bool:
    return bool(source.get("starting_position") != "latest")


def _may_meet(one: str, other: str) -> bool:
    """Whether two sources may have a row in common. What two patterns match is not compared."""
    return one == other or covers(one, other) or covers(other, one) or (is_pattern(one) and is_pattern(other))


def _places(config: Config) -> frozenset[str]:
    """Those of a configuration that is stored; none where it has no output, by whatever release wrote it."""
    return places_of_rows(config) if config.get("output") else frozenset()


def _is_stopped(config: Config) -> bool:
    return config.get("desired_state") == DesiredState.STOPPED
