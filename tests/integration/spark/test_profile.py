"""A staging run of a job's query on a real host: a rate comes out, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import Reply
from penstock.spark.settings import SparkSettings
from penstock.tasks.profile import ProfileReport, ProfileRequest
from tests.support.spark.hosts import Supervisor, job_config, make_topic, produce, run_host_task

RUN_SECONDS = 60.0
SUMS = "SELECT n % 50 AS k, sum(n) AS total FROM events GROUP BY n % 50"


@pytest.mark.long
def test_a_run_measures_what_a_task_does_and_leaves_nothing_behind(
    shared_host: Supervisor, kafka: EmbeddedKafka, shared_folder: Path, shared_settings: SparkSettings
) -> None:
    """1. A topic without rows: there is nothing to measure. 2. With rows in small batches: the rate, the state, and
    that all was read. 3. The output is not there, and neither is the run's checkpoint. 4. A query that fails says
    why."""
    topic, output = make_topic(kafka.bootstrap, 2), {"type": "files", "path": str(shared_folder / "profiled")}
    more = {"query": {"sql": SUMS}, "output_mode": "update", "max_records_per_trigger": 100}
    config = job_config(topic, 2, output, **more)

    def run(number: int, seconds: int, **changed: Any) -> Reply:
        asked = config.model_copy(update=changed)
        request = ProfileRequest(job="profiled", number=number, seconds=seconds, config=asked)
        return shared_host.host.send(run_host_task(request)).result(RUN_SECONDS)

    nothing = run(1, 5)
    assert "no row came from" in str(nothing.error)
    produce(kafka.bootstrap, topic, [{"n": n, "word": "w"} for n in range(2000)], 2)
    done = run(2, 60)
    assert done.ok, done.error
    report = ProfileReport.model_validate(done.result)
    assert (report.read_all, report.key_groups, report.state_rows) == (True, 2, 50)
    assert (report.rows, report.batches) == (1800, 18)
    assert 0 < (report.low_rows_per_second or 0) <= (report.rows_per_second or 0)
    assert not (shared_folder / "profiled").exists()
    assert list(Path(shared_settings.spark_local_dir or "/tmp").glob("profile-*")) == []
    bad = run(3, 60, query=config.query.model_copy(update={"sql": "SELECT raise_error('bad luck') AS k FROM events"}))
    assert "bad luck" in str(bad.error)
