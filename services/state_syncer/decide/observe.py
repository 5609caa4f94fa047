"""Are the tasks of a job gone? The answer is present, absent or unknown. Unknown is never treated as absent.

- A live container has stopped the job when its newest report meets three conditions. It is of the present incarnation,
  it was made after the stopping commit was applied, and it lists no task of the job. The container then starts none.
- A lost container was failed over: its lease had run out, so it had stopped every task before.
  Its last report no longer counts.
- A live container that owns no shard of the job's tasks runs none: a shard gets another owner only after its former one
  said that it stopped the shard's tasks. What such a container reported before the stop is out of date. But it may get
  a shard later, and have old specs. So the stop is first written down as `unasked_stop`. Whoever gets a shard after
  that starts its tasks only from specs that are at least as new as this commit.
- Anything else is unknown: an owner that has not reported since, or one that only the assignment or a task's row names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from penstock.model.reports import TaskState
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import task_id


class Presence(Enum):
    """What is known of the tasks of a job that is to stop.

    UNTOLD: they are gone, but a live container has not said that it knows of the stop. They are absent once the store
    has the stop's commit as `unasked_stop`: then a container that gets a shard later needs specs as new as it.
    """

    ABSENT = "absent"
    UNTOLD = "untold"
    PRESENT = "present"
    UNKNOWN = "unknown"


class Order(NamedTuple):
    """The commit that gives the tasks of a job no more rows. `level_ms`: those below this watermark first read on to
    it; with 0 none does, they only say theirs. `task_count`: how many tasks the job has."""

    commit_number: int
    level_ms: int | None = None
    task_count: int = 1

    @property
    def levels(self) -> bool:
        """Whether tasks read on."""
        return bool(self.level_ms)


class ReportedTask(NamedTuple):
    """What the newest report of `container` says of a task that takes no more rows.

    `quiesced`: its batch is done and it reads nothing more, by the order to `level_ms`. `watermark_ms`: after that
    batch, 0 without one; None when the task cannot be levelled while it runs. `caught_up`: as
    `TaskProgress` has it. `rows_per_second`: while its batches ran. `crashes`: in a row.
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
    rows_per_second: float | None = None


class Behind(NamedTuple):
    """A task that is quiet and behind the others, with what it has to read in all and how fast it reads; None when that
    is unknown."""

    number: int
    watermark_ms: int
    records: int | None
    rows_per_second: float | None

    def seconds_to(self, goal_ms: int, now_ms: float) -> float | None:
        """About how long it needs to read to the watermark `goal_ms`, as if rows came evenly until now. None when that
        is unknown."""
        if self.records is None or not self.rows_per_second or not self.watermark_ms:
            return None
        share = (goal_ms - self.watermark_ms) / max(now_ms - self.watermark_ms, goal_ms - self.watermark_ms)
        return self.records * share / self.rows_per_second


class Unread(NamedTuple):
    """The task with the most left to read. `records`: None when that is unknown."""

    number: int
    records: int | None


class Quiet(NamedTuple):
    """What is known of the tasks of a job that take no more rows. Unknown is never quiet.

    `busy`: tasks that have not said yet that their batch is done, or that they have come to `level_ms`. `unheard`:
    tasks may run of which nothing is known. `goal_ms`: the greatest watermark, when all tasks are quiet but the tasks
    `behind` have rows to read below it. While tasks read on, `furthest` is the busy one with the most left to read.
    Tasks that have `crashed`, and `missing` ones, which no live container lists, will soon run again.
    """

    busy: int = 0
    unheard: bool = True
    goal_ms: int | None = None
    level_ms: int | None = None
    furthest: Unread | None = None
    behind: tuple[Behind, ...] = ()
    crashed: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether no task is in a batch with rows."""
        return not self.busy and not self.unheard

    def seconds_to_goal(self, now: datetime) -> float | None:
        """About how long the slowest of the tasks behind needs to read on; None when that is unknown."""
        goal_ms, now_ms = self.goal_ms or 0, now.timestamp() * 1000
        estimates = [task.seconds_to(goal_ms, now_ms) for task in self.behind]
        return max((seconds for seconds in estimates if seconds is not None), default=None)

    def __str__(self) -> str:
        told = [self._busy_ones()] if self.busy else []
        told += [f"task {number} has crashed and is awaited" for number in self.crashed]
        told += [f"task {number} runs nowhere yet and is awaited" for number in self.missing]
        if self.unheard and not (self.busy and not self.level_ms):
            told.append("not every container has reported since the order")
        done = "all tasks have read on" if self.level_ms else "all tasks have finished their batches"
        return "; ".join(told) or done

    def _busy_ones(self) -> str:
        if not self.level_ms:
            one, many = "1 task has not finished its batch", "{} tasks have not finished their batches"
            return one if self.busy == 1 else many.format(self.busy)
        tasks = "1 task reads" if self.busy == 1 else f"{self.busy} tasks read"
        left = self._left()
        return f"{tasks} on to the greatest watermark of all, {_text(self.level_ms)}" + (f"; {left}" if left else "")

    def _left(self) -> str:
        if self.furthest is None:
            return ""
        number, records = self.furthest
        if records is None:
            return f"it is unknown how many records task {number} has in its inputs"
        return f"task {number} has {records:,} records in its inputs, of which it reads those before that"


def _text(millis: int) -> str:
    """A watermark that is no date, as rows with a wrong time unit bring about, is told in milliseconds."""
    if millis > _LAST_DATE_MS:
        return f"{millis} ms"
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_LAST_DATE_MS = int(datetime.max.replace(tzinfo=UTC).timestamp() * 1000) - 1

UNHEARD = Quiet()


class Sighting(NamedTuple):
    """A container and its newest report; `applied_commit` is the commit that the report was made after."""

    container: str
    incarnation: str
    live: bool
    reported_incarnation: str | None
    applied_commit: int | None


class JobsTasks(NamedTuple):
    """The tasks that a job may have, in the shards of its `selector`."""

    job: str
    task_count: int
    selector: str | None


class ListedTask(NamedTuple):
    """A task that the newest report of a container lists."""

    container: str
    number: int


class Assignment(NamedTuple):
    """The owner of each shard, None for nobody, of the moment of the sightings. `unasked_stop`: as the store has it."""

    owners: Mapping[int, str | None]
    sharding: Sharding
    unasked_stop: int = 0

    def owner_of(self, tasks: JobsTasks, number: int) -> str | None:
        """The container that may run a task. Raises LookupError when it is unknown which shard the task is in."""
        shard = self.sharding.shard_of(task_id(tasks.job, number), tasks.selector)
        if shard is None:
            raise LookupError(tasks.job)
        return self.owners[shard]


NO_ASSIGNMENT = Assignment({}, Sharding(1))


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All containers at one moment.

    `reporting`: live ones with a report of their present incarnation. `lost`: failed over. `applied_commit`: the newest
    commit that every live container has applied. None while one has not reported, or owns shards but is not listed.
    `applied`: the newest commit that each live one has applied; None: it has not reported in its present incarnation.
    """

    reporting: frozenset[str]
    lost: frozenset[str]
    applied_commit: int | None
    applied: Mapping[str, int | None] = field(default_factory=dict)
    assignment: Assignment = NO_ASSIGNMENT

    def everyone_knows(self, commit_number: int) -> bool:
        """Whether every live container has applied a commit."""
        return self.applied_commit is not None and self.applied_commit >= commit_number

    def owners_know(self, tasks: JobsTasks | None, commit_number: int) -> bool:
        """Whether every container that may run one of the tasks has applied a commit, or is lost."""
        if tasks is None:
            return False
        try:
            owners = {self.assignment.owner_of(tasks, number) for number in range(tasks.task_count)}
        except LookupError:
            return False
        return all(self._knows(owner, commit_number) for owner in owners if owner is not None)

    def is_out_of_date(self, held: ListedTask, tasks: JobsTasks | None, commit_number: int) -> bool:
        """Whether a live container's report from before a commit lists a task that another container owns since."""
        is_live = held.container in self.applied
        if tasks is None or not is_live or self._knows(held.container, commit_number):
            return False
        try:
            return self.assignment.owner_of(tasks, held.number) != held.container
        except LookupError:
            return False

    def _knows(self, container: str, commit_number: int) -> bool:
        applied = self.applied.get(container)
        return container in self.lost or (applied is not None and applied >= commit_number)


NO_CONTAINERS_APPLIED = 2**63 - 1


def survey(sightings: Iterable[Sighting], assignment: Assignment) -> ClusterView:
    """The cluster's view, by what was seen of the containers and by the stored assignment of the same moment."""
    seen = tuple(sightings)
    applied = {sighting.container: _applied(sighting) for sighting in seen if sighting.live}
    known = {container: commit for container, commit in applied.items() if commit is not None}
    owners = {owner for owner in assignment.owners.values() if owner is not None}
    complete = len(known) == len(applied) and {sighting.container for sighting in seen}.issuperset(owners)
    return ClusterView(
        reporting=frozenset(known),
        lost=frozenset(sighting.container for sighting in seen if not sighting.live),
        applied_commit=min(known.values(), default=NO_CONTAINERS_APPLIED) if complete else None,
        applied=applied,
        assignment=assignment,
    )


def _applied(sighting: Sighting) -> int | None:
    return sighting.applied_commit if sighting.reported_incarnation == sighting.incarnation else None


AWAITED_CRASHES = 3
"""A task that crashed fewer times in a row starts again within seconds."""


def observe_quiet(
    cluster: ClusterView, reported: Collection[ReportedTask], order: Order, of: JobsTasks | None = None
) -> Quiet:
    """Whether the tasks under an order have finished their batches, and are level.

    `reported`: those that any container's newest report lists. `of`: the job's tasks, None when these are unknown; then
    every container must have reported since the order. A task that crashed or is held has no batch to finish. Nor
    has one that no live container lists: it runs nowhere. But a task that crashed finishes its batch and reads on as
    soon as it runs again; so does, while tasks read on, one that runs nowhere. One that is held, or crashes again and
    again, will not run soon.
    """
    everyone_knows = cluster.everyone_knows(order.commit_number) or cluster.owners_know(of, order.commit_number)
    tasks = tuple(_up_to_date(cluster, reported, order, of))
    placed = all(task.container in cluster.reporting or task.container in cluster.lost for task in tasks)
    present = [task for task in tasks if task.container in cluster.reporting]
    busy = [task for task in present if _is_busy(task, order)]
    unheard = not everyone_knows or not placed
    found = Quiet(len(busy), unheard, level_ms=order.level_ms, furthest=_furthest(busy, order))
    found = found._replace(crashed=_crashed(present, order), missing=_missing(present, order))
    return found if busy or unheard else _with_goal(found, present)


def _up_to_date(
    cluster: ClusterView, reported: Iterable[ReportedTask], order: Order, of: JobsTasks | None
) -> Iterator[ReportedTask]:
    for task in reported:
        if not cluster.is_out_of_date(ListedTask(task.container, task.number), of, order.commit_number):
            yield task


def _is_busy(task: ReportedTask, order: Order) -> bool:
    """A task without a watermark cannot be levelled while it runs: what it said of any order counts. So does the answer
    of a container of the release before, which knows of no level, to an order to read nothing more."""
    if task.state in (TaskState.HELD, TaskState.CRASHED):
        return False
    if task.quiesced and task.watermark_ms is None:
        return False
    return not (task.quiesced and (task.level_ms or 0) == (order.level_ms or 0))


def _crashed(present: Collection[ReportedTask], order: Order) -> tuple[int, ...]:
    crashed = (task for task in present if task.state is TaskState.CRASHED and task.crashes < AWAITED_CRASHES)
    return tuple(sorted(task.number for task in crashed)) if order.level_ms is not None else ()


def _missing(present: Collection[ReportedTask], order: Order) -> tuple[int, ...]:
    """Tasks that no live container lists."""
    known = {task.number for task in present}
    return tuple(number for number in range(order.task_count) if number not in known) if order.levels else ()


def _furthest(busy: Collection[ReportedTask], order: Order) -> Unread | None:
    """The busy task with the most records left. One whose records are unknown comes first."""
    if not busy or not order.levels:
        return None
    found = max(busy, key=lambda task: (task.backlog_records is None, task.backlog_records or 0, -task.number))
    return Unread(found.number, found.backlog_records)


def _with_goal(quiet: Quiet, tasks: Collection[ReportedTask]) -> Quiet:
    """Without a goal when all tasks of which it is known are level. Others may have to be levelled after the stop."""
    known = [task for task in tasks if task.quiesced and task.watermark_ms is not None]
    goal = max((task.watermark_ms or 0 for task in known), default=0)
    behind = [task for task in known if (task.watermark_ms or 0) < goal and not task.caught_up]
    if not behind:
        return quiet
    told = (
        Behind(task.number, task.watermark_ms or 0, task.backlog_records, task.rows_per_second)
        for task in sorted(behind, key=lambda task: task.number)
    )
    return quiet._replace(goal_ms=goal, behind=tuple(told))


def observe_stopped(
    cluster: ClusterView, held: Iterable[ListedTask], commit_number: int, tasks: JobsTasks | None = None
) -> Presence:
    """Whether the tasks that the commit `commit_number` stops are gone.

    `held`: the job's tasks that newest reports list. `tasks`: those that the job may have; None when these are unknown.
    Then every container must have reported since the stop.
    """
    holders = {each.container for each in held if not cluster.is_out_of_date(each, tasks, commit_number)}
    if not holders.isdisjoint(cluster.reporting):
        return Presence.PRESENT
    if not cluster.lost.issuperset(holders):
        return Presence.UNKNOWN
    if cluster.everyone_knows(commit_number):
        return Presence.ABSENT
    if cluster.owners_know(tasks, commit_number):
        return Presence.ABSENT if cluster.assignment.unasked_stop >= commit_number else Presence.UNTOLD
    return Presence.UNKNOWN
