"""Finds how far tasks of this host read on before a rescale, beside the tasks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from penstock.control.logs import logger
from penstock.spark.balance import Ends
from penstock.spark.redistribute.running import RunningLevel
from penstock.spark.task import RunningTask

log = logger(__name__)

_NOWHERE: Ends = {}


class _Order(NamedTuple):
    """The order to one run of a task."""

    run_id: str | None
    level_ms: int


class TaskLevels:
    """What is known of tasks that were asked for their watermark, or to read on to one. Called by one thread.

    A task that cannot be cut, or of which that cannot be found out, reads nothing and says so: it is levelled after the
    stop.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="level")
        self._found: dict[str, tuple[_Order, Future[bool]]] = {}

    def can_be_cut(self, task: RunningTask) -> bool | None:
        """By the order that the task is under. None while it is not known; the first question begins to find out."""
        level_ms = task.spec.level_ms
        if level_ms is None or not task.spec.quiescing:
            self._found.pop(task.spec.task_id, None)
            return False
        order = _Order(task.run_id, level_ms)
        known = self._found.get(task.spec.task_id)
        if known is None or known[0] != order:
            known = (order, self._pool.submit(_find, task, level_ms))
            self._found[task.spec.task_id] = known
        return known[1].result() if known[1].done() else None

    def forget(self, task_id: str) -> None:
        """The task has ended."""
        self._found.pop(task_id, None)


def _find(task: RunningTask, level_ms: int) -> bool:
    """Whether the task can be cut. One that is to read on is told where to."""
    can_be_cut, cuts = False, _NOWHERE
    try:
        level = RunningLevel(task)
        can_be_cut = level.can_be_cut()
        if can_be_cut and level_ms:
            cuts = level.cuts(level_ms)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the task is levelled after the stop
        can_be_cut = False
        log.warning("task cannot be levelled while it runs", task=task.spec.task_id, error=str(error))
    if level_ms:
        log.info("task reads on to a watermark", task=task.spec.task_id, level_ms=level_ms, stop_at=cuts)
        task.read_to(level_ms, cuts)
    return can_be_cut
