"""What the Auto Scaler exports to Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ROUND_SECONDS = Histogram("penstock_scaler_round_seconds", "length of a round")
DECISIONS = Counter("penstock_scaler_decisions", "decisions recorded", ["action", "outcome"])
JOBS = Gauge("penstock_scaler_jobs", "jobs by symptom in the last round", ["symptom"])
