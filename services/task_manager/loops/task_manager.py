"""The four loops of a Task Manager and the threads that run them.

A step reads what it needs, acts, and returns how long to pause; it keeps nothing but what it last fetched or logged.
An event only ends the pause. No step waits for another loop, so none can delay the lease.
"""

from __future__ import annotations

from functools import partial
from random import Random

from penstock.control.clock import Clock
from penstock.control.errors import RetryableError
from penstock.control.logs import logger
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.container import Container
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.worker import Worker
from services.task_manager.report_log import Outgoing, ReportLog
from services.task_manager.settings import TaskManagerSettings

log = logger(__name__)


class TaskManager:
    """Starts and stops the loops together."""

    def __init__(
        self,
        container: Container,
        heartbeats: HeartbeatLoop,
        specs: SpecLoop,
        tasks: TaskServiceClient,
        clock: Clock,
        settings: TaskManagerSettings,
        random: Random,
    ) -> None:
        self.container = container
        self._specs = specs
        self._tasks = tasks
        self._clock = clock
        self._settings = settings
        self._reported = ReportLog(
            quiet_seconds=settings.report_quiet_seconds,
            figures_seconds=settings.report_figures_seconds,
            full_seconds=settings.full_report_seconds,
            random=random,
        )
        worker = partial(Worker, clock=clock, retry_seconds=settings.retry_pause_seconds)
        gap_seconds = settings.report_gap_seconds
        self._reconcile = worker("reconcile", self._tick, due=container.wake)
        self._heartbeats = worker("heartbeats", heartbeats.step, due=container.heartbeat_due, gap_seconds=gap_seconds)
        self._fetches = worker("specs", specs.step)
        self._reports = worker("reports", self.report, due=container.report_due, gap_seconds=gap_seconds)

    def start(self) -> None:
        """Loads the stored specs and starts the loops. Warm hosts start with the first tick."""
        self._specs.load()
        for worker in (self._reconcile, self._heartbeats, self._fetches, self._reports):
            worker.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stops every task, kills what still runs after the timeout, reports it, and ends every thread."""
        self.container.begin_shutdown()
        if not self.container.await_idle(timeout_seconds):
            log.warning("tasks did not stop in time and are killed")
        self._reconcile.stop()
        self.container.kill_hosts()
        self.container.tick()
        for worker in (self._heartbeats, self._fetches, self._reports):
            worker.stop(timeout_seconds=0.5)
        self._reports.step()

    def report(self) -> float:
        """Tells the Task Service what changed, or everything. Each report is of the present, so none is kept for
        later."""
        report = self._reported.next(self.container.report(), self._clock.monotonic())
        if report is None:
            return self._settings.report_seconds
        try:
            is_stored, takes_changes = self._send(report)
        except RetryableError:
            self._reported.failed()
            raise
        if not is_stored:
            self._reported.refused()
            return 0.0
        self._reported.stored(report, self._clock.monotonic(), takes_changes=takes_changes)
        self.container.reported(report.batch)
        return self._settings.report_seconds

    def _send(self, report: Outgoing) -> tuple[bool, bool]:
        """Whether the report is stored, and whether changes to it may follow. Raises Unavailable."""
        if report.changes is None:
            return True, self._tasks.report(report.batch, report.number)
        return self._tasks.report_changes(report.changes), True

    def _tick(self) -> float:
        self.container.tick()
        return self._settings.reconcile_seconds
