"""Are the tasks of a job gone? The answer is present, absent or unknown. Unknown is never treated as absent.

- A live container has stopped the job when its newest report meets three conditions. It is of the present incarnation,
  it was made after the stopping commit was applied, and it lists no task of the job. The container then starts none.
- A lost container was failed over: its lease had run out, so it had stopped every task before.
  Its last report no longer counts.
- Anything else is unknown: a container that has not reported since, or that only the assignment or a task's row names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from penstock.model.reports import TaskState


class Presence(Enum):
    """What is known of the tasks of a job that is to stop."""

    ABSENT = "absent"
    PRESENT = "present"
    UNKNOWN = "unknown"


class Order(NamedTuple):
    """The commit that gives the tasks of a job no more rows. `level_ms`: those below this watermark first read on to
    it. `task_count`: how many tasks the job has."""

    commit_number: int
    level_ms: int | None = None
    task_count: int = 1


class ReportedTask(NamedTuple):
    """What the newest report of `container` says of a task that takes no more rows.

    `quiesced`: its batch is done and it reads nothing more, by the order to `level_ms`. `watermark_ms`: after that
    batch, 0 without one, None unknown. `caught_up`: nothing is left but what came in since. `crashes`: in a row.
    """

    container: str
    number: int
    state: TaskState
    quiesced: bool = False
    level_ms: int | None = None
    watermark_ms: int | None = None
    caught_up: bool = False
    backlog_records: int | None = None
    crashes: int = 0


class Unread(NamedTuple):
    """The task with the most left to read. `records`: None when that is unknown."""

    number: int
    records: int | None


class Quiet(NamedTuple):
    """What is known of the tasks of a job that take no more rows. Unknown is never quiet.

    `busy`: tasks that have not said yet that their batch is done, or that they have come to `level_ms`. `unheard`:
    tasks may run of which nothing is known. `goal_ms`: all are quiet, but some are behind this watermark, the greatest
    of all, and not at the end of their inputs. `furthest`: of the busy tasks, while they read on.
    """

    busy: int = 0
    unheard: bool = True
    goal_ms: int | None = None
    level_ms: int | None = None
    furthest: Unread | None = None

    @property
    def is_certain(self) -> bool:
        """Whether no task is in a batch with rows."""
        return not self.busy and not self.unheard

    def __str__(self) -> str:
        if self.busy and self.level_ms is not None:
            return f"{self.busy} tasks read on to the watermark {_text(self.level_ms)} of the others{self._left()}"
        if self.busy:
            return f"{self.busy} tasks have not finished their batches"
        if self.unheard and self.level_ms is not None:
            return "not every task and container has reported since"
        return "not every container has reported since" if self.unheard else "all tasks have finished their batches"

    def _left(self) -> str:
        if self.furthest is None:
            return ""
        number, records = self.furthest
        left = "an unknown number of" if records is None else f"{records:,}"
        return f"; task {number} has the most left in its inputs, {left} records"


def _text(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


UNHEARD = Quiet()


class Sighting(NamedTuple):
    """A container and its newest report; `applied_commit` is the commit that the report was made after."""

    container: str
    incarnation: str
    live: bool
    reported_incarnation: str | None
    applied_commit: int | None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All containers at one moment.

    `reporting`: live ones with a report of their present incarnation. `lost`: failed over. `applied_commit`: the newest
    commit that every live container has applied. None while one has not reported, or owns shards but is not listed.
    """

    reporting: frozenset[str]
    lost: frozenset[str]
    applied_commit: int | None


NO_CONTAINERS_APPLIED = 2**63 - 1


def survey(sightings: Iterable[Sighting], owners: Collection[str]) -> ClusterView:
    """The cluster's view; `owners` are the containers that own a shard by the stored assignment."""
    seen = tuple(sightings)
    applied = {sighting.container: _applied(sighting) for sighting in seen if sighting.live}
    known = {container: commit for container, commit in applied.items() if commit is not None}
    complete = len(known) == len(applied) and {sighting.container for sighting in seen}.issuperset(owners)
    return ClusterView(
        reporting=frozenset(known),
        lost=frozenset(sighting.container for sighting in seen if not sighting.live),
        applied_commit=min(known.values(), default=NO_CONTAINERS_APPLIED) if complete else None,
    )


def _applied(sighting: Sighting) -> int | None:
    return sighting.applied_commit if sighting.reported_incarnation == sighting.incarnation else None


AWAITED_CRASHES = 3
"""A task that crashed fewer times in a row starts again within seconds."""


def observe_quiet(cluster: ClusterView, tasks: Collection[ReportedTask], order: Order) -> Quiet:
    """Whether the tasks under an order have finished their batches, and are level.

    `tasks`: those that any container's newest report lists. A task that crashed or is held has no batch to finish. Nor
    has one that no live container lists: it runs nowhere. But while tasks read on to a watermark such a task is waited
    for: it reads on as soon as it runs again. Only one that is held, or crashes again and again, is not.
    """
    everyone_knows = cluster.applied_commit is not None and cluster.applied_commit >= order.commit_number
    placed = all(task.container in cluster.reporting or task.container in cluster.lost for task in tasks)
    present = [task for task in tasks if task.container in cluster.reporting]
    busy = [task for task in present if _is_busy(task, order)]
    missing = 0 if order.level_ms is None else order.task_count - len({task.number for task in present})
    if busy or missing > 0 or not everyone_knows or not placed:
        is_heard = everyone_knows and placed and missing <= 0
        return Quiet(len(busy), not is_heard, level_ms=order.level_ms, furthest=_furthest(busy, order))
    return Quiet(unheard=False, goal_ms=_goal(present), level_ms=order.level_ms)


def _is_busy(task: ReportedTask, order: Order) -> bool:
    if task.state is TaskState.HELD:
        return False
    if task.state is TaskState.CRASHED:
        return order.level_ms is not None and task.crashes < AWAITED_CRASHES
    return not (task.quiesced and task.level_ms == order.level_ms)


def _furthest(busy: Collection[ReportedTask], order: Order) -> Unread | None:
    """The one of which nothing is known, if any."""
    if not busy or order.level_ms is None:
        return None
    found = max(busy, key=lambda task: (task.backlog_records is None, task.backlog_records or 0, -task.number))
    return Unread(found.number, found.backlog_records)


def _goal(tasks: Collection[ReportedTask]) -> int | None:
    """None when all tasks of which it is known are level. The others may have to be levelled after the stop."""
    known = [(task.watermark_ms, task.caught_up) for task in tasks if task.quiesced and task.watermark_ms is not None]
    goal = max((watermark for watermark, _ in known), default=0)
    return goal if any(watermark < goal and not caught_up for watermark, caught_up in known) else None


def observe_stopped(cluster: ClusterView, holders: Collection[str], commit_number: int) -> Presence:
    """Whether the tasks that the commit `commit_number` stops are gone.

    `holders` are the containers whose newest report lists a task of the job.
    """
    if any(holder in cluster.reporting for holder in holders):
        return Presence.PRESENT
    everyone_knows = cluster.applied_commit is not None and cluster.applied_commit >= commit_number
    if everyone_knows and cluster.lost.issuperset(holders):
        return Presence.ABSENT
    return Presence.UNKNOWN
