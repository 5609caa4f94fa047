"""Raises and clears the alerts about the health of jobs, beside the rounds of jobs and under the same lease."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, text

from penstock.config.model import Slo
from penstock.control.period import Period
from penstock.model.alerts import AlertKind
from penstock.model.health import AGAIN, Verdict
from penstock.store import leases
from penstock.store.alerts import open_subjects, replace_alerts
from penstock.store.engine import snapshot
from penstock.store.health import read_named
from penstock.store.running import STATE_SYNCER
from services.state_syncer.health.decide import Alerts, crash_alerts, lag_alerts

_LOOK_SECONDS = 15.0
LAGGED_MINUTES = 3
"""A job is reported as lagging after so many whole minutes over its SLO."""
_READ_AT_ONCE = 1_000
MOST_RAISED = 1_000
"""New alerts of a kind in one look. When more jobs fail at once, the next looks raise the others."""
Alerted = dict[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]]
_CRASHED = text(
    "SELECT DISTINCT job FROM task_crashes"
    " WHERE newest_at > now() - interval '1 hour' AND cardinality(crashed_at) >= :again"
)
# In each of the last whole minutes the task that was furthest behind was over the job's SLO. A minute without a known
# lag is none. The newest minute comes first: most jobs are not behind in it, and nothing more is read of them.
_LAGGED = text(
    """
    WITH behind AS (
        SELECT job, max(lag_seconds) AS lag FROM task_metrics
        WHERE minute = date_trunc('minute', now()) - interval '1 minute' AND lag_seconds > 0 GROUP BY job
    ), limits AS (
        SELECT job, lag, coalesce((running.config->'slo'->>'max_lag_seconds')::float, :max_lag_seconds) AS slo
        FROM behind JOIN running USING (job)
    )
    SELECT job FROM limits, LATERAL (
        SELECT count(DISTINCT minute) AS minutes FROM task_metrics
        WHERE task_metrics.job = limits.job AND lag_seconds > slo
            AND minute >= date_trunc('minute', now()) - make_interval(mins => :minutes)
            AND minute < date_trunc('minute', now())
    ) AS over WHERE lag > slo AND minutes = :minutes
    """
)


class HealthAlerts:
    """Judges the jobs whose tasks crashed lately or lagged, and those with an open alert."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float]) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._period = Period(_LOOK_SECONDS)

    def round(self, leader_epoch: int) -> bool:
        """Raises and clears alerts, if it is time. Raises Fenced, Unavailable."""
        if not self._period.is_due(self._monotonic()):
            return False
        with snapshot(self._engine) as connection:
            crashed = set(connection.execute(_CRASHED, {"again": AGAIN}).scalars())
            lagged = set(connection.execute(_LAGGED, _lag_values()).scalars())
            known = {kind: open_subjects(connection, kind) for kind in (AlertKind.TASK_CRASHING, AlertKind.JOB_LAGGING)}
            verdicts = _read(connection, sorted(crashed.union(lagged, *known.values())))
        found = {AlertKind.TASK_CRASHING: crash_alerts(verdicts), AlertKind.JOB_LAGGING: lag_alerts(verdicts, lagged)}
        with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
            for kind, alerts in found.items():
                messages: Alerted = {(kind, job): (text, {}) for job, text in some(alerts, known[kind]).items()}
                replace_alerts(connection, [kind], messages, keep=alerts.kept, refresh=kind == AlertKind.TASK_CRASHING)
        self._period.done()
        return False


def some(alerts: Alerts, known: Collection[str]) -> Mapping[str, str]:
    """The alerts that are open already, and at most `MOST_RAISED` others."""
    new = islice((job for job in alerts.raised if job not in known), MOST_RAISED)
    return {job: alerts.raised[job] for job in [*(job for job in alerts.raised if job in known), *new]}


def _lag_values() -> dict[str, float]:
    return {"minutes": LAGGED_MINUTES, "max_lag_seconds": Slo().max_lag_seconds}


def _read(connection: Connection, jobs: Sequence[str]) -> dict[str, Verdict]:
    starts = range(0, len(jobs), _READ_AT_ONCE)
    parts = (read_named(connection, jobs[start : start + _READ_AT_ONCE]) for start in starts)
    return {job.facts.job: job.verdict for part in parts for job in part}
