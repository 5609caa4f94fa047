"""Which writes of several callers are taken together in one transaction, and what follows when it fails. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, islice

from penstock.control.errors import StatementTimedOut, Unavailable
from penstock.model.jobs import Action
from services.job_service.analysed import names_what_is_analysed
from services.job_service.writes import Write

MOST_IN_GROUP = 64
_MOST_WEIGHT = 300
_OF_LAYERS = (Action.PUT, Action.PATCH, Action.DROP)


class Reached(Enum):
    """How far a transaction got."""

    NOTHING = auto()
    STATEMENTS = auto()
    COMMIT = auto()


def may_share(write: Write, *, has_key: bool) -> bool:
    """Whether a write may be taken together with those of others. `has_key`: its call has an Idempotency-Key, for which
    it may have to wait.

    A write that Spark has to see is not done before it was: there is nothing to share. One of a large layer takes long
    to be decided, for which others would wait.
    """
    config = write.config or {}
    if has_key or write.action not in _OF_LAYERS or names_what_is_analysed(config):
        return False
    return _weight(config, _MOST_WEIGHT) < _MOST_WEIGHT


def _weight(value: object, most: int) -> int:
    """The values in a layer, and their characters by the hundred; no more than `most` are counted."""
    weight = 1
    if isinstance(value, str):
        return 1 + len(value) // 100
    parts = chain.from_iterable(value.items()) if isinstance(value, Mapping) else value
    if isinstance(parts, Iterable):
        for part in parts:
            if weight >= most:
                break
            weight += _weight(part, most - weight)
    return weight


def next_group(writes: Sequence[Write], choose: Callable[[Sequence[int]], int]) -> Sequence[int]:
    """Positions of the writes, of those that wait, that are taken next: one of each job, up to a limit.

    `choose` picks one of several positions, by chance. In the order in which they came one writer could win for ever:
    it hears first that it has written, and would be before all others again, which have to read what it wrote.
    """
    of_jobs: dict[str, list[int]] = {}
    for position, write in enumerate(writes):
        of_jobs.setdefault(write.job, []).append(position)
    return [choose(of_jobs[job]) for job in islice(of_jobs, MOST_IN_GROUP)]


def ends_for_all(reached: Reached, error: Exception) -> bool:
    """Whether the error of a shared transaction is that of each of its callers. Else each write is done alone, so that
    the one which is at fault gets its error, and only that one.

    A store that is too slow is nobody's fault, and would be slower yet. A transaction that did not begin fails by no
    write. Whether one that lost its connection in COMMIT was done is unknown: who repeated a write then could be told
    that somebody else has written.
    """
    if reached is Reached.COMMIT:
        return isinstance(error, Unavailable)
    return reached is Reached.NOTHING or isinstance(error, StatementTimedOut)
