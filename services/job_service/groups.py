"""Which writes of several callers are taken together in one transaction, and what follows when it fails. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from penstock.control.errors import Unavailable
from penstock.model.jobs import Action
from services.job_service.analysed import names_what_is_analysed
from services.job_service.writes import Write, batches

MOST_IN_GROUP = 64
_OF_LAYERS = (Action.PUT, Action.PATCH, Action.DROP)


class Reached(Enum):
    """How far a transaction got."""

    NOTHING = auto()
    STATEMENTS = auto()
    COMMIT = auto()


def may_share(write: Write, *, has_key: bool) -> bool:
    """Whether a write may be taken together with those of others. `has_key`: its call has an Idempotency-Key, for which
    it may have to wait.

    A write that Spark has to see is not done before it was: there is nothing to share.
    """
    return not has_key and write.action in _OF_LAYERS and not names_what_is_analysed(write.config or {})


def next_group(writes: Sequence[Write]) -> Sequence[int]:
    """Positions of the writes, of those that wait, that are taken next: the first write of each job, up to a limit."""
    return batches(writes)[0][:MOST_IN_GROUP]


def ends_for_all(reached: Reached, error: Exception) -> bool:
    """Whether the error of a shared transaction is that of each of its callers. Else each write is done alone, so that
    the one which is at fault gets its error, and only that one.

    A transaction that did not begin fails by no write. Whether one that lost its connection in COMMIT was done is
    unknown: who repeated a write then could be told that somebody else has written.
    """
    return reached is Reached.NOTHING or (reached is Reached.COMMIT and isinstance(error, Unavailable))
