"""Have the tasks of a job finished their batches, and are they level? Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.model.reports import TaskState
from services.state_syncer.decide.observe import ClusterView, JobsTasks, ListedTask
from services.state_syncer.decide.whereabouts import ALL_RUN, ReportedTask, Whereabouts, whereabouts


class Order(NamedTuple):
    """The commit that gives the tasks of a job no more rows. `level_ms`: those below this watermark first read on to
    it; with 0 none does, they only say theirs."""

    commit_number: int
    level_ms: int | None = None

    @property
    def levels(self) -> bool:
        """Whether tasks read on."""
        return bool(self.level_ms)


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
    """The task with the most left to read. `records`: in its inputs; `to_level`: those that it reads on in all. None
    when that is unknown: of `to_level` while its host looks for where the task ends to read; of `records` also until
    the task has finished a batch that began after its start. `is_silent`: its host says nothing."""

    number: int
    records: int | None
    to_level: int | None = None
    is_silent: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether it is unknown how far the task has to read."""
        return self.records is None and self.to_level is None

    def __str__(self) -> str:
        if self.to_level is not None:
            return f"task {self.number} reads {self.to_level:,} records for that"
        if self.records is not None:
            return f"task {self.number} has {self.records:,} records in its inputs, of which it reads those before that"
        if self.is_silent:
            return f"the host of task {self.number} says nothing: how many records that is, is unknown"
        return f"the host of task {self.number} looks for the record at which it stops"


class Quiet(NamedTuple):
    """What is known of the tasks of a job that take no more rows. Unknown is never quiet.

    `busy`: tasks that have not said yet that their batch is done, or that they have come to `level_ms`. `unheard`:
    tasks may run of which nothing is known. `goal_ms`: the greatest watermark, when all tasks are quiet but the tasks
    `behind` have rows to read below it. While tasks read on, `furthest` is the busy one with the most left to read.
    `where`: tasks that do not run now. They were lost or crashed while the job quiesced, and will run again.
    """

    busy: int = 0
    unheard: bool = True
    goal_ms: int | None = None
    level_ms: int | None = None
    furthest: Unread | None = None
    behind: tuple[Behind, ...] = ()
    where: Whereabouts = ALL_RUN

    @property
    def is_certain(self) -> bool:
        """Whether every task is known to be there, and none is in a batch with rows."""
        return not self.busy and not self.unheard and self.where.all_run

    def seconds_to_goal(self, now: datetime) -> float | None:
        """About how long the slowest of the tasks behind needs to read on; None when that is unknown."""
        goal_ms, now_ms = self.goal_ms or 0, now.timestamp() * 1000
        estimates = [task.seconds_to(goal_ms, now_ms) for task in self.behind]
        return max((seconds for seconds in estimates if seconds is not None), default=None)

    def __str__(self) -> str:
        told = [self._busy_ones()] if self.busy else []
        told += [] if self.where.all_run else [str(self.where)]
        if self.unheard and not (self.busy and not self.level_ms):
            told.append("not every container has reported since the order")
        done = "all tasks have read on" if self.level_ms else "all tasks have finished their batches"
        return "; ".join(told) or done

    def _busy_ones(self) -> str:
        if not self.level_ms:
            one, many = "1 task has not finished its batch", "{} tasks have not finished their batches"
            return one if self.busy == 1 else many.format(self.busy)
        tasks = "1 task reads" if self.busy == 1 else f"{self.busy} tasks read"
        left = "" if self.furthest is None else f"; {self.furthest}"
        return f"{tasks} on to the greatest watermark of all, {_text(self.level_ms)}{left}"


def _text(millis: int) -> str:
    """A watermark that is no date, as rows with a wrong time unit bring about, is told in milliseconds."""
    if millis > _LAST_DATE_MS:
        return f"{millis} ms"
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_LAST_DATE_MS = int(datetime.max.replace(tzinfo=UTC).timestamp() * 1000) - 1

UNHEARD = Quiet()


def observe_quiet(
    cluster: ClusterView, reported: Collection[ReportedTask], order: Order, of: JobsTasks | None = None
) -> Quiet:
    """Whether the tasks under an order have finished their batches, and are level.

    `reported`: those that any container's newest report lists. `of`: the job's tasks, None when these are unknown; then
    every container must have reported since the order. A task that does not run now has no batch to finish. But what it
    left is finished, and it reads on, as soon as it runs again: by a job that runs, or else by one that is stopped. So
    the job is not quiet without it. One that is held, or crashes again and again, will not run soon.
    """
    everyone_knows = cluster.everyone_knows(order.commit_number) or cluster.owners_know(of, order.commit_number)
    tasks = tuple(_up_to_date(cluster, reported, order, of))
    placed = all(task.container in cluster.reporting or task.container in cluster.lost for task in tasks)
    present = [task for task in tasks if task.container in cluster.reporting]
    busy = [task for task in present if _is_busy(task, order)]
    unheard = not everyone_knows or not placed
    where = whereabouts(cluster, tasks, of)
    found = Quiet(len(busy), unheard, level_ms=order.level_ms, furthest=_furthest(busy, order), where=where)
    return found if busy or unheard else _with_goal(found, present)


def _up_to_date(
    cluster: ClusterView, reported: Iterable[ReportedTask], order: Order, of: JobsTasks | None
) -> Iterator[ReportedTask]:
    for task in reported:
        if not cluster.is_out_of_date(ListedTask(task.container, task.number), of, order.commit_number):
            yield task


def _is_busy(task: ReportedTask, order: Order) -> bool:
    """A task without a watermark cannot be levelled while it runs: what it said of any order counts. So does the answer
    of a container of the release before, which knows of no level, to an order to read nothing more. What a task said
    before its host fell silent may be over."""
    if task.state in (TaskState.HELD, TaskState.CRASHED):
        return False
    if task.is_silent or not task.quiesced:
        return True
    return task.watermark_ms is not None and (task.level_ms or 0) != (order.level_ms or 0)


def _furthest(busy: Collection[ReportedTask], order: Order) -> Unread | None:
    """The busy task with the most records left. One whose records are unknown comes first."""
    if not busy or not order.levels:
        return None
    told = (Unread(task.number, task.backlog_records, task.level_records, task.is_silent) for task in busy)
    return max(told, key=lambda task: (task.is_unknown, task.to_level or task.records or 0, -task.number))


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
