"""The four loops of a Task Manager and the threads that run them.

A step reads what it needs, acts, and returns how long to pause; it keeps nothing but what it last fetched or logged.
An event only ends the pause. No step waits for another loop, so none can delay the lease.
"""

from __future__ import annotations

from penstock.control.logs import logger
from services.task_manager.container import Container
from services.task_manager.loops.heartbeats import HeartbeatLoop
from services.task_manager.loops.reports import ReportLoop
from services.task_manager.loops.specs import SpecLoop
from services.task_manager.loops.worker import Worker
from services.task_manager.settings import TaskManagerSettings

log = logger(__name__)


class TaskManager:
    """Starts and stops the loops together."""

    def __init__(
        self,
        container: Container,
        heartbeats: HeartbeatLoop,
        specs: SpecLoop,
        reports: ReportLoop,
        settings: TaskManagerSettings,
    ) -> None:
        self.container = container
        self._specs = specs
        self._reports = reports
        self._tick_seconds = settings.reconcile_seconds
        self._workers = (
            Worker("reconcile", self._tick, due=container.wake),
            Worker("heartbeats", heartbeats.step, due=container.heartbeat_due, gap_seconds=settings.report_gap_seconds),
            Worker("specs", specs.step),
            Worker("reports", reports.step, due=container.report_due, gap_seconds=settings.report_gap_seconds),
        )

    def start(self) -> None:
        """Loads the stored specs and starts the loops. Warm hosts start with the first tick."""
        self._specs.load()
        for worker in self._workers:
            worker.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stops every task, kills what still runs after the timeout, reports it, and ends every thread."""
        self.container.begin_shutdown()
        if not self.container.await_idle(timeout_seconds):
            log.warning("tasks did not stop in time and are killed")
        reconcile, *others = self._workers
        reconcile.stop()
        self.container.kill_hosts()
        self.container.tick()
        for worker in others:
            worker.stop(timeout_seconds=0.5)
        self._reports.step()

    def _tick(self) -> float:
        self.container.tick()
        return self._tick_seconds
