"""Writes the dashboards from the panels below. Usage: `python deploy/grafana/build.py`.

A test compares the files with what this would write, so a panel is changed here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "dashboards"
_COLUMNS, _HEIGHT = 24, 8
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """A chart, or with `kind` `stat` one figure. `queries`: PromQL by legend. `limit`: red from there on."""

    title: str
    unit: str
    queries: dict[str, str]
    about: str
    kind: str = "timeseries"
    width: int = 8
    limit: float | None = None


class Dashboard(NamedTuple):
    """A page; `uid` is also the name of its file."""

    uid: str
    title: str
    panels: Sequence[Panel]


FLEET = Dashboard(
    "penstock-fleet",
    "Penstock: fleet",
    (
        Panel(
            "Tasks not running",
            "percentunit",
            {"tasks": "penstock:tasks_not_running:ratio"},
            "Share of the tasks that should run and do not, or are not heard. Next: penstock top",
            "stat",
            6,
            0.05,
        ),
        Panel(
            "Jobs lagging",
            "percentunit",
            {"jobs": "penstock:jobs_lagging:ratio"},
            "Share of jobs over their SLO. Next: penstock jobs list, penstock why JOB",
            "stat",
            6,
            0.1,
        ),
        Panel(
            "Jobs not healthy",
            "percentunit",
            {"jobs": "penstock:jobs_unhealthy:ratio"},
            "Share of jobs that are neither healthy, starting nor stopped. Next: penstock why JOB",
            "stat",
            6,
            0.1,
        ),
        Panel(
            "Double run",
            "s",
            {"seconds": "max(task_double_run_seconds)"},
            "Seconds in which a task ran in two places. It must be 0.",
            "stat",
            6,
            0.001,
        ),
        Panel(
            "Not running, lagging, not healthy",
            "percentunit",
            {
                "tasks not running": "penstock:tasks_not_running:ratio",
                "jobs lagging": "penstock:jobs_lagging:ratio",
                "jobs not healthy": "penstock:jobs_unhealthy:ratio",
            },
            "The three shares over time.",
            width=12,
        ),
        Panel("Tasks", "short", {"{{state}}": "penstock:fleet_tasks"}, "Tasks that should run.", width=12),
        Panel(
            "Jobs by health", "short", {"{{health}}": "penstock:fleet_jobs"}, "What each health is: README of model."
        ),
        Panel(
            "Age of changes that not all tasks run",
            "s",
            {"p{{quantile}}": "penstock:convergence_age_seconds"},
            "Over all jobs; 0 for a job that runs its newest change.",
        ),
        Panel("Jobs behind", "short", {"jobs": "max(penstock_fleet_jobs_behind)"}, "Jobs with such a change."),
        Panel(
            "Open alerts", "short", {"{{kind}}": "max by (kind) (penstock_alerts_open) > 0"}, "Without silenced ones."
        ),
        Panel(
            "Task starts, restarts and crashes",
            "ops",
            {
                "starts": "sum(rate(penstock_task_starts_total[5m]))",
                "restarts": "sum(rate(penstock_task_restarts_total[5m]))",
                "crashes": "sum(rate(penstock_task_crashes_total[5m]))",
            },
            "Of all containers, per second.",
        ),
        Panel(
            "Containers",
            "short",
            {"{{state}}": "max by (state) (penstock_containers)", "lost": "increase(penstock_fail_overs_total[1h])"},
            "Known to the leader of the Shard Manager; lost: in the last hour.",
        ),
        Panel(
            "Shards without owner or room",
            "short",
            {
                "without owner": "max(penstock_shards_without_owner)",
                "without room": "max(penstock_shards_unplaceable)",
                "moving": "sum(penstock_shard_moves_in_flight)",
            },
            "Their tasks do not run, or run on full containers.",
        ),
        Panel(
            "Least seconds left of a lease",
            "s",
            {"{{instance}}": "bottomk(5, penstock_lease_seconds_left)"},
            "At 0 a container stops its tasks.",
        ),
        Panel(
            "Event time skew",
            "s",
            {"{{task}}": "topk(5, penstock_task_event_time_skew_seconds)"},
            "Tasks whose unread rows lie furthest behind.",
        ),
    ),
)
CONTROL = Dashboard(
    "penstock-control",
    "Penstock: control plane",
    (
        Panel(
            "Processes that do not answer",
            "short",
            {"{{process}}": 'up{job="penstock"} == 0'},
            "None is shown if all do.",
        ),
        Panel("Length of rounds, p99", "s", {"{{loop}}": "penstock:loop_round_seconds:p99"}, "Also of failed rounds."),
        Panel(
            "Length of rounds, p50",
            "s",
            {"{{loop}}": "histogram_quantile(0.5, sum by (le, loop) (rate(penstock_loop_round_seconds_bucket[10m])))"},
            "Also of failed rounds.",
        ),
        Panel(
            "Rounds that failed",
            "short",
            {"{{loop}} {{error}}": "sum by (loop, error) (increase(penstock_loop_failures_total[5m])) > 0"},
            "In five minutes.",
        ),
        Panel("Leaders", "short", {"{{loop}}": "sum by (loop) (penstock_loop_leader)"}, "Each loop must have one."),
        Panel(
            "Requests that failed",
            "reqps",
            {"{{process}} {{error}}": "sum by (process, error) (rate(penstock_request_failures_total[5m]))"},
            "Answers with 5xx.",
        ),
        Panel(
            "Commits",
            "ops",
            {"{{kind}}": "sum by (kind) (rate(penstock_syncer_commits_total[5m]))"},
            "Of the State Syncer.",
        ),
        Panel(
            "Sync states", "short", {"{{state}}": "max by (state) (penstock_syncer_jobs)"}, "Jobs of the last round."
        ),
        Panel(
            "Attempts on jobs that failed",
            "short",
            {"{{kind}}": "sum by (kind) (increase(penstock_syncer_failures_total[5m]))"},
            "In five minutes.",
        ),
        Panel(
            "Decisions of the Auto Scaler",
            "short",
            {"{{action}} {{outcome}}": "sum by (action, outcome) (increase(penstock_scaler_decisions_total[1h]))"},
            "In an hour.",
        ),
        Panel(
            "Messages to webhooks",
            "short",
            {"{{target}} {{outcome}}": "sum by (target, outcome) (increase(penstock_notifications_total[1h]))"},
            "In an hour.",
        ),
        Panel(
            "Task reports",
            "ops",
            {"{{outcome}}": "sum by (outcome) (rate(penstock_task_reports_total[5m]))"},
            "Taken in.",
        ),
        Panel(
            "Age of the Task Service's snapshot",
            "s",
            {"{{instance}}": "penstock_snapshot_age_seconds"},
            "Since the store was last read.",
        ),
        Panel(
            "Placement",
            "s",
            {"p99": "histogram_quantile(0.99, sum by (le) (rate(penstock_placement_seconds_bucket[1h])))"},
            "How long placing all shards took.",
        ),
        Panel("Certificates", "d", {"{{process}} {{instance}}": "penstock_certificate_days_left"}, "Days left."),
        Panel(
            "CPU",
            "short",
            {"{{process}}": "sum by (process) (rate(process_cpu_seconds_total[5m]))"},
            "Cores of services.",
        ),
        Panel("Memory", "bytes", {"{{process}}": "sum by (process) (process_resident_memory_bytes)"}, "Of services."),
    ),
)
DASHBOARDS = (FLEET, CONTROL)


def dashboard(page: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    return {
        "uid": page.uid,
        "title": page.title,
        "tags": ["penstock"],
        "schemaVersion": 38,
        "version": 1,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": list(_panels(page.panels)),
    }


def _panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    x = y = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        place = {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}
        yield _panel(number, panel, place)
        x += panel.width


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    targets = [
        {"refId": chr(ord("A") + at), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
        for at, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {},
        "targets": targets,
    }


def written(page: Dashboard) -> str:
    """The file of a dashboard."""
    return json.dumps(dashboard(page), indent=2) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each.uid}.json").write_text(written(each))
