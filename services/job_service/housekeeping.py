"""Lets rows go by age that nothing else deletes, in the rounds of the expiry loop: a page a round, an hour between two
passes. Each round also notes flows that are not stored whole. Samples, loads and crashes are the Task Service's
(`services.task_service.sampler`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.control.period import Period
from penstock.store import leases
from penstock.store.engine import transaction
from services.job_service.store import flows
from services.job_service.store.housekeeping import (
    Page,
    archive_history,
    purge_alerts,
    purge_decisions,
    purge_fleet_minutes,
    purge_left_outputs,
)

log = logger(__name__)
PASS_SECONDS = 3600.0
MOST_ROWS = 1_000
_MOST_FLOWS = 10_000
_PAGES: Mapping[str, Callable[..., Page]] = {
    "alerts": purge_alerts,
    "decisions": purge_decisions,
    "fleet_minutes": purge_fleet_minutes,
    "history": archive_history,
    "left_outputs": purge_left_outputs,
}


class Housekeeping:
    """`ages`: by table, the age at which its rows go; a table that is missing keeps them for ever."""

    def __init__(
        self, engine: Engine, clock: Clock, loop: str, ages: Mapping[str, timedelta], most_rows: int = MOST_ROWS
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._loop = loop
        self._ages = ages
        self._most_rows = most_rows
        self._passes = Period(PASS_SECONDS)
        self._after: dict[str, int] = {}

    def round(self, leader_epoch: int) -> None:
        """The next page of each table that is not through, and of flows. Raises Fenced, Unavailable."""
        is_due = not self._after and self._passes.is_due(self._clock.monotonic())
        self._note_flows(anew=is_due)
        if is_due:
            self._after = dict.fromkeys(self._ages, 0)
            self._passes.done()
        for table, after in list(self._after.items()):
            with transaction(self._engine) as connection:
                leases.check_epoch(connection, self._loop, leader_epoch)
                page = _PAGES[table](connection, age=self._ages[table], after=after, most=self._most_rows)
            if page.gone:
                log.info("old rows gone", table=table, rows=page.gone)
            if page.last is None:
                del self._after[table]
            else:
                self._after[table] = page.last

    def _note_flows(self, *, anew: bool) -> None:
        """Any process may do this. `anew`: also what a process of an earlier release may have noted since."""
        with transaction(self._engine) as connection:
            if anew:
                flows.unnote_tables(connection)
            noted = flows.note(connection, _MOST_FLOWS)
        if noted:
            log.info("flows noted", jobs=noted)
