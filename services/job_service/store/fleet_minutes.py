"""How the fleet was, by minute: how many jobs had each health, how many tasks ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from penstock.model.job_metrics import MINUTE, minute_of
from penstock.model.states import Health
from penstock.store.json import as_jsonb
from services.job_service.series import Span
from services.job_service.store.fleet_counts import FleetCounts

TASK_METRICS = ("tasks", "tasks_running", "tasks_not_running")
HEALTH_METRICS = {health: f"jobs_{health}" for health in Health}
METRICS = (*HEALTH_METRICS.values(), *TASK_METRICS)

# All Job Services count; the first count of a minute stays.
_NOTE_TASKS = text(
    """
    INSERT INTO fleet_minutes AS known (minute, tasks, tasks_running, tasks_not_running)
    VALUES (:minute, :tasks, :tasks_running, :tasks_not_running)
    ON CONFLICT (minute) DO UPDATE SET tasks = EXCLUDED.tasks, tasks_running = EXCLUDED.tasks_running,
        tasks_not_running = EXCLUDED.tasks_not_running
    WHERE known.tasks IS NULL
    """
)
_NOTE_HEALTH = text(
    """
    INSERT INTO fleet_minutes AS known (minute, health) VALUES (:minute, :health)
    ON CONFLICT (minute) DO UPDATE SET health = EXCLUDED.health WHERE known.health IS NULL
    """
)
_TASKS = text(
    """
    SELECT date_bin(:step, minute, :since) AS begins, avg(tasks), avg(tasks_running), avg(tasks_not_running)
    FROM fleet_minutes WHERE minute >= :since AND minute < :until AND tasks IS NOT NULL GROUP BY begins
    """
)
# A health that a count does not have had no job.
_HEALTH = text(
    """
    WITH counts AS (
        SELECT date_bin(:step, minute, :since) AS begins, health FROM fleet_minutes
        WHERE minute >= :since AND minute < :until AND health IS NOT NULL
    ), sums AS (
        SELECT begins, key, sum(CAST(value AS integer)) AS jobs FROM counts, jsonb_each_text(health)
        GROUP BY begins, key
    ), known AS (SELECT begins, count(*) AS minutes FROM counts GROUP BY begins)
    SELECT begins, key, CAST(coalesce(jobs, 0) AS double precision) / minutes AS jobs
    FROM known LEFT JOIN sums USING (begins)
    """
)
_PURGE = text("DELETE FROM fleet_minutes WHERE minute < now() - :age")


def note_tasks(connection: Connection, counts: FleetCounts, at: datetime) -> None:
    """Writes down a count of tasks, unless its minute has one."""
    figures = {name: getattr(counts, name) for name in TASK_METRICS}
    connection.execute(_NOTE_TASKS, {"minute": minute_of(at), **figures})


def note_health(connection: Connection, health: Mapping[Health, int], at: datetime) -> None:
    """Writes down a whole count of jobs that began at `at`, unless its minute has one."""
    connection.execute(_NOTE_HEALTH, {"minute": minute_of(at), "health": as_jsonb(health)})


def read_minutes(connection: Connection, span: Span) -> dict[str, list[float | None]]:
    """By metric (`METRICS`) the mean of each step's known minutes; None where none is known."""
    step_time = span.step_minutes * MINUTE
    asked = {"since": span.since, "until": span.until, "step": step_time}
    found: defaultdict[datetime, dict[str, float]] = defaultdict(dict)
    for begins, *means in connection.execute(_TASKS, asked):
        found[begins] |= {name: float(mean) for name, mean in zip(TASK_METRICS, means, strict=True)}
    for begins, health, jobs in connection.execute(_HEALTH, asked):
        known = found[begins]
        if HEALTH_METRICS[Health.HEALTHY] not in known:
            known |= dict.fromkeys(HEALTH_METRICS.values(), 0.0)
        if health in HEALTH_METRICS:
            known[HEALTH_METRICS[Health(health)]] = jobs
    steps = [found.get(span.since + number * step_time, {}) for number in range(span.steps)]
    return {name: [step.get(name) for step in steps] for name in METRICS}


def purge_minutes(connection: Connection, age: timedelta) -> int:
    """Deletes minutes of that age. Returns how many there were."""
    return connection.execute(_PURGE, {"age": age}).rowcount
