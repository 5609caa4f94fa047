"""Prometheus metrics of the Task Service."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

templates = Gauge("penstock_templates", "Job templates served.")
broken_templates = Gauge("penstock_templates_broken", "Running rows that do not validate.")
commit_number = Gauge("penstock_snapshot_commit_number", "Newest commit of the running table that is served.")
snapshot_age_seconds = Gauge("penstock_snapshot_age_seconds", "Seconds since the store was last read.")
waiting = Gauge("penstock_delta_requests_waiting", "Requests for a delta that wait for a commit.")
reports = Counter("penstock_task_reports", "Task reports by outcome.", ["outcome"])
