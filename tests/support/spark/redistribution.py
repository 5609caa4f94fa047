"""Jobs that are redistributed in this process: their data, their tasks' runs, and what they wrote.

Records are `{"k": ..., "v": ..., "at": ...}`; key groups are chosen as a job's input says (`spark` or `kafka`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import JobConfig
from penstock.kafka.access import Brokers, kafka_at
from penstock.spark.files import local_path
from penstock.spark.redistribute.copy import copy_state
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.positions import task_specs, trace
from penstock.spark.settings import SparkSettings
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.redistribution import CopyReport, CopyRequest, Layout, RedistributionReport, RedistributionRequest
from penstock.tasks.spec import key_group_ranges
from tests.support.spark.hosts import make_topic
from tests.support.spark.session import unique

KEY_GROUPS = 6
VALUE_SCHEMA = "k STRING, v BIGINT, at TIMESTAMP"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_RUN_SECONDS = 300.0

Row = tuple[tuple[str, Any], ...]


def runtime_in(session: SparkSession, settings: SparkSettings) -> Runtime:
    """What a host gives to its tasks, with the session of this process."""
    return Runtime(session, settings, "test")


class Keys:
    """Keys `k0`, `k1`, ... and the key groups that producers put them into."""

    def __init__(self, session: SparkSession, function: str, count: int = 60) -> None:
        self.group_of = _groups(session, function, count)
        self.names = list(self.group_of)

    def one_of_each_group(self) -> list[str]:
        """A key of each key group."""
        by_group = {group: name for name, group in self.group_of.items()}
        return [by_group[group] for group in range(KEY_GROUPS)]


@cache
def _groups(session: SparkSession, function: str, count: int) -> dict[str, int]:
    names = [f"k{number}" for number in range(count)]
    return _spark_groups(session, names) if function == "spark" else _kafka_groups(session, names)


def _spark_groups(session: SparkSession, names: Sequence[str]) -> dict[str, int]:
    frame = session.createDataFrame([(name,) for name in names], "k string")
    return {row.k: row.g for row in frame.select("k", F.pmod(F.hash("k"), F.lit(KEY_GROUPS)).alias("g")).collect()}


def _kafka_groups(session: SparkSession, names: Sequence[str]) -> dict[str, int]:
    utils = session._jvm.org.apache.kafka.common.utils.Utils  # type: ignore[union-attr]
    return {name: (utils.murmur2(name.encode()) & 0x7FFFFFFF) % KEY_GROUPS for name in names}


@dataclass(frozen=True)
class Events:
    """Writes records to a topic of `KEY_GROUPS` partitions."""

    bootstrap: str
    topic: str
    keys: Keys

    def add(self, rows: Iterable[tuple[str, int, float]]) -> None:
        """Rows of key, value and seconds after `BEGIN`."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for key, value, seconds in rows:
            producer.produce(self.topic, **self.record(key, value, seconds))
        assert producer.flush(30) == 0

    def record(self, key: str, value: int, seconds: float) -> dict[str, Any]:
        """The record of a row, with its partition."""
        row = {"k": key, "v": value, "at": (BEGIN + timedelta(seconds=seconds)).isoformat()}
        return {"key": key, "value": json.dumps(row), "partition": self.keys.group_of[key]}

    def add_range(self, lo: int, hi: int) -> None:
        """Row n: of a key that comes every few rows, out of order by up to 3 s, now and then the same as before."""
        names = self.keys.names
        self.add((names[n * 7 % len(names)], n // 3 * 3, n // 3 * 0.5 - n % 4) for n in range(lo, hi))

    def add_far_future(self) -> None:
        """A row of each key group that closes every window."""
        self.add((key, -1, 1_000_000) for key in self.keys.one_of_each_group())


@dataclass
class Job:
    """A job with one generation of checkpoints at a time."""

    runtime: Runtime
    config: JobConfig
    name: str = field(default_factory=lambda: unique("job"))
    generation: int = 1

    @property
    def layout(self) -> Layout:
        """The present generation."""
        return Layout(generation=self.generation, config=self.config, ranges=key_group_ranges(self.config))

    def run(self, indices: Iterable[int] | None = None) -> None:
        """Runs tasks, all by default, until they have read all that there is and done what its watermark asks for."""
        chosen = range(self.config.task_count) if indices is None else indices
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._run_task, chosen))

    def _run_task(self, index: int) -> None:
        task = RunningTask(self.runtime, task_specs(self.name, self.layout)[index], epoch=1)
        reader = OldGeneration(self.runtime, self.name, self.layout)
        task.claim()
        task.run_until(lambda: reader.has_read_all(index) and self._is_quiet(index), _RUN_SECONDS)

    def _is_quiet(self, index: int) -> bool:
        """Whether no batch without data is to come, in which Spark emits and evicts what the last data allow."""
        checkpoint, files = self.runtime.checkpoint(self.name, self.generation, index), self.runtime.files
        last = trace(checkpoint, files)
        if last.batch is None or not files.names(f"{checkpoint}/state"):
            return True
        return last.watermark_ms == last.batch.metadata["batchWatermarkMs"]

    def watermark_ms(self, index: int) -> int:
        """The watermark of a stopped task."""
        return trace(self.runtime.checkpoint(self.name, self.generation, index), self.runtime.files).watermark_ms

    def rows(self) -> Counter[Row]:
        """What the job wrote to its Kafka topic, never nothing."""
        return _counted(rows_of_topic(self.runtime.settings.kafka_bootstrap, self.config.output.topic))

    def last_rows(self, key: str) -> Counter[Row]:
        """The last row of each key: what the job wrote in update mode."""
        rows = rows_of_topic(self.runtime.settings.kafka_bootstrap, self.config.output.topic)
        return _counted({row[key]: row for row in rows}.values())

    def checkpoint(self, index: int) -> Path:
        """The checkpoint of a task of the present generation."""
        return local_path(self.runtime.checkpoint(self.name, self.generation, index))

    def unsplit(self) -> Job:
        """The same job as one task, with an output of its own, run over all that there is."""
        output = self.config.output.model_copy(update={"topic": make_topic(self.runtime.settings.kafka_bootstrap, 1)})
        job = Job(
            self.runtime, self.config.model_copy(update={"output": output, "task_count": 1, "threads_per_task": 1})
        )
        job.run()
        return job

    def target(self, **changes: Any) -> RedistributionRequest:
        """What asks for the next generation, with some fields of the configuration changed."""
        config = self.config.model_copy(update=changes)
        layout = Layout(generation=self.generation + 1, config=config, ranges=key_group_ranges(config))
        return RedistributionRequest(job=self.name, source=self.layout, target=layout)

    def copy(self, **changes: Any) -> CopyReport:
        """The state is copied for the next generation; the tasks may run or not."""
        request = self.target(**changes)
        return copy_state(self.runtime, CopyRequest(job=request.job, source=request.source, target=request.target))

    def rescale(self, **changes: Any) -> RedistributionReport:
        """The next generation takes over."""
        request = self.target(**changes)
        report = redistribute(self.runtime, request)
        self.config, self.generation = request.target.config, request.target.generation
        return report


def job_config(inputs: Mapping[str, str], key_function: str, output: Mapping[str, Any], **more: Any) -> JobConfig:
    """A job over `inputs`, names to topics, with event time and 10 s of delay."""
    source = {
        "key_groups": KEY_GROUPS,
        "value_schema": VALUE_SCHEMA,
        "key_function": key_function,
        "key_columns": ["k"],
        "event_time_column": "at",
        "watermark_delay": "10 seconds",
    }
    fields = {
        "inputs": {name: {"topic": topic, **source} for name, topic in inputs.items()},
        "output": output,
        "trigger_interval_seconds": 0,
        **more,
    }
    return JobConfig.model_validate(fields)


def _counted(rows: Iterable[Mapping[str, Any]]) -> Counter[Row]:
    counts = Counter(tuple(sorted(row.items())) for row in rows)
    assert counts
    return counts


def rows_of_topic(brokers: Brokers, topic: str) -> list[dict[str, Any]]:
    """The values of all committed records of partition 0, in order."""
    return [json.loads(record.value()) for record in records_of(brokers, topic)]


def records_of(brokers: Brokers, topic: str) -> list[Message]:
    """All committed records of partition 0, in order."""
    settings = kafka_at(brokers).client_settings()
    consumer = Consumer({**settings, "group.id": unique("read"), "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return list(_until_end(consumer))
    finally:
        consumer.close()


def _until_end(consumer: Consumer) -> Iterator[Message]:
    while True:
        record = consumer.poll(30)
        assert record is not None
        if record.error() is not None:
            return
        yield record


def deduplicated(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `dropDuplicates`, which SQL does not have."""
    return inputs["events"].dropDuplicates(["k", "at"])


def deduplicated_within(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query: `dropDuplicatesWithinWatermark`."""
    return inputs["events"].dropDuplicatesWithinWatermark(["k", "v"])


def with_own_watermark(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A Python query that makes its watermark itself, of which the configuration knows nothing."""
    return inputs["events"].withWatermark("at", "10 seconds").dropDuplicatesWithinWatermark(["k", "v"])


def settings_below(folder: Path, bootstrap: str, **more: Any) -> SparkSettings:
    """Settings of the runtime, with checkpoints below `folder`."""
    checkpoints = str(folder / "checkpoints")
    return SparkSettings(checkpoint_root=checkpoints, kafka_bootstrap=bootstrap, path_roots=("/",), **more)


def output_topic(bootstrap: str) -> dict[str, Any]:
    """An exactly-once Kafka output of its own, of one partition."""
    return {"type": "kafka", "topic": make_topic(bootstrap, 1)}
