"""What the Task Service knows of this container, and so what the next report says: everything, or what changed.

No I/O, no clock; used by one thread. Changes build on the newest report with news that the Task Service has stored. A
report without an answer may have been stored or not, and may still arrive: the Task Service tells by the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskReportChanges
from penstock.tasks.lag import MEASURED, lag_of
from penstock.tasks.spec import task_id as name_of

_MOST_FAILURES = 3
_NOTHING = TaskProgress()


class Outgoing(NamedTuple):
    """The next report: everything that `batch` has when `changes` is None. `with_figures`: also the measurements."""

    number: int
    batch: TaskReportBatch
    changes: TaskReportChanges | None = None
    with_figures: bool = True


class _Newest(NamedTuple):
    stored_at: float
    commit_number: int
    version: int


@dataclass(frozen=True, slots=True)
class _Stored:
    incarnation: str
    base: int
    tasks: Mapping[str, TaskReport]


class ReportLog:
    """Figures are measurements that change nothing that anybody waits for: they are told once in `figures_seconds`, of
    all tasks together. A full report is due every `full_seconds`. Both times vary by a quarter, so that containers
    which started together do not report together for ever. Where nothing is new, that is told every `quiet_seconds`.
    """

    def __init__(self, *, quiet_seconds: float, figures_seconds: float, full_seconds: float, random: Random) -> None:
        self._quiet_seconds = quiet_seconds
        self._figures_seconds = figures_seconds
        self._full_seconds = full_seconds
        self._random = random
        self._number = 0
        self._failures = 0
        self._stored: _Stored | None = None
        self._newest: _Newest | None = None
        self._figures_at = 0.0
        self._full_at = 0.0

    def next(self, batch: TaskReportBatch, now: float) -> Outgoing | None:
        """The next report of a container that is as `batch` says. None: nothing is new, and that was told lately."""
        stored, number = self._stored, self._number + 1
        if stored is None or stored.incarnation != batch.incarnation or now >= self._full_at:
            self._number = number
            return Outgoing(number, batch)
        with_figures = now >= self._figures_at
        changes = self._changes(stored, batch, number, with_figures)
        if not changes.has_news and self._knows_no_more(batch):
            if self._was_told_lately(now):
                return None
            changes = changes.model_copy(update={"may_wait": True})
        self._number = number
        return Outgoing(number, batch, changes, with_figures)

    def stored(self, sent: Outgoing, now: float, *, takes_changes: bool = True) -> None:
        """The Task Service has stored a report. `takes_changes`: changes to it may follow."""
        self._failures = 0
        self._newest = _Newest(now, sent.batch.commit_number, sent.batch.version)
        known, changes = self._stored, sent.changes
        if sent.with_figures:
            self._figures_at = now + self._varied(self._figures_seconds)
        if changes is None:
            tasks = {name_of(task.job, task.index): _without_load(task) for task in sent.batch.tasks}
            self._stored = _Stored(sent.batch.incarnation, sent.number, tasks) if takes_changes else None
            self._full_at = now + self._varied(self._full_seconds)
        elif known is not None and changes.has_news:
            gone = {name_of(*task) for task in changes.ended}
            kept = {name: task for name, task in known.tasks.items() if name not in gone}
            told = {name_of(task.job, task.index): _without_load(task) for task in changes.tasks}
            self._stored = _Stored(known.incarnation, sent.number, {**kept, **told})

    def failed(self) -> None:
        """No answer: the report may have been stored. After some failures in a row the next one is full: perhaps a
        Task Service of the release before has come back, which takes nothing else."""
        self._newest = None
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._stored = None

    def refused(self) -> None:
        """The Task Service asks for a full report."""
        self._stored = None

    def _knows_no_more(self, batch: TaskReportBatch) -> bool:
        """Whether the newest report is stored, and knows no older commit or assignment than this one."""
        newest = self._newest
        return newest is not None and newest[1:] == (batch.commit_number, batch.version)

    def _was_told_lately(self, now: float) -> bool:
        return self._newest is not None and now < self._newest.stored_at + self._quiet_seconds

    def _changes(self, stored: _Stored, batch: TaskReportBatch, number: int, with_figures: bool) -> TaskReportChanges:
        present = {name_of(task.job, task.index): task for task in batch.tasks}
        return TaskReportChanges(
            container=batch.container,
            incarnation=batch.incarnation,
            commit_number=batch.commit_number,
            version=batch.version,
            number=number,
            after=stored.base,
            tasks=tuple(
                task for name, task in present.items() if _must_tell(stored.tasks.get(name), task, with_figures)
            ),
            ended=tuple((task.job, task.index) for name, task in stored.tasks.items() if name not in present),
        )

    def _varied(self, seconds: float) -> float:
        return seconds * self._random.uniform(0.75, 1.25)


def _must_tell(told: TaskReport | None, task: TaskReport, with_figures: bool) -> bool:
    if told is None or task.load is not None or is_news(told, task):
        return True
    return with_figures and told.progress != task.progress


def is_news(told: TaskReport, task: TaskReport) -> bool:
    """Whether somebody may wait for what changed since a task was told last: how it runs, its answer to an order,
    whether something is known of it, its first rows, and problems with its inputs. All else are figures."""
    has_worked, had_worked = bool(_progress(task).input_rows), bool(_progress(told).input_rows)
    return _facts(told) != _facts(task) or (has_worked and not had_worked)


def _facts(task: TaskReport) -> tuple[Any, ...]:
    progress = _progress(task)
    lag = lag_of(*(getattr(progress, name) for name in MEASURED))
    answer = (progress.level_ms, progress.watermark_ms, progress.caught_up) if progress.quiesced else ()
    known = (progress.batch_id is None, progress.silent_seconds is None, lag.seconds is None)
    return (
        *(task.state, task.revision, task.generation, task.restarts, task.epoch),
        *(task.crashes, task.error, task.out_of_memory),
        *(answer, progress.level_records, known, frozenset(progress.input_problems)),
    )


def _progress(task: TaskReport) -> TaskProgress:
    return task.progress or _NOTHING


def _without_load(task: TaskReport) -> TaskReport:
    return task if task.load is None else task.model_copy(update={"load": None})
