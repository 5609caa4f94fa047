"""A job that writes to Kafka at least once: no row is lost by a rescale or with a savepoint, and the rows that are
there twice are those of one batch, whole: it was written, and its commit was lost."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.spark.checkpoint import last_commit
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.savepoint.take import take
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.redistribution import Events, Job, Row, job_config, output_topic
from tests.support.spark.session import forget_last_commit

pytestmark = pytest.mark.long
COPY = {"sql": "SELECT k, v FROM events"}


def make_job(runtime: Runtime, events: Events) -> Job:
    output = {**output_topic(events.bootstrap), "delivery": "at_least_once"}
    return Job(runtime, job_config({"events": events.topic}, "spark", output, query=COPY, task_count=2))


def loses_a_commit(job: Job, events: Events) -> Counter[Row]:
    """Both tasks read; then task 0 writes one more batch, and dies before its commit. The rows of this batch."""
    events.add_range(0, 300)
    job.run()
    before, batch = job.rows(), last_commit(str(job.checkpoint(0)))
    events.add_range(300, 400)
    job.run([0])
    assert batch is not None
    assert forget_last_commit(job.checkpoint(0)) == batch + 1
    written = job.rows() - before
    assert written
    return written


def test_a_rescale_repeats_the_batch_whose_commit_was_lost_and_nothing_else(runtime: Runtime, events: Events) -> None:
    """1. A task dies between a batch and its commit. 2. The rescale finishes the batch first, so writes it again. 3.
    Three tasks read the rest."""
    job = make_job(runtime, events)
    written = loses_a_commit(job, events)
    assert job.rescale(task_count=3).settled == 1
    events.add_range(400, 500)
    job.run()
    assert job.rows() == job.unsplit().rows() + written


def test_a_job_that_begins_with_a_savepoint_repeats_the_batch_that_is_not_in_it(
    runtime: Runtime, events: Events
) -> None:
    """1. A task dies between a batch and its commit. 2. A savepoint is taken: the batch is not in it. 3. Another job
    of three tasks begins with it, and writes to the same topic: the batch again, and the rest."""
    job = make_job(runtime, events)
    written = loses_a_commit(job, events)
    take(job.runtime, SavepointRequest(job=job.name, name="s", number=1, layout=job.layout, earlier=()))
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="s")})
    other = Job(job.runtime, job.config.model_copy(update={"task_count": 3}))
    redistribute(job.runtime, RedistributionRequest(job=other.name, source=source, target=other.layout))
    events.add_range(400, 500)
    other.run()
    assert other.rows() == other.unsplit().rows() + written
