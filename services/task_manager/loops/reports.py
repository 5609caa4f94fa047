"""The loop that reports to the Task Service. Each report has the whole present state, so none is kept for later."""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.errors import RetryableError
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.container import Container
from services.task_manager.loops.outage import Outage
from services.task_manager.settings import TaskManagerSettings


class ReportLoop:
    """One step is one report."""

    def __init__(
        self, container: Container, sink: TaskServiceClient, clock: Clock, settings: TaskManagerSettings
    ) -> None:
        self._container = container
        self._sink = sink
        self._settings = settings
        self._outage = Outage("task service, for reports", clock)

    def step(self) -> float:
        """Sends a report. Returns the seconds until the next one."""
        batch = self._container.report()
        try:
            self._sink.report(batch)
        except RetryableError as error:
            self._outage.failed(error)
        else:
            self._outage.ended()
            self._container.reported(batch)
        return self._settings.report_seconds
