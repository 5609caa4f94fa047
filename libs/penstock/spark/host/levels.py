"""Finds how far tasks of this host read on before a rescale, beside the tasks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import NamedTuple

from penstock.control.logs import logger
from penstock.spark.redistribute.running import Cuts, RunningLevel
from penstock.spark.task import RunningTask

log = logger(__name__)

_NOWHERE = Cuts({}, None)

_SEARCHES = 2
"""At once: each has both cores of a small machine busy."""
_RETRY_SECONDS = 5.0


class _Order(NamedTuple):
    """The order to one run of a task."""

    run_id: str | None
    level_ms: int


class _Found(NamedTuple):
    """Whether a task can be cut, and how many records it reads on, where that is known."""

    can_be_cut: bool
    records: int | None


class _Search(NamedTuple):
    order: _Order
    found: Future[_Found]
    begun: float

    @property
    def result(self) -> _Found | None:
        """None while it lasts, and where it failed."""
        return self.found.result() if self.found.done() and self.found.exception() is None else None


class TaskLevels:
    """What is known of tasks that were asked for their watermark, or to read on to one. Called by one thread.

    A task that cannot be cut reads nothing and says no watermark: it is levelled after the stop. One whose cuts are not
    found reads nothing and says nothing. It is behind and waited for, and the search is repeated.
    """

    def __init__(self, threads: int) -> None:
        # Those that only say their watermark do not wait for searches of other jobs.
        self._asking = ThreadPoolExecutor(threads, thread_name_prefix="watermark")
        self._searching = ThreadPoolExecutor(_SEARCHES, thread_name_prefix="level")
        self._known: dict[str, _Search] = {}

    def can_be_cut(self, task: RunningTask) -> bool | None:
        """None while that, or where to, is not known; the first call under an order starts to find out. False: the task
        is under no order with a level, or cannot be cut."""
        level_ms = task.spec.level_ms
        if level_ms is None or not task.spec.quiescing:
            self.forget(task.spec.task_id)
            return False
        order = _Order(task.run_id, level_ms)
        known = self._known.get(task.spec.task_id)
        if known is None or known.order != order or _is_to_be_repeated(known):
            self.forget(task.spec.task_id)
            known = _Search(order, self._begin(task, level_ms), monotonic())
            self._known[task.spec.task_id] = known
        return None if known.result is None else known.result.can_be_cut

    def records(self, task_id: str) -> int | None:
        """How many records the task reads on in all, by its present order. None while that is not known."""
        known = self._known.get(task_id)
        return None if known is None or known.result is None else known.result.records

    def forget(self, task_id: str) -> None:
        """The task has ended, or its order is over."""
        known = self._known.pop(task_id, None)
        if known is not None:
            known.found.cancel()

    def _begin(self, task: RunningTask, level_ms: int) -> Future[_Found]:
        return (self._searching if level_ms else self._asking).submit(_find, task, level_ms)


def _is_to_be_repeated(search: _Search) -> bool:
    has_failed = search.found.done() and search.found.exception() is not None
    return has_failed and monotonic() - search.begun >= _RETRY_SECONDS


def _find(task: RunningTask, level_ms: int) -> _Found:
    """A task that is to read on is told where to."""
    try:
        level = RunningLevel(task)
        can_be_cut = level.can_be_cut()
        cuts = level.cuts(level_ms, lambda: _is_over(task, level_ms)) if can_be_cut and level_ms else _NOWHERE
    except Exception as error:
        log.warning("how far the task is to read is not known yet", task=task.spec.task_id, error=str(error))
        raise
    if level_ms:
        task.read_to(level_ms, cuts.ends)
        if can_be_cut:
            log.info("task reads on to a watermark", task=task.spec.task_id, level_ms=level_ms, stop_at=cuts.ends)
    return _Found(can_be_cut, cuts.records)


def _is_over(task: RunningTask, level_ms: int) -> bool:
    return not task.spec.quiescing or task.spec.level_ms != level_ms or not task.is_active
