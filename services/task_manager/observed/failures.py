"""Crashes of tasks, failed starts of hosts, and when each is tried again. Pure.

Jitter is computed from the name, so equal inputs give equal times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.model.reports import TaskState
from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.changes import Step, step_between
from services.task_manager.decide.model import Crash, ErrorKind, HostFailure, HostKey, Limits, TaskView

_JITTER = 0.25
_LARGEST_EXPONENT = 32


class Failure(NamedTuple):
    """Why a task ended by itself or did not start. `of_host`: it went with its host."""

    error: str
    kind: ErrorKind
    out_of_memory: bool = False
    of_host: bool = False


class Failures:
    """The newest crash of each task that has not been healthy since, and the failed starts of hosts in a row.

    `crashes` is by task id, `hosts` by host key.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.crashes: dict[str, Crash] = {}
        self.hosts: dict[HostKey, HostFailure] = {}

    def task_starts(self, spec: TaskSpec) -> bool:
        """A task is started. Returns whether this is a retry after a crash.

        Crashes are counted for one package and its settings: a change that needs a restart resets the count.
        """
        crash = self.crashes.get(spec.task_id)
        if crash is not None and step_between(crash.spec, spec) is Step.RESTART:
            del self.crashes[spec.task_id]
        return spec.task_id in self.crashes

    def task_failed(self, task: TaskView, failure: Failure, now: float) -> Crash:
        """Counts a crash and sets when the task is tried again."""
        before = self.crashes.get(task.task_id)
        in_a_row = 1 if before is None or self._is_healthy(task, now) else before.count + 1
        retry_at = now + retry_seconds(task.task_id, in_a_row, failure.kind, self._limits)
        crash = Crash(
            task.spec,
            task.epoch,
            in_a_row,
            failure.error,
            failure.kind,
            failure.out_of_memory,
            retry_at,
            failure.of_host,
        )
        self.crashes[task.task_id] = crash
        return crash

    def host_failed(self, key: HostKey, error: str, now: float, *, after_seconds: float) -> None:
        """A host ended before it was ready, so long after its start. The one that was killed because it was late says
        only that it was killed."""
        before = self.hosts.get(key)
        in_a_row = 1 if before is None else before.count + 1
        limits = self._limits
        delay = delay_seconds(repr(key), in_a_row, limits.crash_first_seconds, limits.crash_cap_seconds)
        is_late = after_seconds >= limits.host_start_seconds
        why = f"it was not ready in {limits.host_start_seconds:,.0f} s: is the machine too busy?" if is_late else error
        self.hosts[key] = HostFailure(in_a_row, why, now + delay)

    def forget_old_crashes(self, tasks: Mapping[str, TaskView], desired: Collection[str], now: float) -> None:
        """Forgets crashes of tasks that are healthy again, and of tasks that are neither here nor desired here."""
        for task_id in list(self.crashes):
            task = tasks.get(task_id)
            is_over = task_id not in desired if task is None else self._is_healthy(task, now)
            if is_over:
                del self.crashes[task_id]

    def _is_healthy(self, task: TaskView, now: float) -> bool:
        return task.state is TaskState.RUNNING and now - task.since >= self._limits.healthy_seconds


def error_kind(text: str | None) -> ErrorKind:
    """An error kind as a host sends it. A kind that this version does not know is retried."""
    match text:
        case "fenced" | "broken_task":
            return text
        case _:
            return "retryable"


def delay_seconds(name: str, count: int, first_seconds: float, cap_seconds: float) -> float:
    """Seconds between the `count`-th crash in a row (from 1) and the next try: 0, first, 2·first, ... up to the cap.

    A hash of the name and the count shortens each delay by up to a quarter, so that tasks which crashed together are
    not restarted together.
    """
    if count <= 1:
        return 0.0
    full = min(cap_seconds, first_seconds * 2.0 ** min(count - 2, _LARGEST_EXPONENT))
    return full * (1.0 - _JITTER * _fraction(f"{name}#{count}"))


def retry_seconds(task_id: str, count: int, kind: ErrorKind, limits: Limits) -> float:
    """`delay_seconds` for a task. A task that cannot run as configured backs off from its first failure on."""
    if kind == "broken_task":
        return delay_seconds(task_id, count + 1, limits.broken_first_seconds, limits.broken_cap_seconds)
    return delay_seconds(task_id, count, limits.crash_first_seconds, limits.crash_cap_seconds)


def _fraction(text: str) -> float:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
