"""The set-based way of a round: for all usual jobs at once what `plan.decide` would have decided about each.

Configurations stay in the store. The Job Service has stored what the layers of each job merge to; one statement notes,
field by field, whether that is the same as what runs. Jobs that differ alike are one answer, and only the distinct
answers come here, to be judged by the field table (`penstock.config.sameness`). Jobs whose answer is simple, and first
configurations, are committed with their sync states in the same transaction, under one commit number, but for those
whose output has to be made first (`sinks`), and those with a new package, which goes out in waves. All others are
left to the ordinary way in the same round, which gives its commits the next number.

A property test runs both ways side by side on random layers and finds the same rows. One difference is known: a field
that this version does not know, left in a running row by another version, is replaced by both ways, but only the
ordinary one names it among the changed fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.config.sameness import Sameness, SimpleChange, simple_change
from penstock.store import simple_sync
from penstock.store.engine import CHANGED_RUNNING, next_number, notify
from penstock.store.records import CommittedAlike
from penstock.store.running import RUNNING_COMMIT
from services.state_syncer.story import LOGGED_COMMITS

# With fewer jobs to look at the ordinary way is quicker: it reads only those.
SET_BASED_FROM = 1000


class SimpleCommits(NamedTuple):
    """What was committed under one number, by kind; number None: nothing was."""

    number: int | None = None
    committed: tuple[CommittedAlike, ...] = ()

    @property
    def jobs(self) -> int:
        """How many jobs were committed."""
        return sum(alike.jobs for alike in self.committed)


def commit_simple(connection: Connection, basis: str, leader_epoch: int) -> SimpleCommits:
    """Commits first configurations and simple differences. The leader's epoch was checked in this transaction."""
    simple_sync.compare(connection, basis)
    judged = _judge(simple_sync.read_samenesses(connection))
    with connection.begin_nested() as attempt:
        number = next_number(connection, RUNNING_COMMIT)
        numbers = {"commit_number": number, "leader_epoch": leader_epoch, "sample": LOGGED_COMMITS}
        committed = simple_sync.commit_first(connection, basis, **numbers)
        if judged:
            committed += simple_sync.commit_changed(connection, judged, **numbers)
        if not committed:
            attempt.rollback()
            return SimpleCommits()
    notify(connection, CHANGED_RUNNING, str(number))
    return SimpleCommits(number, tuple(committed))


def _judge(samenesses: list[Sameness]) -> dict[Sameness, SimpleChange]:
    judged = ((sameness, simple_change(sameness)) for sameness in samenesses)
    return {sameness: change for sameness, change in judged if change is not None and not is_special(change.fields)}


def is_special(fields: Iterable[str]) -> bool:
    """Whether the ordinary way sees to a difference in these fields: another output may have to be made first
    (`sinks`), and another package goes out in waves (`rollout`)."""
    return any(field.partition(".")[0] in ("output", "package") for field in fields)
