"""Raises and clears the alerts about inputs, beside the rounds of jobs and under the same lease."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine, text

from penstock.control.period import Period
from penstock.model.alerts import INPUT_ALERTS
from penstock.store import leases
from penstock.store.alerts import replace_alerts
from penstock.store.engine import snapshot
from penstock.store.running import STATE_SYNCER
from services.state_syncer.inputs.decide import InputReport, alerts_of

_LOOK_SECONDS = 60.0
_REPORTED = text(
    """
    SELECT job, index, progress -> 'input_problems' AS problems FROM tasks
    WHERE state = 'running' AND progress -> 'input_problems' <> '{}'
    ORDER BY job, index
    """
)


class InputAlerts:
    """Looks at the reports of all tasks once a minute."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float]) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._period = Period(_LOOK_SECONDS)

    def round(self, leader_epoch: int) -> bool:
        """Makes what tasks report the open alerts, if it is time. Raises Fenced, Unavailable."""
        if not self._period.is_due(self._monotonic()):
            return False
        with snapshot(self._engine) as connection:
            found = [InputReport(*row) for row in connection.execute(_REPORTED)]
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            replace_alerts(connection, INPUT_ALERTS, alerts_of(found), refresh=True)
        self._period.done()
        return False
