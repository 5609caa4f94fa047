"""What the State Syncer exports to Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_ROUND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1, 2, 4, 8, 16, 30)

ROUND_SECONDS = Histogram("penstock_syncer_round_seconds", "length of a round", buckets=_ROUND_BUCKETS)
ROUND_JOBS = Gauge("penstock_syncer_round_jobs", "jobs that the last round looked at")
COMMITS = Counter("penstock_syncer_commits", "running configurations committed", ["kind"])
FAILURES = Counter("penstock_syncer_failures", "attempts on a job that failed", ["kind"])
FORGOTTEN = Counter("penstock_syncer_forgotten", "deleted jobs whose tasks were gone")
JOBS = Gauge("penstock_syncer_jobs", "jobs by sync state", ["state"])
COLLECTED = Counter("penstock_generations_collected", "old generations whose files were deleted")
