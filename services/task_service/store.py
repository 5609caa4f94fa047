"""What the template cache needs of the job store, and its Postgres form."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from sqlalchemy import Engine

from penstock.store.alerts import clear_alert, raise_alert
from penstock.store.engine import transaction
from penstock.store.reports import purge_samples
from penstock.store.snapshot import read_changes
from penstock.tasks.stored import Changes

BROKEN_ALERT = "broken_running_row"


class TemplateStore(Protocol):
    """Every call raises Unavailable."""

    def read(self, after: int = -1) -> Changes:
        """What was committed above `after`, as of one moment; everything by default."""
        ...

    def alert(self, broken: Mapping[str, str], mended: Collection[str]) -> None:
        """Opens an alert for each broken running row (job to reason), and closes those of rows that were put right."""
        ...

    def purge_samples(self, keep_days: int) -> int:
        """Deletes older samples; how many."""
        ...


class PostgresTemplateStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, after: int = -1) -> Changes:
        """See the port."""
        with transaction(self._engine) as connection:
            return read_changes(connection, after=after)

    def alert(self, broken: Mapping[str, str], mended: Collection[str]) -> None:
        """See the port."""
        with transaction(self._engine) as connection:
            for job, reason in broken.items():
                message = f"the running configuration of {job} does not validate: its tasks are left as they are"
                raise_alert(connection, BROKEN_ALERT, job, message, {"reason": reason})
            for job in mended:
                clear_alert(connection, BROKEN_ALERT, job)

    def purge_samples(self, keep_days: int) -> int:
        """See the port."""
        with transaction(self._engine) as connection:
            return purge_samples(connection, keep_days=keep_days)
