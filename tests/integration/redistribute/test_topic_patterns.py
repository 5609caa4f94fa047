"""A job that reads all topics of a pattern, on a real broker: topics come, grow, and go."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenTask
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import delete_topic
from penstock.spark.analysis.analyse import analyse
from penstock.spark.checkpoint import topics_in_offsets
from penstock.spark.inputs.identity import notes_in
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.sinks.kafka import ensure_topic
from penstock.spark.task import RunningTask, Runtime
from penstock.spark.topics import described
from tests.integration.redistribute.test_import import start_from
from tests.integration.redistribute.test_import import take_in as import_checkpoint
from tests.support.spark.application import Application
from tests.support.spark.hosts import REPLY_SECONDS, quick_start, running_host
from tests.support.spark.redistribution import (
    KEY_GROUPS,
    Events,
    Job,
    Keys,
    Row,
    job_config,
    output_topic,
    records_of,
    rows_of_topic,
)
from tests.support.spark.session import unique

QUERY = """
    SELECT src, k, window.start AS at, count(*) AS c, sum(v) AS s FROM events
    GROUP BY src, k, window(at, '10 seconds')
"""
_RUN_SECONDS = 120.0


class Family:
    """Topics of one form, with other rows in each."""

    def __init__(self, kafka: EmbeddedKafka, keys: Keys, *names: str) -> None:
        self.base = unique("orders")
        self.topics: dict[str, Events] = {}
        self._kafka, self._keys = kafka, keys
        self._fed: list[tuple[str, str, int, int]] = []
        for name in names:
            self.make(name)

    def topic(self, name: str) -> str:
        return f"{self.base}-{name}"

    def make(self, name: str, partitions: int = KEY_GROUPS) -> Events:
        """A further topic."""
        ensure_topic(self._kafka.bootstrap, self.topic(name), partitions)
        self.topics[name] = Events(self._kafka.bootstrap, self.topic(name), self._keys)
        return self.topics[name]

    def delete(self, name: str) -> None:
        """Deletes a topic, whose rows were read."""
        del self.topics[name]
        topic = self.topic(name)
        delete_topic(self._kafka.bootstrap, topic)
        wait_until(lambda: described(self._kafka.bootstrap, [topic])[topic].is_missing, 30, "the topic to be gone")

    def config(self, output: dict[str, Any], delay: str = "10 seconds", **more: Any) -> JobConfig:
        """A job that reads all of them, with a watermark delay."""
        config = job_config({"events": "x"}, "spark", output, **{"query": {"sql": QUERY}, **more})
        several = {"topic": None, "topic_pattern": f"{self.base}-.*", "metadata_columns": {"topic": "src"}}
        several["watermark_delay"] = delay
        events = config.inputs["events"].model_copy(update=several)
        return config.model_copy(update={"inputs": {"events": events}})

    def add(self, lo: int, hi: int, names: Iterable[str] | None = None) -> None:
        """Rows `lo` to `hi`, to all topics by default."""
        for name in [*self.topics] if names is None else names:
            events = self.topics[name]
            rows = [(self._keys.names[n * 7 % len(self._keys.names)], n, n * 0.5) for n in range(lo, hi)]
            events.add(rows)
            self._fed += [(events.topic, key, value, int(at)) for key, value, at in rows]

    def close(self) -> None:
        """Rows that close all windows."""
        for events in self.topics.values():
            events.add_far_future()

    def expected(self) -> Counter[Row]:
        """The answer of a batch over all that was added."""
        sums: dict[tuple[str, str, int], list[int]] = {}
        for src, key, value, at in self._fed:
            entry = sums.setdefault((src, key, at // 10), [0, 0])
            entry[0] += 1
            entry[1] += value
        return Counter((src, key, window, c, s) for (src, key, window), (c, s) in sums.items())  # type: ignore[misc]

    def written(self, job: Job) -> Counter[Row]:
        """What the job wrote."""
        rows = rows_of_topic(self._kafka.bootstrap, job.config.output.topic)
        return Counter((row["src"], row["k"], _window(row["at"]), row["c"], row["s"]) for row in rows)  # type: ignore[misc]


def _window(start: str) -> int:
    minutes, seconds = start[14:16], start[17:19]
    return (int(start[11:13]) * 3600 + int(minutes) * 60 + int(seconds)) // 10


def take_in(job: Job, index: int, *topics: str) -> None:
    """Runs a task until it has read all, also of these topics."""
    task = RunningTask(job.runtime, task_specs(job.name, job.layout)[index], epoch=1)
    reader = OldGeneration(job.runtime, job.name, job.layout)
    task.claim()

    def has_read() -> bool:
        return topics_in_offsets(task.checkpoint, job.runtime.files) >= set(topics) and reader.has_read_all(index)

    task.run_until(has_read, _RUN_SECONDS)


@pytest.mark.long
def test_a_topic_that_appears_is_read_whole_and_once_though_its_host_is_killed(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys, tmp_path: Path
) -> None:
    """1. A host reads two topics. 2. A third one appears, with a record that is malformed, and is read. 3. The host is
    killed in the middle. 4. This process goes on, with other tasks: the rows are those of a batch, each with its
    topic; the dead letter names its own."""
    family = Family(kafka, keys, "a", "b")
    # Nobody says how soon the third topic is seen: its rows must not be late by then.
    fields = {"delay": "1 hour", "task_count": 2, "max_records_per_trigger": 400}
    job = Job(runtime, family.config(output_topic(kafka.bootstrap), **fields))
    family.add(0, 600)
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    settings = runtime.settings.model_copy(update={**own, "inputs_interval_seconds": 0.5})
    specs = task_specs(job.name, job.layout)
    with running_host("killed", settings, tmp_path) as host:
        for spec in specs:
            assert host.start(spec).ok
        host.wait_for_records(specs[0].task_id, 400)
        third = family.make("c")
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(third.topic, key="k", value=b"no JSON", partition=0)
        assert producer.flush(30) == 0
        family.add(600, 1_000)
        reads = {family.topic(name) for name in "abc"}
        wait_until(lambda: set(host.progress[specs[0].task_id].offsets) == reads, 60, "the third topic")
        os.kill(host.host.pid, signal.SIGKILL)
        host.exit.result(REPLY_SECONDS)
    job.rescale(task_count=3)
    family.add(1_000, 1_100)
    family.close()
    for index in range(3):
        take_in(job, index, *reads)
    job.run()
    assert family.written(job) == family.expected()
    letters = records_of(kafka.bootstrap, f"{job.name}.dead-letters")
    assert {dict(letter.headers() or [])["penstock.topic"] for letter in letters} == {third.topic.encode()}


@pytest.mark.parametrize(
    "copied", [pytest.param(True, marks=pytest.mark.long), False], ids=["copied", "moved after the stop"]
)
def test_a_topic_that_only_one_task_has_seen_is_read_whole_and_once(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys, copied: bool
) -> None:
    """1. Two tasks have read two topics; their state is copied. 2. A third topic appears, and one task reads it: it is
    ahead of the other one. 3. A rescale: the other task reads on to its watermark, also in the third topic, which it
    sees for the first time. 4. A fourth topic appears that no task has seen."""
    family = Family(kafka, keys, "a", "b")
    job = Job(runtime, family.config(output_topic(kafka.bootstrap), task_count=2))
    family.add(0, 300)
    job.run()
    if copied:
        job.copy(task_count=3)
    family.make("c")
    family.add(300, 500)
    take_in(job, 0, family.topic("c"))
    report = job.rescale(task_count=3)
    assert (report.levelled, report.uncopied is None) == (1, True)
    assert (report.changed_rows is not None) is copied
    for index in range(3):
        there = topics_in_offsets(str(job.checkpoint(index)), runtime.files)
        assert there == {family.topic(name) for name in "abc"}
    family.make("d")
    family.add(500, 600)
    family.close()
    for index in range(3):
        take_in(job, index, family.topic("d"))
    job.run()
    assert family.written(job) == family.expected()


@pytest.mark.long
def test_a_job_goes_on_without_a_topic_that_was_deleted_only_when_it_says_so(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys
) -> None:
    """1. The tasks have read two topics, one of them is deleted. 2. A start is refused with its name, and a run that
    knows no start fails: nothing is passed over. 3. Once it is excluded, a rescale and starts go on with the other one,
    and the windows of both are written. 4. Made again, and not excluded any more, it is a new topic, which the source
    notes. 5. Excluded again, it is forgotten by a batch without rows."""
    family = Family(kafka, keys, "a", "b")
    job = Job(runtime, family.config(output_topic(kafka.bootstrap), task_count=2))
    family.add(0, 300)
    job.run()
    start(job)
    family.delete("b")
    family.add(300, 400)
    with pytest.raises(BrokenTask, match=f"{family.topic('b')}, which the pattern matched, was deleted"):
        start(job)
    with pytest.raises(Exception, match=f"metadata for topic `{family.topic('b')}` could not be found"):
        RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1).run_until(lambda: False, _RUN_SECONDS)

    every = job.config
    events = every.inputs["events"].model_copy(update={"excluded_topics": (family.topic("b"),)})
    job.config = every.model_copy(update={"inputs": {"events": events}})
    start(job)
    job.rescale(task_count=3)
    job.run()
    assert topics_in_offsets(str(job.checkpoint(2)), runtime.files) == {family.topic("a")}
    for index in range(3):
        start(job, index)
    family.make("b")
    job.config = every.model_copy(update={"task_count": 3})
    family.add(400, 500)
    for index in range(3):
        assert len(notes_in(runtime.files, str(job.checkpoint(index)))) == 1
        take_in(job, index, family.topic("b"))
        assert len(notes_in(runtime.files, str(job.checkpoint(index)))) == 2
        start(job, index)
    family.close()
    job.run()
    assert family.written(job) == family.expected()

    job.config = job.config.model_copy(update={"inputs": {"events": events}})
    task = RunningTask(runtime, task_specs(job.name, job.layout)[0], epoch=1)
    task.claim()
    only = {family.topic("a")}
    task.run_until(lambda: topics_in_offsets(task.checkpoint, runtime.files) == only, _RUN_SECONDS)


def start(job: Job, index: int = 0) -> None:
    """A start of a task, with all checks of one, and its end."""
    task = RunningTask(job.runtime, task_specs(job.name, job.layout)[index], epoch=1)
    task.start()
    task.stop(finish_pending=True)


@pytest.mark.long
def test_a_topic_with_another_number_of_partitions_is_named_and_not_read(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys, tmp_path: Path
) -> None:
    """1. A host reads one topic. 2. A topic with fewer partitions appears: its report says so, and has no offset of it;
    another start goes on without it. 3. What is new is refused: a job by its analysis, and a first start."""
    family = Family(kafka, keys, "a")
    job = Job(runtime, family.config(output_topic(kafka.bootstrap)))
    family.add(0, 300)
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    settings = runtime.settings.model_copy(update={**own, "inputs_interval_seconds": 0.5})
    (spec,) = task_specs(job.name, job.layout)
    told = f"the topic {family.topic('odd')} has 2 partitions, and key_groups is {KEY_GROUPS}"
    with running_host("odd", settings, tmp_path) as host:
        assert host.start(spec).ok
        host.wait_for_records(spec.task_id, 300)
        ensure_topic(kafka.bootstrap, family.topic("odd"), 2)
        wait_until(lambda: host.progress[spec.task_id].input_problems, 60, "the problem")
        assert told in host.progress[spec.task_id].input_problems["partitions_not_read"]
        assert host.stop(spec.task_id).ok
        assert host.start(spec, 2).ok
        family.add(300, 400)
        host.wait_for_records(spec.task_id, 100)
        assert set(host.progress[spec.task_id].offsets) == {family.topic("a")}
        assert host.stop(spec.task_id, finish_pending=True).ok
    (problem,) = analyse(runtime.spark, runtime.settings, "new", job.config).problems
    assert (problem.field, problem.rule) == ("inputs.events.topic_pattern", "key_groups_of_topic")
    assert told in problem.detail
    with pytest.raises(BrokenTask, match=told):
        start(Job(runtime, job.config))


@pytest.mark.long
def test_an_application_with_a_subscribed_pattern_goes_on_as_a_job(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys, tmp_path: Path
) -> None:
    """1. Spark's own source reads two topics by a pattern. 2. Its checkpoint is imported. 3. A third topic appears. A
    job of three tasks reads on, and the third from its beginning: as a job that has read all of them."""
    family = Family(kafka, keys, "a", "b")
    family.add(0, 200)

    def summed(inputs: Mapping[str, DataFrame]) -> DataFrame:
        return inputs["events"].groupBy("k").agg(F.count("*").alias("c"), F.sum("v").alias("s"))

    topics = {"events": f"{family.base}-.*"}
    application = Application(runtime.spark, kafka.bootstrap, topics, tmp_path / "application", summed)
    application.run()
    sql = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
    fields = {"query": sql, "output_mode": "update", "task_count": 3}
    job = Job(runtime, family.config(output_topic(kafka.bootstrap), **fields))
    import_checkpoint(job, application.checkpoint)
    assert start_from(job).state_rows == 60
    family.make("c")
    family.add(200, 300)
    for index in range(3):
        take_in(job, index, family.topic("c"))
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")
