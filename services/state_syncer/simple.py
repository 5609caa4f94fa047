"""The set-based way of a round: for all usual jobs at once what `plan.decide` would have decided about each.

Configurations stay in the store. The Job Service has stored what the layers of each job merge to; one statement notes,
field by field, whether that is the same as what runs. Jobs that differ alike are one answer, and only the distinct
answers come here, to be judged by the field table (`penstock.config.sameness`). Jobs whose answer is simple, and first
configurations, are committed with their sync states in the same transaction, under one commit number, but for those
whose output has to be made first (`sinks`). Where the package of tasks that run is another one, the first wave is
committed, of as many jobs as the budget has room for, and the others wait; rollouts whose last wave is healthy end.
All that is not simple is left to the ordinary way in the same round, which gives its commits the next number.

A property test runs both ways side by side on random layers and finds the same rows. One difference is known: a field
that this version does not know, left in a running row by another version, is replaced by both ways, but only the
ordinary one names it among the changed fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.config.sameness import simple_change
from penstock.store import simple_rollouts, simple_sync
from penstock.store.engine import CHANGED_RUNNING, next_number, notify
from penstock.store.plans import count_rollouts, count_running, read_plans
from penstock.store.records import CommittedAlike
from penstock.store.running import RUNNING_COMMIT
from penstock.store.simple_sync import Answer, Judged, Late
from penstock.store.sync import MOST_ROLLING
from services.state_syncer.budget import Budget, Room, no_room
from services.state_syncer.rollout import describe, first_wave
from services.state_syncer.story import LOGGED_COMMITS
from services.state_syncer.waves import RolloutPolicy

# With fewer jobs to look at the ordinary way is quicker: it reads only those.
SET_BASED_FROM = 1000


class Terms(NamedTuple):
    """What rollouts begin and end by."""

    now: datetime
    budget: Budget
    policy: RolloutPolicy


class SimpleCommits(NamedTuple):
    """What was committed under one number, by kind; number None: nothing was. `settled`: so many rollouts
    ended. `awaiting`: rollouts began or ended, or wait."""

    number: int | None = None
    committed: tuple[CommittedAlike, ...] = ()
    settled: int = 0
    awaiting: bool = False

    @property
    def jobs(self) -> int:
        """How many jobs were committed, or settled."""
        return self.settled + sum(alike.jobs for alike in self.committed)


def commit_simple(connection: Connection, basis: str, leader_epoch: int, terms: Terms) -> SimpleCommits:
    """Commits first configurations and simple differences. The leader's epoch was checked in this transaction."""
    settled = _settle(connection, basis, terms)
    room = _room(connection, terms.budget)
    simple_sync.compare(connection, basis, full=room.free <= 0)
    judged = _judge(simple_sync.read_answers(connection), terms)
    late = _first_late(connection, judged, room)
    awaiting = settled > 0 or any(each.rollout is not None for each in judged.values())
    with connection.begin_nested() as attempt:
        number = next_number(connection, RUNNING_COMMIT)
        numbers = {"commit_number": number, "leader_epoch": leader_epoch, "sample": LOGGED_COMMITS}
        committed = simple_sync.commit_first(connection, basis, **numbers)
        if judged:
            committed += simple_sync.commit_changed(connection, judged, late=late, **numbers)
        if not committed:
            attempt.rollback()
            return SimpleCommits(settled=settled, awaiting=awaiting)
    notify(connection, CHANGED_RUNNING, str(number))
    return SimpleCommits(number, tuple(committed), settled, awaiting)


def _settle(connection: Connection, basis: str, terms: Terms) -> int:
    """Ends rollouts that are done. Of more than a round looks at one by one, what passes is noted."""
    rollouts = count_rollouts(connection)
    if not rollouts:
        return 0
    well_before = terms.now - timedelta(seconds=terms.policy.healthy_seconds)
    settled = simple_rollouts.settle(connection, basis, well_before=well_before)
    if rollouts - settled > MOST_ROLLING:
        simple_rollouts.note(connection, terms.now.isoformat())
    return settled


def _room(connection: Connection, budget: Budget) -> Room:
    rescales = sum(not row.deleting for row in read_plans(connection).values())
    active = rescales + count_rollouts(connection)
    return budget.room(count_running(connection), active=active, rescales=rescales)


def _judge(answers: Sequence[Answer], terms: Terms) -> dict[Answer, Judged]:
    judged = {}
    for answer in answers:
        change = simple_change(answer.sameness)
        if change is None or is_of_output(change.fields):
            continue
        judged[answer] = Judged(change)
        if answer.task_count:
            plan = first_wave(answer.task_count, change.fields, terms.now, terms.policy)
            judged[answer] = Judged(change, plan.model_dump(mode="json"), describe(plan))
    return judged


def _first_late(connection: Connection, judged: dict[Answer, Judged], room: Room) -> Late:
    """The first rollout that has to wait, all of which are noted."""
    if sum(answer.jobs for answer, each in judged.items() if each.rollout is not None) <= room.free:
        return Late()
    late = simple_sync.first_late(connection, judged, max(0, room.free))
    simple_sync.put_off(connection, judged, late, no_room(room.limit))
    return late


def is_of_output(fields: Iterable[str]) -> bool:
    """Whether a difference in these fields is one of the output: another one may have to be made first (`sinks`)."""
    return any(field.partition(".")[0] == "output" for field in fields)
