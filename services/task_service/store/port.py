"""The port of the template cache to the job store."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Engine

from penstock.store.alerts import clear_alerts, raise_alert
from penstock.store.engine import transaction
from services.task_service.store.changes import read_changes
from services.task_service.store.reports import purge_samples
from services.task_service.store.rows import Changes

BROKEN_ALERT = "broken_running_row"


class TemplateStore:
    """The job store for the template cache. Every call raises Unavailable."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, after: int = -1) -> Changes:
        """Everything that was committed above `after`, read at one moment; by default all."""
        with transaction(self._engine) as connection:
            return read_changes(connection, after=after)

    def alert(self, broken: Mapping[str, str], mended: Collection[str]) -> None:
        """Raises an alert for each broken running row (job to reason), and clears the alerts of mended jobs."""
        with transaction(self._engine) as connection:
            for job, reason in broken.items():
                message = f"the running configuration of {job} does not validate: its tasks stay as they are"
                raise_alert(connection, BROKEN_ALERT, job, message, {"reason": reason})
            clear_alerts(connection, BROKEN_ALERT, mended)

    def purge_samples(self, keep_days: int) -> int:
        """Deletes samples and loads older than `keep_days`. Returns the number of samples."""
        with transaction(self._engine) as connection:
            return purge_samples(connection, keep_days=keep_days)
