"""State that is copied while a job runs, and brought up to date after its stop."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.task import Runtime
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
WINDOW = {"sql": "SELECT window.start AS w, k, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), k"}
JOIN = {
    "sql": "SELECT a.k, a.v, b.v AS bv FROM events a LEFT JOIN others b "
    "ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 4 SECONDS"
}


@pytest.fixture(scope="module")
def keys(runtime: Runtime) -> Keys:
    return Keys(runtime.spark, "spark")


@pytest.fixture
def events(kafka: EmbeddedKafka, keys: Keys) -> Events:
    return Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), keys)


def make_job(runtime: Runtime, events: Events, query: dict[str, str], **more: Any) -> Job:
    topics = {"events": events.topic} | more.pop("topics", {})
    return Job(runtime, job_config(topics, "spark", output_topic(events.bootstrap), query=query, **more))


@pytest.mark.parametrize(
    ("query", "mode", "backend", "threads"),
    [(SUM, "update", "heap", 2), (WINDOW, "append", "rocksdb", 1)],
    ids=["sum-heap", "window-rocksdb"],
)
def test_only_what_changed_since_the_copy_moves_after_the_stop(
    runtime: Runtime, events: Events, query: dict[str, str], mode: str, backend: str, threads: int
) -> None:
    """1. Copied. 2. Rows come: keys change, and windows close, so that rows of state go. 3. Rescaled, twice."""
    events.add_range(0, 300)
    job = make_job(runtime, events, query, output_mode=mode, state_backend=backend, task_count=2)
    job.run()
    for phase, change in enumerate(({"task_count": 3}, {"task_count": 1, "threads_per_task": threads}), 1):
        copied = job.copy(**change)
        assert copied.rows > 0
        events.add_range(phase * 300, phase * 300 + 150)
        job.run()
        report = job.rescale(**change)
        assert report.changed_rows is not None
        assert report.changed_rows > 0
        events.add_range(phase * 300 + 150, phase * 300 + 300)
        if phase == 2:
            events.add_far_future()
        job.run()
    unsplit = job.unsplit()
    assert (job.last_rows("k"), unsplit.last_rows("k")) if mode == "update" else (job.rows(), unsplit.rows())
    if mode == "update":
        assert job.last_rows("k") == unsplit.last_rows("k")
    else:
        assert job.rows() == unsplit.rows()
