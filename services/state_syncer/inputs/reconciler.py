"""Raises and clears the alerts about inputs, beside the rounds of jobs and under the same lease.

The cost of a look is bounded also when every task of the cell has a problem: at most `MOST_JOBS` jobs are read, and the
next look goes on after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, text

from penstock.control.period import Period
from penstock.model.alert_rules import MALFORMED_WINDOW_SECONDS
from penstock.model.alerts import INPUT_ALERTS, UNREADABLE_INPUT, AlertKind
from penstock.model.health import AGAIN
from penstock.store import leases
from penstock.store.alerts import raised_within, replace_alerts
from penstock.store.engine import snapshot
from penstock.store.running import STATE_SYNCER
from services.state_syncer.inputs.decide import Alerts, Idle, InputReports, OpenAlert, alerts_of

_LOOK_SECONDS = 60.0
MOST_JOBS = 1_000
"""Jobs in one look, by name. When more have a problem or an open alert, the next looks read the others."""
_MOST_TASKS = 100
_KINDS = [kind.value for kind in INPUT_ALERTS]
# The first jobs by name, after `:after`, of which a task has a problem, or did not start lately for one, or which have
# an open alert. Each part ends when it has found enough.
TO_LOOK_AT = text(
    """
    (SELECT DISTINCT job FROM tasks WHERE has_input_problems AND job > :after ORDER BY job LIMIT :most)
    UNION
    (SELECT DISTINCT job FROM task_crashes
        WHERE newest_at > now() - interval '10 minutes' AND error ~ :unreadable AND job > :after
        ORDER BY job LIMIT :most)
    UNION
    (SELECT DISTINCT subject FROM alerts WHERE kind = ANY(:kinds) AND cleared_at IS NULL AND subject > :after
        ORDER BY subject LIMIT :most)
    ORDER BY job LIMIT :most
    """
)
# One refused start says little: a broker that just started may have ended the task, and not know its topics yet.
# After a fail-over two containers may report a task: it counts once, by the newer assignment.
_REPORTED = text(
    """
    WITH told AS (
        SELECT DISTINCT ON (job, kind, index) job, kind, index, reason FROM (
            SELECT job, kind, index, reason, epoch, reported_at
            FROM tasks CROSS JOIN LATERAL jsonb_each_text(progress -> 'input_problems') AS problem(kind, reason)
            WHERE has_input_problems AND job = ANY(:jobs)
            UNION ALL
            SELECT job, :kind, index, split_part(error, chr(10), 1), epoch, reported_at FROM tasks
            WHERE state <> 'running' AND crashes >= :again AND error ~ :unreadable AND job = ANY(:jobs)
        ) AS problems
        ORDER BY job, kind, index, epoch DESC, reported_at DESC
    )
    SELECT job, kind, count(*), (array_agg(index ORDER BY index))[ : CAST(:tasks AS integer)],
        (array_agg(reason ORDER BY index))[1]
    FROM told GROUP BY job, kind
    """
)
_TOLD = text(
    """
    SELECT subject AS job, message, ARRAY(SELECT jsonb_array_elements_text(details -> 'tasks')::integer) AS tasks
    FROM alerts WHERE kind = :kind AND cleared_at IS NULL AND subject = ANY(:jobs) ORDER BY subject
    """
)
_IDLE = text(
    """
    SELECT job, index, crashes, names_topic FROM (
        SELECT DISTINCT ON (job, index) job, index, state, crashes, coalesce(error ~ :unreadable, false) AS names_topic
        FROM tasks WHERE job = ANY(:jobs) ORDER BY job, index, epoch DESC, reported_at DESC
    ) AS newest WHERE state <> 'running'
    """
)


class InputAlerts:
    """Looks once a minute at the jobs whose tasks report problems, and at those with an open alert."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float], most_jobs: int = MOST_JOBS) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._period = Period(_LOOK_SECONDS)
        self._most_jobs = most_jobs
        self._last = ""

    def round(self, leader_epoch: int) -> bool:
        """Makes what tasks report the open alerts, if it is time. Raises Fenced, Unavailable.

        After an error the next look comes a minute later, with the next jobs; the failed ones wait for the next pass.
        """
        if not self._period.is_due(self._monotonic()):
            return False
        self._period.done()
        with snapshot(self._engine) as connection:
            found = _to_look_at(connection, self._last, self._most_jobs + 1)
            jobs = found[: self._most_jobs]
            self._last = jobs[-1] if len(found) > len(jobs) else ""
            found_now = alerts_of(_reported(connection, jobs), *_told_and_idle(connection, jobs))
        if jobs:
            with leases.fenced(self._engine, STATE_SYNCER, leader_epoch) as connection:
                _replace(connection, found_now, jobs)
        return False


def _replace(connection: Connection, found: Alerts, jobs: Sequence[str]) -> None:
    for kind in INPUT_ALERTS:
        of_kind = {key: alert for key, alert in found.items() if key[0] is kind}
        keep = _undecided(connection, kind)
        replace_alerts(connection, [kind], of_kind, refresh=True, only=jobs, keep=keep)


def _undecided(connection: Connection, kind: AlertKind) -> set[str]:
    """The jobs of which no report shows that the alert is over. A task that was started again does not report the
    malformed records and late rows of before: their alerts have their time."""
    if kind in (AlertKind.MALFORMED_RECORDS, AlertKind.LATE_ROWS):
        return raised_within(connection, kind, MALFORMED_WINDOW_SECONDS)
    return set()


def _told_and_idle(connection: Connection, jobs: Sequence[str]) -> tuple[list[OpenAlert], list[Idle]]:
    """The open alerts about topics, and the tasks of their jobs that do not run."""
    asked = {"jobs": list(jobs), "kind": AlertKind.INPUT_UNREADABLE.value}
    told = [OpenAlert(*row) for row in connection.execute(_TOLD, asked)]
    asked = {"jobs": [each.job for each in told], "unreadable": UNREADABLE_INPUT}
    return told, [Idle(*row) for row in connection.execute(_IDLE, asked)] if told else []


def _to_look_at(connection: Connection, after: str, most: int) -> list[str]:
    asked = {"kinds": _KINDS, "after": after, "most": most, "unreadable": UNREADABLE_INPUT}
    return list(connection.execute(TO_LOOK_AT, asked).scalars())


def _reported(connection: Connection, jobs: Sequence[str]) -> list[InputReports]:
    asked = {"jobs": list(jobs), "tasks": _MOST_TASKS, "unreadable": UNREADABLE_INPUT, "again": AGAIN}
    rows = connection.execute(_REPORTED, asked | {"kind": AlertKind.INPUT_UNREADABLE.value})
    return [InputReports(*row) for row in rows]
