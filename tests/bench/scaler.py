"""Decisions of the Auto Scaler, without store and Job Service: `python -m tests.bench.scaler [--jobs 100000]`.

Rows of all jobs as the store gives them (a configuration, layers, two samples of tasks) are in memory, as in a round.
Of ten jobs eight are healthy, one lags and one is not measured. A decision is all that a round does for a job but the
reading and the writing: the configuration is validated, symptoms are found, the state is put together, and it is
decided. `peak_rss_mb` is that of the process.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson

from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import DecisionInputs
from services.auto_scaler.decide.model import Symptom
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import TaskSample, detect
from services.auto_scaler.evidence import ScaledJob, scaler_state
from tests.bench.report import finish, say
from tests.support.store.jobs import make_config

NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONTAINER_MEMORY_BYTES = 16 * 2**30
TASKS = 2
_KIB_PER_MB = 1e6 / 1024

Row = tuple[ScaledJob, tuple[TaskSample, ...]]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    finish(measure(parser.parse_args().jobs))


def measure(jobs: int) -> dict[str, float]:
    """Decides about so many jobs once."""
    rows, policy = list(_rows(jobs)), Policy()
    began = time.perf_counter()
    symptoms = Counter(decide(row, policy) for row in rows)
    seconds = time.perf_counter() - began
    say(", ".join(f"{symptom.value}: {count}" for symptom, count in symptoms.items()))
    return {
        "jobs": jobs,
        "lagging": symptoms[Symptom.LAG],
        "decisions_per_s": jobs / seconds,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MB,
    }


def decide(row: Row, policy: Policy) -> Symptom:
    """The symptom that the decision answers."""
    job, samples = row
    config = JobConfig.model_validate(job.config)
    symptoms = detect(samples, config.task_count)
    state = scaler_state(job, CONTAINER_MEMORY_BYTES)
    return DecisionInputs(symptoms=symptoms, config=config, state=state, policy=policy, now=NOW).decide().symptom


def _rows(jobs: int) -> Iterator[Row]:
    config = orjson.dumps(make_config(task_count=TASKS))
    for number in range(jobs):
        job = ScaledJob(
            job=f"job-{number}",
            created_at=NOW - timedelta(days=30),
            config=orjson.loads(config),
            committed_at=NOW - timedelta(hours=1),
            converged=True,
            layer_version=0,
            below=({"task_count": 1},),
            above=(),
            last=None,
            acted_at=None,
        )
        yield job, tuple(_samples(number % 10))


def _samples(place: int) -> Iterator[TaskSample]:
    """Nine of ten are measured; of these one has a backlog of minutes."""
    for index in range(TASKS if place else 0):
        yield TaskSample(
            index=index,
            input_rows_per_second=1000.0,
            processed_rows_per_second=2000.0 + index,
            input_bytes_per_second=100_000.0,
            backlog_records=1_000_000 if place == 1 else 0,
        )


if __name__ == "__main__":
    main()
