"""The set-based way of a round: for all usual jobs at once what `plan.decide` would have decided about each.

The store compares and commits; only the distinct answers of the comparison come here, to be judged by the field table.
"""

from __future__ import annotations

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
    return {sameness: change for sameness, change in judged if change is not None}
