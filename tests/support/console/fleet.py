"""A store with a fleet as other services would fill it: jobs of each health, containers, alerts, decisions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from penstock.store.engine import transaction
from tests.support.job_service.service import CONFIG, RunningJobService

_ROWS = (
    """
    INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state, placement)
    SELECT 'container-' || lpad(n::text, 2, '0'), 'i', 'http://c', CASE WHEN n % 2 = 0 THEN 'north' ELSE 'south' END,
        8, 32::bigint << 30, 200::bigint << 30, CASE WHEN n = 9 THEN 'lost' ELSE 'live' END,
        jsonb_build_object('at', now(), 'deviation', '{}'::jsonb,
            'load', jsonb_build_object('cpu_cores', n * 0.7, 'memory_bytes', (n * 2)::bigint << 30),
            'usable', jsonb_build_object('cpu_cores', 7.2, 'memory_bytes', 28::bigint << 30))
    FROM generate_series(0, 11) AS n
    """,
    """
    INSERT INTO reports (container, incarnation, commit_number, version, reported_at)
    SELECT name, 'i', 1, 1, now() + interval '1 hour' FROM containers
    """,
    """
    INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch, committed_at)
    SELECT name, jsonb_build_object('task_count', 4, 'desired_state',
        CASE WHEN name = 'parked-report' THEN 'stopped' ELSE 'running' END), revision, 3, 0, 1, 1, now()
    FROM jobs WHERE name <> 'brand-new'
    """,
    "INSERT INTO sync_state (job, state, revision) SELECT name, 'synced', revision FROM jobs WHERE name <> 'brand-new'",
    """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, crashes, error, progress)
    SELECT name, index, 'container-0' || index, CASE WHEN name = 'payments-enrich' AND index = 2 THEN 'crashed'
            ELSE 'running' END, revision, 3, 0, 1,
        CASE WHEN name = 'payments-enrich' AND index = 2 THEN 7 ELSE 0 END,
        CASE WHEN name = 'payments-enrich' AND index = 2
            THEN E'ValueError: invalid literal for int(): ''n/a''\n  in amount of transactions' END,
        jsonb_build_object('batch_id', 5, 'input_rows_per_second', 1200.0 + 10 * index,
            'processed_rows_per_second', 5000.0,
            'backlog_records', CASE WHEN name = 'clicks-hourly' THEN 1500000 ELSE 900 END)
    FROM jobs, generate_series(0, 3) AS index WHERE name NOT IN ('parked-report', 'brand-new')
    """,
    """
    INSERT INTO task_crashes (job, index, crashed_at, newest_at, revision, error)
    SELECT name, 2, ARRAY[now(), now(), now()], now(), revision, 'ValueError: invalid literal for int(): ''n/a'''
    FROM jobs WHERE name = 'payments-enrich'
    """,
    """
    INSERT INTO alerts (kind, subject, message, raised_at) VALUES
        ('job_lagging', 'clicks-hourly', 'task 0 is 300 s behind; its SLO is 90 s', now() - interval '12 minutes'),
        ('task_crashing', 'payments-enrich', 'task 2 crashes again and again: ValueError', now() - interval '3 hours'),
        ('container_outlier', 'container-09', 'its tasks fail far more than elsewhere', now() - interval '40 minutes')
    """,
    """
    INSERT INTO decisions (job, at, symptom, action, inputs, change, outcome, leader_epoch) VALUES
        ('clicks-hourly', now() - interval '44 minutes', 'none', 'horizontal', '{"config": {"task_count": 6},
            "state": {"rate": {"rows_per_second": 1250, "busy_minutes": 20}}}', '{"task_count": 4}', 'written', 1),
        ('clicks-hourly', now() - interval '12 minutes', 'lag', 'horizontal', '{"lag_seconds": 300,
            "config": {"task_count": 4}, "state": {"rate": {"rows_per_second": 1210, "busy_minutes": 20}},
            "input_rows_per_second": 4860}', '{"task_count": 6}', 'written', 1)
    """,
    """
    INSERT INTO savepoints (job, name, state, generation, revision, config, tasks, bytes, author, reason)
    SELECT name, 'before-release', 'ready', 3, revision, '{"task_count": 4}',
        '[{"index": 0, "batch": 1, "taken_from": null, "why": null}]', 734003200, 'ann', 'before 2.4'
    FROM jobs WHERE name = 'clicks-hourly'
    """,
    """
    INSERT INTO savepoints (job, name, state, detail, container, attempts, author, reason)
    VALUES ('clicks-hourly', 'nightly', 'asked', 'no space left on device', 'container-01', 2, 'ann', 'every night')
    """,
    """
    INSERT INTO generations (job, generation, unused_since) VALUES
        ('clicks-hourly', 2, now() - interval '50 minutes'), ('clicks-hourly', 3, NULL)
    """,
    """
    INSERT INTO fleet_minutes (minute, health, tasks, tasks_running, tasks_not_running)
    SELECT date_trunc('minute', now()) - make_interval(mins => ago),
        jsonb_build_object('healthy', 90 - ago / 4, 'lagging', ago / 4, 'crashing', ago % 3, 'stopped', 10),
        400, 400 - ago, ago / 2
    FROM generate_series(1, 50) AS ago
    """,
    """
    INSERT INTO task_metrics (job, index, minute, input_rows_per_second, processed_rows_per_second, backlog_records,
        lag_seconds, batch_seconds, cpu_cores, memory_bytes, state_rows, state_memory_bytes, running)
    SELECT 'clicks-hourly', index, date_trunc('minute', now()) - make_interval(mins => ago),
        1200 + 250 * sin(ago / 6.0), 1300, GREATEST(0, 30 - ago) * 50000, GREATEST(0, 30 - ago) * 10.0,
        2.0 + sin(ago / 3.0), 0.7 + 0.1 * sin(ago / 4.0), (600 + ago)::bigint << 20, 80000 - 100 * ago,
        (200 - ago)::bigint << 20, true
    FROM generate_series(0, 3) AS index, generate_series(1, 58) AS ago WHERE ago NOT BETWEEN 40 AND 43
    """,
)
NAMES = (
    "brand-new",
    "clicks-hourly",
    "clicks-sessions",
    "fraud-scores",
    "inventory-sync",
    "orders-clean",
    "orders-joined",
    "parked-report",
    "payments-enrich",
    "search-index",
)
# What jobs read, and where they write.
_FLOWS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "clicks-sessions": (("clicks",), {"type": "kafka", "topic": "sessions"}),
    "clicks-hourly": (("sessions",), {"type": "kafka", "topic": "clicks-per-hour"}),
    "parked-report": (
        ("clicks-per-hour", "orders"),
        {"type": "files", "path": "file:/reports/parked", "format": "csv"},
    ),
    "orders-clean": (("orders-raw",), {"type": "kafka", "topic": "orders"}),
    "payments-enrich": (("payments-raw",), {"type": "kafka", "topic": "payments"}),
    "orders-joined": (("orders", "payments"), {"type": "kafka", "topic": "orders-joined"}),
    "fraud-scores": (("orders-joined",), {"type": "kafka", "topic": "fraud-scores"}),
    "inventory-sync": (("orders-joined", "orders"), {"type": "postgres", "table": "inventory"}),
    "search-index": (("fraud-scores",), {"type": "files", "path": "file:/search/index/of/all/orders/by/day"}),
}


def _config(name: str) -> dict[str, Any]:
    config = {**CONFIG, "owner": name.partition("-")[0], "task_count": 4}
    if name not in _FLOWS:
        return config
    topics, output = _FLOWS[name]
    [(first, source)] = CONFIG["inputs"].items()
    names = [first, *(f"more_{number}" for number in range(1, len(topics)))]
    inputs = {each: {**source, "topic": topic} for each, topic in zip(names, topics, strict=True)}
    return {**config, "inputs": inputs, "output": output}


def fill(service: RunningJobService, further: int = 0) -> None:
    """Writes the fleet; `further` more jobs, all alike."""
    with service.client() as client:
        for name in NAMES:
            client.put_job(name, _config(name), verify=False)
        client.put_layer("clicks-hourly", "provisioner", {"slo": {"max_lag_seconds": 120}}, if_match=0, verify=False)
        client.put_layer(
            "clicks-hourly",
            "oncall",
            {"slo": {"max_lag_seconds": 90}, "priority": 5},
            if_match=0,
            reason="the dashboard of the morning meeting needs it",
            expires_in_seconds=7200,
            verify=False,
        )
    with transaction(service.engine) as connection:
        if further:
            connection.execute(
                text(
                    "INSERT INTO jobs (name, owner, revision) SELECT 'team-' || lpad(n::text, 6, '0'), 'team', n"
                    " FROM generate_series(1, :further) AS n"
                ),
                {"further": further},
            )
        for statement in _ROWS:
            connection.execute(text(statement))
