"""A job that reads all topics of a pattern, on a real broker: topics come, grow, and go."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import delete_topic
from penstock.spark.checkpoint import topics_in_offsets
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.sinks.kafka import ensure_topic
from penstock.spark.task import RunningTask, Runtime
from penstock.spark.topics import described
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

    def config(self, output: dict[str, Any], **more: Any) -> JobConfig:
        """A job that reads all of them."""
        config = job_config({"events": "x"}, "spark", output, **{"query": {"sql": QUERY}, **more})
        several = {"topic": None, "topic_pattern": f"{self.base}-.*", "metadata_columns": {"topic": "src"}}
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


def test_a_topic_that_appears_is_read_whole_and_once_though_its_host_is_killed(
    runtime: Runtime, kafka: EmbeddedKafka, keys: Keys, tmp_path: Path
) -> None:
    """1. A host reads two topics. 2. A third one appears, with a record that is malformed, and is read. 3. The host is
    killed in the middle. 4. This process goes on, with other tasks: the rows are those of a batch, each with its
    topic; the dead letter names its own."""
    family = Family(kafka, keys, "a", "b")
    job = Job(runtime, family.config(output_topic(kafka.bootstrap), task_count=2, max_records_per_trigger=200))
    family.add(0, 1_000)
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
        family.add(1_000, 2_000)
        reads = {family.topic(name) for name in "abc"}
        wait_until(lambda: set(host.progress[specs[0].task_id].offsets) == reads, 60, "the third topic")
        os.kill(host.host.pid, signal.SIGKILL)
        host.exit.result(REPLY_SECONDS)
    job.rescale(task_count=3)
    family.add(2_000, 2_100)
    family.close()
    for index in range(3):
        take_in(job, index, *reads)
    job.run()
    assert family.written(job) == family.expected()
    letters = records_of(kafka.bootstrap, f"{job.name}.dead-letters")
    assert {dict(letter.headers() or [])["penstock.topic"] for letter in letters} == {third.topic.encode()}
