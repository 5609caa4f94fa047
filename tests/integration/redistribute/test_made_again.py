"""An input topic that is deleted and made again is refused in each way in which a job goes on from its offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.control.errors import BrokenTask
from penstock.control.process import wait_until
from penstock.local.topics import delete_topic
from penstock.spark.inputs.identity import notes_in, require_same_topics
from penstock.spark.inputs.topic_checks import input_topics
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.take import take
from penstock.spark.sinks.kafka import ensure_topic
from penstock.spark.task import RunningTask, Runtime
from penstock.spark.topics import described
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, job_config, output_topic

QUERY = {"sql": "SELECT k, v FROM events"}


def note(job: Job) -> None:
    """As each start does."""
    topics = input_topics(job.config, job.runtime.settings.cluster)
    for index in range(job.config.task_count):
        require_same_topics(job.runtime.files, str(job.checkpoint(index)), topics)


def make_again(events: Events) -> None:
    """With more rows than before."""
    delete_topic(events.bootstrap, events.topic)
    wait_until(lambda: described(events.bootstrap, [events.topic])[events.topic].is_missing, 30, "it to be gone")
    ensure_topic(events.bootstrap, events.topic, KEY_GROUPS)
    events.add_range(0, 120)


def test_generations_and_savepoints_know_the_topic(runtime: Runtime, events: Events) -> None:
    """1. A job has read and is saved; a rescale and a clone of it that has not begun. 2. The topic is made again."""
    output = output_topic(events.bootstrap)
    job = Job(runtime, job_config({"events": events.topic}, "spark", output, query=QUERY, task_count=2))
    unread = Job(runtime, job.config.model_copy(update={"task_count": 1}))
    events.add_range(0, 60)
    job.run()
    note(job)
    note(unread)
    take(runtime, SavepointRequest(job=job.name, name="nightly", number=1, layout=job.layout, earlier=()))
    saved = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="nightly")})
    for each in (job, unread):
        each.rescale(task_count=3)
        assert [len(notes_in(runtime.files, str(each.checkpoint(index)))) for index in range(3)] == [1, 1, 1]
    make_again(events)
    goes_on: list[Callable[[], object]] = [
        lambda: redistribute(runtime, job.target(task_count=2)),
        lambda: redistribute(runtime, unread.target(task_count=2)),
        lambda: redistribute(runtime, RedistributionRequest(job="clone", source=saved, target=job.layout)),
        RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1).finish_pending,
    ]
    for way in goes_on:
        with pytest.raises(BrokenTask, match="was deleted and made again"):
            way()
