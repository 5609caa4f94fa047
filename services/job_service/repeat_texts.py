"""What is told of rows that may come twice: to who writes a job, and to who reads the place. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from penstock.config.topic_patterns import name_for_people
from penstock.control.errors import Conflict
from penstock.control.texts import first_few
from services.job_service.repeats import Repeat, Why

_SAVEPOINT = "hand-over"
_ACCEPT = "set allow_repeats (`--allow-repeats`)"
_SHARE = (
    "If all are to write to this topic or table, set allow_other_writers of that output (`output.allow_other_writers`) "
    "in each of these jobs: then they may be written in any order."
)


class Doubled(NamedTuple):
    """A place that has rows of `job`, which `repeated_by` may have written again."""

    place: str
    job: str
    repeated_by: str


class Readers(NamedTuple):
    """The first jobs by name that read a place. `more`: there are others."""

    names: Sequence[str]
    more: bool


def require_no_reader(job: str, found: Sequence[Repeat], readers: Readers, savepoints: Mapping[str, str]) -> None:
    """Raises Conflict when other jobs read where rows come again. `savepoints`: the newest ready one of jobs."""
    if found and readers.names:
        raise Conflict(
            f"{sentence(job, found)} These jobs read there and do not read anew: such a row counts twice, or is late: "
            f"{', '.join(readers.names)}{', ...' if readers.more else ''}. {_ways_out(job, found, savepoints)}",
            field="allow_repeats",
            rule="read_by_others",
        )


def sentence(job: str, found: Sequence[Repeat]) -> str:
    """What may happen, in one sentence for people: the surest of it."""
    surest = min(each.why for each in found)
    told = [each for each in found if each.why is surest]
    places = ", ".join(sorted({each.place for each in told}))
    others = first_few(sorted({each.job for each in told}))
    read = first_few(sorted(map(name_for_people, {name for each in told for name in each.sources})))
    if surest is Why.SAME:
        return (
            f"{others} reads {read} too, makes the same rows and writes them to {places}: as long as both are there, "
            f"each row that {job} writes is there twice."
        )
    if surest is Why.OTHER:
        return (
            f"{others} reads {read} too and writes to {places}, by another query or input: {places} then has what each "
            "of the two makes of the same rows."
        )
    if surest is Why.LEAVING:
        return (
            f"{others} reads {read} too and has yet to leave {places}: until its tasks have ended, what {job} writes "
            "of the same rows is there twice."
        )
    if surest is Why.SAVED:
        return f"{job} writes the rows since the savepoint again to {places}, where they stay twice."
    if surest is Why.ANEW:
        return f"{job} reads {read} from the beginning again, and writes rows again to {places} that it wrote before."
    whose = "an earlier job of this name" if others == job else others
    return (
        f"{places} has rows that {whose} has written, and {job} reads {read} as that did: it may write the same rows "
        "again, and they stay twice."
    )


def doubled_sentence(job: str, found: Collection[Doubled]) -> str:
    """What a reader that comes later finds, in one sentence for people."""
    places = ", ".join(sorted({each.place for each in found}))
    writers = first_few(sorted({each.repeated_by for each in found}))
    return (
        f"{places} may have rows twice: {writers} was accepted although it may write rows again that were there "
        f"(allow_repeats, or nobody read them). {job} reads them as they are."
    )


def left_sentence(job: str, found: Sequence[Doubled]) -> str:
    """What the end of a job means where another one, made later, writes beside it, in one sentence for people."""
    places = ", ".join(sorted({each.place for each in found}))
    heirs = first_few(sorted({each.repeated_by for each in found}))
    return (
        f"{heirs}, made after {job}, reads rows that {job} has read and writes to {places}: if it takes the place of "
        f"{job}, what both have written is there twice. Jobs that begin to read there are told."
    )


def moved_sentence(job: str, places: Collection[str], readers: Readers) -> str:
    """What the readers of places find that a job leaves though it goes on, in one sentence for people."""
    names = f"{', '.join(readers.names)}{', ...' if readers.more else ''}"
    return f"{job} writes no more to {', '.join(sorted(places))}, which these jobs read: {names}."


def _ways_out(job: str, found: Sequence[Repeat], savepoints: Mapping[str, str]) -> str:
    there = [each.job for each in found if each.why in (Why.SAME, Why.OTHER)]
    left = [each.job for each in found if each.why is Why.LEFT]
    leaving = [each.job for each in found if each.why is Why.LEAVING]
    wait = [f"Wait until {leaving[0]} has left (`penstock sync {leaving[0]}`), and repeat the call."] if leaving else []
    ways = [
        *wait,
        *(_in_place_of(job, other) for other in there[:1]),
        *(_after(job, other, savepoints) for other in left[:1]),
    ]
    whys = {each.why for each in found}
    share = [_SHARE] if Why.OTHER in whys else []
    anew = [] if whys == {Why.OTHER} else [f"If rows may come twice, or these topics were made anew, {_ACCEPT}"]
    return " ".join((*ways, *share, *anew))


def _in_place_of(job: str, other: str) -> str:
    return (
        f"If {job} is to take the place of {other}: `penstock jobs stop {other} --wait`, `penstock savepoint create "
        f"{other} {_SAVEPOINT}`, `penstock jobs delete {other} --yes --wait`, then "
        f"{_restored(job, other, _SAVEPOINT)}. No row comes twice then."
    )


def _after(job: str, other: str, savepoints: Mapping[str, str]) -> str:
    latest = (
        "To write only what comes from now on, set starting_position of these inputs to latest: what came since "
        f"{other} ended is left out."
    )
    if other not in savepoints:
        return f"There is no savepoint of {other} to go on from. {latest}"
    restored = _restored(job, other, savepoints[other])
    return f"To go on from a savepoint of {other}: {restored}. What came after the savepoint is written again. {latest}"


def _restored(job: str, other: str, savepoint: str) -> str:
    """The steps by which a job goes on from a savepoint; the option is for the readers that are there."""
    return (
        f"write {job} with desired_state stopped, `penstock savepoint restore {job} {savepoint} --of {other} "
        f"--allow-repeats`, `penstock jobs start {job}`"
    )
