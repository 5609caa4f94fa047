"""Jobs without a checkpoint that read what a job before them has read, and write where it has written: its rows are
there twice then, and who reads them counts them twice. Pure. For users: "Rows that may come twice" in
`libs/penstock/spark/SEMANTICS.md`.

What is certain: without a common source, or where all of them begin at `latest`, no row comes again. All else is
possible: how far the other job had come is forgotten with it, so offsets and moments do not settle it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from penstock.config.model import DesiredState
from penstock.config.topic_patterns import covers, is_pattern, name_for_people
from penstock.control.errors import Conflict
from penstock.control.texts import first_few
from services.job_service.flows import choices_at, places_of_repeats, read_by, read_by_stream

Config = Mapping[str, Any]
_MAKING = ("query", "args", "package", "output_mode", "tables")
_DECIDING = ("inputs", "streams", "output", "side_outputs", "desired_state")


class Left(NamedTuple):
    """A topic, folder or table with rows of a job that writes there no more, and what it read them of.

    `makes`: of one that still writes there, as `made` gives it: only who makes the same repeats its rows.
    """

    place: str
    job: str
    reads: tuple[str, ...]
    left_at: datetime | None = None
    makes: str | None = None


class Doubled(NamedTuple):
    """A place that has rows of `job`, which `repeated_by` may have written again."""

    place: str
    job: str
    repeated_by: str


class Job(NamedTuple):
    """A job that is written. `running`: what it runs, None without a checkpoint; `before`: what was expected of it,
    None where that was no job."""

    name: str
    created_at: datetime
    running: Config | None
    before: Config | None = None


class Repeat(NamedTuple):
    """Rows that may come again: where, whose, and by which sources of the job that is written. `lives`: that job still
    writes there."""

    place: str
    job: str
    sources: tuple[str, ...]
    lives: bool = False


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
    still = frozenset() if kept is None else places_of_repeats(kept)
    reads: set[str] = set()
    places: set[str] = set()
    for config in configs:
        reads.update(sources(config))
        places |= _places(config)
    return [Left(place, job, tuple(sorted(reads))) for place in sorted(places - still)]


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


def places_begun(job: Job, after: Config) -> frozenset[str]:
    """Places that a job begins to write to by this write: all of a job without a checkpoint, the new ones of another,
    none of a job that is to be stopped."""
    if _is_stopped(after):
        return frozenset()
    places = places_of_repeats(after)
    return places if job.running is None else places - _places(job.running)


def repeats(job: Job, after: Config, known: Known) -> list[Repeat]:
    """The rows that may be written again because of this write, and not already because of `job.before`. `known`: what
    other jobs have written, or still write, at the places of the job."""
    found = _repeats(job, after, known)
    if not found or job.before is None:
        return found
    accepted = {(each.place, each.job): each for each in _repeats(job, job.before, known)}
    return [each for each in found if not _is_among(each, accepted.get((each.place, each.job)))]


def _is_among(repeat: Repeat, accepted: Repeat | None) -> bool:
    return accepted is not None and set(repeat.sources) <= set(accepted.sources)


def may_matter(old: Config, new: Config) -> bool:
    """Whether a change of a layer's content may begin or leave a place."""
    return any(old.get(name) != new.get(name) for name in _DECIDING)


def may_make_the_same(old: Config, new: Config) -> bool:
    """Whether a change of a layer's content may make what another job makes."""
    return may_matter(old, new) or any(old.get(name) != new.get(name) for name in _MAKING)


def require_no_reader(job: str, found: Sequence[Repeat], readers: Sequence[str], more: bool) -> None:
    """Raises Conflict when other jobs read where rows come again. `more`: not all readers are named."""
    if found and readers:
        raise Conflict(
            f"{sentence(job, found)} These jobs read there and do not read anew: such a row counts twice, or is late: "
            f"{', '.join(readers)}{', ...' if more else ''}. {_ways_out(found)}",
            field="allow_repeats",
            rule="read_by_others",
        )


def sentence(job: str, found: Sequence[Repeat]) -> str:
    """What may happen, in one sentence for people."""
    places = ", ".join(sorted({each.place for each in found}))
    others = first_few(sorted({each.job for each in found}))
    read = first_few(sorted({name_for_people(name) for each in found for name in each.sources}))
    if any(each.lives for each in found):
        return (
            f"{others} reads {read} too, makes the same rows and writes them to {places}: as long as both are there, "
            f"each row that {job} writes is there twice."
        )
    whose = "an earlier job of this name" if others == job else others
    return (
        f"{places} has rows that {whose} has written, and {job} reads {read} as that did: it may write the same rows "
        "again, and they stay twice."
    )


def sources_begun(job: Job, after: Config) -> frozenset[str]:
    """What a job begins to read by this write of the rows that are there: none of one that is to be stopped."""
    if _is_stopped(after):
        return frozenset()
    return frozenset(sources(after, anew=True)) - frozenset(() if job.running is None else sources(job.running))


def doubled_sentence(job: str, found: Collection[Doubled]) -> str:
    """What a reader that comes later finds, in one sentence for people."""
    places = ", ".join(sorted({each.place for each in found}))
    writers = first_few(sorted({each.repeated_by for each in found}))
    return (
        f"{places} may have rows twice: {writers} was accepted although it may write rows again that were there "
        f"(allow_repeats, or nobody read them). {job} reads them as they are."
    )


def _ways_out(found: Sequence[Repeat]) -> str:
    others = sorted({each.job for each in found})
    lives = any(each.lives for each in found)
    first = (
        f"If it takes the place of {others[0]}: make a savepoint of that and delete it; then"
        if lives
        else (
            "To write new rows only, set starting_position of these inputs to latest. To go on where "
            f"{others[0]} ended,"
        )
    )
    return (
        f"{first} create the job with desired_state stopped, restore a savepoint (`penstock savepoint "
        f"restore JOB NAME --of {others[0]} --allow-repeats`: only what came after it is written again), and start it. "
        "Set allow_repeats (`--allow-repeats`) if rows may come twice, or if these topics were made anew"
    )


def _repeats(job: Job, config: Config, known: Known) -> list[Repeat]:
    at_places = [left for place in places_begun(job, config) for left in known.get(place, ())]
    if not at_places:
        return []
    read = sorted(set(sources(config, anew=job.running is None)))
    makes = {place: made(config, place) for place in {left.place for left in at_places if left.makes is not None}}
    found = []
    for left in at_places:
        common = tuple(name for name in read if any(_may_meet(name, other) for other in left.reads))
        # Two jobs may well write other rows of one input into one topic: one that still writes is left alone then.
        is_same = left.makes is None or left.makes == makes[left.place]
        if common and is_same and not _is_own(job, left):
            found.append(Repeat(left.place, left.job, common, left.makes is not None))
    return sorted(found)


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
    return places_of_repeats(config) if config.get("output") else frozenset()


def _is_stopped(config: Config) -> bool:
    return config.get("desired_state") == DesiredState.STOPPED
