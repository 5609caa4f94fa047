"""Raises and clears the alerts about the health of jobs, beside the rounds of jobs and under the same lease.

The cost of a look is bounded also when every job of the cell crashes: at most `MOST_JUDGED` jobs are read and judged,
and the next look goes on after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, text

from penstock.config.model import Slo
from penstock.control.period import Period
from penstock.model.alert_rules import limit_of
from penstock.model.alerts import AlertKind
from penstock.model.health import AGAIN, Verdict
from penstock.store import leases
from penstock.store.alerts import replace_alerts
from penstock.store.engine import snapshot
from penstock.store.health import read_named
from penstock.store.running import STATE_SYNCER
from services.state_syncer.health.decide import crash_alerts, lag_alerts

_LOOK_SECONDS = 15.0
LAGGED_MINUTES = int(limit_of(AlertKind.JOB_LAGGING))
"""A job is reported as lagging after so many whole minutes over its SLO."""
MOST_JUDGED = 1_000
"""Jobs in one look, by name. When more crash or lag, or have an open alert, the next looks judge the others."""
Alerted = dict[tuple[AlertKind, str], tuple[str, Mapping[str, Any]]]
# The first jobs by name, after `:after`, of which a task crashed so often lately that it may crash again and again, or
# of which some task was over the SLO in the last whole minute, or that have an open alert. Each part ends when it has
# found enough. Most tasks are within the smallest SLO: of their jobs nothing is read. An unknown lag is none.
_TO_JUDGE = text(
    """
    (SELECT DISTINCT job FROM task_crashes
        WHERE job > :after AND newest_at > now() - interval '1 hour' AND cardinality(crashed_at) >= :again
        ORDER BY job LIMIT :most)
    UNION
    (SELECT DISTINCT job FROM task_metrics JOIN running USING (job)
        WHERE job > :after AND minute = date_trunc('minute', now()) - interval '1 minute'
            AND lag_seconds > least(:max_lag_seconds, (SELECT min(max_lag_seconds) FROM running))
            AND lag_seconds > coalesce(running.max_lag_seconds, :max_lag_seconds)
        ORDER BY job LIMIT :most)
    UNION
    (SELECT subject FROM alerts WHERE kind = :crashing AND cleared_at IS NULL AND subject > :after
        ORDER BY subject LIMIT :most)
    UNION
    (SELECT subject FROM alerts WHERE kind = :lagging AND cleared_at IS NULL AND subject > :after
        ORDER BY subject LIMIT :most)
    ORDER BY job LIMIT :most
    """
)
# Those of these jobs of which it was so in each of the last whole minutes.
_LAGGED = text(
    """
    SELECT job FROM task_metrics JOIN running USING (job)
    WHERE job = ANY(:jobs) AND lag_seconds > coalesce(running.max_lag_seconds, :max_lag_seconds)
        AND minute >= date_trunc('minute', now()) - make_interval(mins => :minutes)
        AND minute < date_trunc('minute', now())
    GROUP BY job HAVING count(DISTINCT minute) = :minutes
    """
)


class HealthAlerts:
    """Judges the jobs whose tasks crashed lately or lagged, and those with an open alert."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float], most_judged: int = MOST_JUDGED) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._period = Period(_LOOK_SECONDS)
        self._most_judged = most_judged
        self._last = ""

    def round(self, leader_epoch: int) -> bool:
        """Raises and clears alerts, if it is time. Raises Fenced, Unavailable.

        A look that fails is over. The next one is at the usual time and goes on after it: no job holds up the others.
        """
        if not self._period.is_due(self._monotonic()):
            return False
        self._period.done()
        with snapshot(self._engine) as connection:
            found = _to_judge(connection, self._last, self._most_judged + 1)
            jobs = found[: self._most_judged]
            self._last = jobs[-1] if len(found) > len(jobs) else ""
            lagged = _lagged(connection, jobs)
            verdicts = _read(connection, jobs)
        alerts_of = {
            AlertKind.TASK_CRASHING: crash_alerts(verdicts),
            AlertKind.JOB_LAGGING: lag_alerts(verdicts, lagged),
        }
        if jobs:
            with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
                for kind, alerts in alerts_of.items():
                    messages: Alerted = {(kind, job): (text, {}) for job, text in alerts.raised.items()}
                    refresh = kind == AlertKind.TASK_CRASHING
                    replace_alerts(connection, [kind], messages, keep=alerts.kept, refresh=refresh, only=jobs)
        return False


def _to_judge(connection: Connection, after: str, most: int) -> list[str]:
    values = {
        "again": AGAIN,
        "max_lag_seconds": Slo().max_lag_seconds,
        "crashing": AlertKind.TASK_CRASHING.value,
        "lagging": AlertKind.JOB_LAGGING.value,
    }
    return list(connection.execute(_TO_JUDGE, values | {"after": after, "most": most}).scalars())


def _lagged(connection: Connection, jobs: Sequence[str]) -> set[str]:
    values = {"jobs": list(jobs), "minutes": LAGGED_MINUTES, "max_lag_seconds": Slo().max_lag_seconds}
    return set(connection.execute(_LAGGED, values).scalars())


def _read(connection: Connection, jobs: Sequence[str]) -> dict[str, Verdict]:
    return {job.facts.job: job.verdict for job in read_named(connection, jobs)}
